"""The base of every model: frozen, strict, closed to unknown keys."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict, StringConstraints, WithJsonSchema

from diel.values import parse_duration, parse_size

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$"
RESERVED_NAMES = frozenset(
    {"hp", "params", "inputs", "outputs", "files", "task", "run", "and", "or", "not", "in", "if"}
    | {"else", "true", "false", "null", "True", "False", "None", "is", "for", "lambda"}
)


class Model(BaseModel):
    """A frozen model that refuses unknown keys and silent conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=64)]

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "examples": ["90s", "10m", "1h30m", "01:30:00"]}),
]
"""Seconds, written with a unit."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"type": "string", "examples": ["512MiB", "4GiB"]}),
]
"""Bytes, written with a unit."""

Json = Any
"""A YAML value: null, boolean, number, string, list or mapping of these."""

Number = int | float

T = TypeVar("T")
Items = Annotated[tuple[T, ...], Strict(False)]
"""A YAML list, kept as a tuple; its items stay strict."""
