"""An expression that holds or does not: the `until` of searches and loops, the `when` of hyperparameters."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from diel.spec.model import Text, found, refuse


def _expression(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        hint = "write a comparison, such as `validate.error < 0.01`; what never changes decides nothing"
        raise refuse(f"expected an expression, found {found(value)}", hint)
    if isinstance(value, str) and not value.strip():
        raise refuse("expected an expression, found an empty text", "leave the key out, or write one")
    return value


Condition = Annotated[Text, Field(min_length=1), BeforeValidator(_expression)]
"""The text of an expression, with or without `${{ }}` around it."""
