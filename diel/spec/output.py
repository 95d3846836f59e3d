"""An output of a command: a file that it writes, or a value that it reports."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, model_validator

from diel.spec.model import Model, found, refuse

_EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)


def path_flaw(path: str) -> str:
    """Why a path leaves the task's directory or names no file in it; empty where it is good.

    To be asked twice: of the text in the workflow, and of the path once its expressions are filled in.
    """
    if "\0" in path:
        return "a NUL character can be no part of a path"
    if path.startswith("/"):
        return "an absolute path leaves the task's directory"
    if path.startswith("~"):
        return "a path that starts with ~ leaves the task's directory"
    parts = path.split("/")
    if ".." in parts:
        return "a path with `..` leaves the task's directory"
    if all(part in ("", ".") for part in parts):
        return "the path names no file"
    return ""


class Output(Model):
    """Exactly one of a file and a value; a text alone is short for `{path: TEXT}`."""

    path: str | None = Field(default=None, description="File in the task's directory, relative to it.")
    value: Literal["int", "float", "str", "bool", "list", "dict"] | None = Field(
        default=None, description="Type of a value that the command writes to the file DIEL_RESULT."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"path": value}
        if not isinstance(value, dict | cls):
            raise refuse(f"expected a file name, found {found(value)}", "for instance `energy.csv`")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Output:
        if self.path is not None and self.value is not None:
            raise refuse("an output is a file or a value, found both `path` and `value`", "drop one of them")
        if self.path is None and self.value is None:
            hint = "write `path: FILE` for a file, or `value: float` for a number in DIEL_RESULT"
            raise refuse("expected `path` or `value`, found neither", hint)
        flaw = "" if self.path is None else path_flaw(_EXPRESSION.sub("x", self.path))
        if flaw:
            raise refuse(
                f"{flaw}: {found(self.path)}", "write a path relative to the task's directory", "path"
            )
        return self
