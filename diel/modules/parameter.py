"""One parameter of a module, and whether a value of a workflow fits it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from diel.modules.annotations import Annotations, Injected

Passed = Literal["name", "place", "spread"]
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_CHUNK = 10_000
"""Values of an axis that are looked at together."""
_TRUTHS = frozenset({"yes", "no", "on", "off", "true", "false"})


@dataclass(frozen=True)
class Parameter:
    """A parameter of a module's function."""

    name: str
    annotation: str = ""
    """Its type as written; empty if it has none."""
    required: bool = False
    default: Any = None
    """The default; as text in angle brackets if it is not a literal; None if required."""
    injected: Injected | None = None
    """What diel fills in for it; None if the workflow gives its value."""
    node: ast.expr | None = field(default=None, compare=False, repr=False)
    names: Annotations | None = field(default=None, compare=False, repr=False)
    passed: Passed = "name"
    """How a call gives it: by its name, by its place, or as all further arguments, one an item."""
    takes: frozenset[str] = frozenset()
    """What it accepts, according to the annotation: `path`, `array`, `paths` and `arrays` for lists of
    them, `int`, `float`, `str`, `bool`, `list`, `dict`, and `any` for what cannot be followed."""

    def __getstate__(self) -> dict[str, Any]:
        """All but the validator: who calls the function checks nothing, and may have no pydantic."""
        return {name: value for name, value in self.__dict__.items() if name != "_adapter"}

    @property
    def takes_path(self) -> bool:
        """Whether a file arrives as a Path, and several as Paths."""
        return "path" in self.takes or "paths" in self.takes or "Path" in self.annotation

    def check(self, value: Any) -> str | None:
        """Return what is wrong with a JSON value; None if it fits. Types are strict (a truth value is no
        number), except for what JSON cannot say: a list serves as a tuple or a set, a text as a path, a whole
        number as a float."""
        if value is None and not self.required and self.default is None:
            return None  # `x: float = None` means it
        return misfit(self._adapter, value)

    def first_misfit(self, values: Sequence[Any]) -> int | None:
        """The place of the first of many values that does not fit; None if all do."""
        if self._adapter is None:
            return None
        from pydantic import ValidationError  # here: as in `misfit`

        whole = validator_of(list[self.type])  # type: ignore[name-defined]
        for begin in range(0, len(values), _CHUNK):
            part = [values[place] for place in range(begin, min(begin + _CHUNK, len(values)))]
            try:
                whole.validate_json(json.dumps(part), strict=True)
            except ValidationError:
                found = (place for place, value in enumerate(part, begin) if self.check(value))
                if (place := next(found, None)) is not None:
                    return place
            except Exception:
                return None
        return None

    @property
    def type(self) -> Any:
        """What its annotation means, as far as reading can tell; Any checks nothing."""
        return Any if self.node is None or self.names is None else self.names.type_of(self.node)

    @cached_property
    def _adapter(self) -> Any:
        """pydantic's validator for the annotation; None if anything is allowed."""
        return None if self.injected or self.type is Any else validator_of(self.type)


def validator_of(kind: Any) -> Any:
    """Return pydantic's validator of a type, in which true and 1.0 are not the 1 of a Literal.

    None for an annotation that makes no type, and without pydantic: then nothing is checked.
    """
    try:
        from pydantic import TypeAdapter  # here: as in `misfit`
        from pydantic_core import SchemaValidator

        adapter: Any = TypeAdapter(kind)
        schema = _exact(adapter.core_schema)
        return adapter if schema == adapter.core_schema else SchemaValidator(schema)
    except Exception:  # whatever an annotation does
        return None


def _exact(schema: Any) -> Any:
    """Return one of pydantic's schemas with literals that take numbers of their own type alone."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_exact, schema))
    if not isinstance(schema, dict):
        return schema
    schema = {name: _exact(part) for name, part in schema.items()}
    numbers = (
        [one for one in schema["expected"] if isinstance(one, int)] if schema.get("type") == "literal" else []
    )
    if not numbers:
        return schema
    from pydantic_core import PydanticKnownError, core_schema  # here: as in `misfit`

    *first, last = map(repr, schema["expected"])
    expected = f"{', '.join(first)} or {last}" if first else last

    def check(value: Any) -> Any:
        if isinstance(value, int | float) and not any(
            one == value and _is_alike(one, value) for one in numbers
        ):
            raise PydanticKnownError("literal_error", {"expected": expected})
        return value

    return core_schema.no_info_before_validator_function(check, schema)


def _is_alike(one: object, other: object) -> bool:
    """Return whether two numbers are both truth values, both of floating point, or neither."""
    return all(isinstance(one, kind) == isinstance(other, kind) for kind in (bool, float))


def misfit(adapter: Any, value: Any) -> str | None:
    """What is wrong with a JSON value for one of pydantic's validators; None if it fits, or there is none."""
    try:
        document = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")  # files have any names
    except (TypeError, ValueError, RecursionError):
        return f"expected a JSON value, found {type(value).__name__}"
    if adapter is None:
        return None
    from pydantic import ValidationError  # here: most calls of a worker need none of it

    try:
        adapter.validate_json(document, strict=True)
    except ValidationError as error:
        return _explain(value, error.errors(include_url=False))
    except Exception:  # a bound that does not fit its type says nothing about the value
        return None
    return None


_EXPECTED = {
    **dict.fromkeys(("int_type", "int_from_float"), "a whole number"),
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    **dict.fromkeys(
        (f"{kind}_type" for kind in ("list", "tuple", "set", "frozen_set", "iterable")), "a list"
    ),
    "dict_type": "a mapping",
    "none_required": "null",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "missing": "more items",
    "literal_error": "{expected}",
    "enum": "{expected}",
}


def _explain(value: Any, errors: list[Any]) -> str:
    """pydantic's errors as one sentence; those of a union's members are joined by `or`."""
    deepest = max(errors, key=lambda error: repr(error["input"]) != repr(value))  # NaN is as itself
    alike = [error for error in errors if repr(error["input"]) == repr(deepest["input"])]
    expected: dict[str, None] = {}
    for error in alike:
        text = _EXPECTED.get(error["type"], "")
        expected[
            text.format(**error.get("ctx", {})) if text else error["msg"].removeprefix("Input should be ")
        ] = None
    within = f" in {shown_value(value)}" if repr(deepest["input"]) != repr(value) else ""
    return f"expected {' or '.join(expected)}, found {shown_value(deepest['input'])}{within}"


def shown_value(value: Any) -> str:
    """A value in a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def hint(message: str, value: Any) -> str:
    """What to change after such a message, for the usual mistakes of YAML."""
    if "a whole number" in message and isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"a whole number is written without a point or exponent: {int(value)}"
    if "number" in message and isinstance(value, str) and _NUMBER.fullmatch(value):
        return "a number is written without quotes"
    if "true or false" in message and isinstance(value, str) and value.lower() in _TRUTHS:
        return "write true or false, without quotes"
    return ""
