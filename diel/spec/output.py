"""An output of a command: a file that it writes, or a value that it reports."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from diel.spec.model import Model


class Output(Model):
    """Exactly one of a file and a value; a text alone is short for `{path: TEXT}`."""

    path: str | None = Field(
        None, min_length=1, description="File in the task's directory, relative to it."
    )
    value: Literal["int", "float", "str", "bool", "list", "dict"] | None = Field(
        None, description="Type of a value that the command writes to the file DIEL_RESULT."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_of(self) -> Output:
        if (self.path is None) == (self.value is None):
            raise ValueError("expected exactly one of `path` and `value`")
        return self
