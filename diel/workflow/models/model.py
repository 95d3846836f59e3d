"""The base of every model: frozen, strict, closed to unknown keys."""

import keyword
import math
import os
import re
from collections.abc import Iterable
from operator import attrgetter
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    Strict,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core.core_schema import (
    CoreSchema,
    no_info_after_validator_function,
    no_info_plain_validator_function,
)

from diel.base.values import parse_duration, parse_size

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$"
RESERVED_NAMES = frozenset(
    {"hp", "params", "inputs", "outputs", "files", "task", "run", "launcher"}
    | {*keyword.kwlist, "true", "false", "null"}
)
_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
MAX_POINTS = 10**9
"""The most points that one axis may have."""

Key = tuple[str | int, ...]
"""A place in a file: the keys and indices that lead to it."""


class SpecModel(BaseModel):
    """A frozen model that refuses unknown keys and silent conversions."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, defer_build=True
    )

    @classmethod
    def model_rebuild(cls, **how: Any) -> bool | None:
        """Build it without pydantic's plugins: the search reads a file of every installed package."""
        before = os.environ.get(_PLUGINS)
        os.environ[_PLUGINS] = "__all__"
        try:
            return super().model_rebuild(**how)
        finally:
            del os.environ[_PLUGINS]
            os.environ |= {} if before is None else {_PLUGINS: before}

    def flaws(self) -> "Iterable[Violation]":
        """Return the flaws of its fields together."""
        return ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if flaws := [*self.flaws()]:
            raise Violations(*flaws)
        return self


def written_as(expected: str, hint: str, *, text: str = "", true: bool = False) -> Any:
    """Make a validator that refuses all but mappings, a text for one key, and `true` for the defaults."""

    def check(cls: type[SpecModel], value: Any) -> Any:
        if text and isinstance(value, str):
            return {text: value}
        if true and value is True:
            return {}
        if not isinstance(value, dict | cls):
            raise refuse(f"expected {expected}, found {quote(value)}", hint)
        return value

    return model_validator(mode="before")(check)


def optional(description: str, default: Any = None, **bounds: Any) -> Any:
    """Return an optional key with its default; the bounds are those of pydantic's `Field`."""
    return Field(default=default, description=description, **bounds)


M = TypeVar("M")


def plain(spec: M) -> M:
    """Return a model's fields and properties without pydantic, for processes that must not load it."""
    if not isinstance(spec, SpecModel):
        return spec
    own = [base for base in type(spec).__mro__ if issubclass(base, SpecModel)]
    properties = [name for base in own for name, value in vars(base).items() if isinstance(value, property)]
    fields = {name: plain(getattr(spec, name)) for name in (*type(spec).model_fields, *properties)}
    return cast("M", SimpleNamespace(**fields))


class _Later:
    def __get_pydantic_core_schema__(self, model: type[SpecModel], _: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_plain_validator_function(model.model_validate)


Later = Annotated[M, _Later()]
"""A model that is built once a file uses it: `validate` starts sooner without the others."""


class StoredAs:
    """Says how a file writes a field that keeps something else: a property of that model."""

    def __init__(self, model: type[SpecModel], attribute: str) -> None:
        self.model = model
        self._take = attrgetter(attribute)

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._take, handler.generate_schema(self.model))


class Violation(NamedTuple):
    """A mistake in a workflow: the message, a hint, the path of its key."""

    message: str
    hint: str = ""
    key: Key = ()
    offset: int | None = None
    """Characters into the text of the key's value, if the trouble begins later."""
    at_key: bool = False
    """Whether the key is wrong, not its value."""


class Violations(ValueError):
    """Raised by a validator: each flaw becomes a problem at its own place in the file."""

    def __init__(self, *flaws: Violation) -> None:
        self.flaws = flaws
        super().__init__("; ".join(flaw.message for flaw in flaws))


def refuse(message: str, hint: str = "", *key: str | int) -> Violations:
    """Return the error to raise for a single flaw."""
    return Violations(Violation(message, hint, key))


def quote(value: Any) -> str:
    """Return a value as a message shows it: quoted, short, in YAML's words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else (".inf" if value > 0 else "-.inf")
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def free_name(name: str, info: ValidationInfo) -> str:
    """Refuse a name with a meaning of its own in expressions, once: `context` says that it was told."""
    if info.context is None and name.rpartition(".")[2] in RESERVED_NAMES:
        raise refuse(f"'{name}' has its own meaning in expressions", f"choose another name, such as {name}_")
    return name


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise refuse(f"expected a finite number, found {quote(value)}")
    return value


def _positive(value: float) -> float:
    if value <= 0:
        raise refuse("expected more than zero")
    return value


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise refuse("a path, a word or a variable cannot hold a NUL character")
    return text


_BREAK = re.compile("[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")
"""Characters that end a line for some readers, or are not text."""


def _one_line(text: str) -> str:
    if _BREAK.search(text):
        hint = "write each line as an item of its own"
        raise refuse(f"expected one line without control characters, found {quote(text)}", hint)
    return text


def filled(kind: type, message: str, hint: str) -> BeforeValidator:
    """Make a validator that refuses an empty list or mapping."""

    def check(value: Any) -> Any:
        if isinstance(value, kind) and not value:
            raise refuse(message, hint)
        return value

    return BeforeValidator(check)


def no_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a list that names something twice."""
    first = {name: place for place, name in reversed([*enumerate(names)])}
    again = [(place, name) for place, name in enumerate(names) if place > first[name]]
    if again:
        raise Violations(
            *(Violation(f"'{name}' is there twice", "drop the second", (place,)) for place, name in again)
        )
    return names


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=64)]

Label = Annotated[Name, AfterValidator(free_name)]
"""The name of an axis, a parameter of an axis, a stage or a hyperparameter: expressions read it bare."""

InnerName = Annotated[str, StringConstraints(pattern=NAME_PATTERN[:-1] + r"(\.[A-Za-z][A-Za-z0-9_]*)*$")]
"""A name in another workflow, which may have it from a third one: `scf`, `relax.scf`."""

Text = Annotated[str, AfterValidator(_no_nul)]
"""Text that the operating system gets as a path, a word or a variable."""

Line = Annotated[str, AfterValidator(_one_line)]
"""One line for a shell, or one option of a scheduler."""

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(lambda seconds: f"{seconds}s", when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["90s", "10m", "1h30m", "01:30:00"]}),
]
"""Seconds, written with a unit."""

Limit = Annotated[Duration, AfterValidator(_positive)]
"""A duration above zero."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    AfterValidator(_positive),
    PlainSerializer(lambda size: f"{size}B", when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["512MiB", "4GiB"]}),
]
"""Bytes, written with a unit."""

Json = Any
"""A YAML value: null, boolean, number, string, list or mapping of these."""

Number = Annotated[int | float, BeforeValidator(_finite)]
"""A finite number; a whole number stays one."""

T = TypeVar("T")
Items = Annotated[tuple[T, ...], Strict(False)]
"""A YAML list, kept as a tuple; its items stay strict."""

Unique = Annotated[Items[T], AfterValidator(no_repeats)]
"""The same, of names that are there once each."""
