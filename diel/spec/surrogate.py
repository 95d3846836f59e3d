"""A surrogate: a service that a simulation asks first; it runs only if the answer is too unsure."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from diel.spec.model import Limit, Name, SpecModel, Text, Unique, found, optional, refuse, written_as

_TOLERANCE = "write a number above 0, in the unit of the output; .inf takes every answer"


def _tolerance(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(f"expected a number, found {found(value)}", _TOLERANCE)
    if math.isnan(value) or value <= 0:
        raise refuse(f"expected more than zero, found {found(value)}", _TOLERANCE)
    return float(value)


_SHARE = "write a number above 0 and at most 1: 0.05 simulates one in twenty"


def _share(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(f"expected a number, found {found(value)}", _SHARE)
    if not 0 < value <= 1:
        raise refuse(f"expected a share, found {found(value)}", _SHARE)
    return float(value)


class Surrogate(SpecModel):
    """Whom a stage's tasks ask, and how sure the answer must be."""

    service: Text = Field(description="The service that is asked: it returns a value and its uncertainty.")
    tolerance: Annotated[float, BeforeValidator(_tolerance)] = Field(
        description="Largest uncertainty at which the answer is the task's result, in the output's unit."
    )
    relative: bool = optional("Whether the tolerance is a fraction of the value instead.", False)
    inputs: Unique[Name] = optional("Parameters that are sent; all numbers if absent.", ())
    outputs: Unique[Name] = optional("Values that are answered; the stage's only value if absent.", ())
    audit: Annotated[float, BeforeValidator(_share)] | None = optional(
        "Share of the answered tasks that are simulated all the same, to see how far answers are off."
    )
    seed: int = optional("Draws the tasks that are audited.", 0)
    timeout: Limit = optional("How long a task waits for an answer before it simulates.", 10.0)

    _short = written_as("a mapping", "write {service: NAME, tolerance: 0.02}")
