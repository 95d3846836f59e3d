"""One parameter of a module, and whether a value of a workflow fits it."""

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from diel.workflow.modules.annotations import Annotations, Injected

Passed = Literal["name", "place", "spread"]
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_CHUNK = 10_000
"""Values of an axis that are looked at together."""
_UNMADE = "dataclass model call named-tuple date datetime time timedelta decimal uuid bytes"
"""What pydantic would make of values and functions do not get: they get values as they are."""
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
        """Return all but the validator: a worker that calls the function may have no pydantic."""
        return {name: value for name, value in self.__dict__.items() if name != "_adapter"}

    @property
    def takes_path(self) -> bool:
        """Whether a file arrives as a Path, and several as Paths."""
        return "path" in self.takes or "paths" in self.takes or "Path" in self.annotation

    def check(self, value: Any) -> str | None:
        """Return what is wrong with a JSON value; None if it fits. Types are strict (a truth value is no
        number), except for what JSON cannot say: a list serves as a tuple or an array, a text as a path, a
        whole number as a float."""
        if value is None and not self.required and self.default is None:
            return None  # `x: float = None` means it
        try:
            fitted(self._adapter, value)
        except ValueError as error:
            return str(error)
        return None

    @property
    def flaw(self) -> str | None:
        """Why no value can be checked."""
        return self._adapter if isinstance(self._adapter, str) else None

    def first_misfit(self, values: Sequence[Any]) -> int | None:
        """Return the place of the first value that does not fit; None if all do."""
        if self._adapter is None:
            return None
        whole = validator_of(list[self.type])  # type: ignore[name-defined]
        for begin in range(0, len(values), _CHUNK):
            part = [values[place] for place in range(begin, min(begin + _CHUNK, len(values)))]
            try:
                whole.validate_json(json.dumps(part), strict=True)
            except Exception:  # not only pydantic's: a bound may not fit its type
                misfits = (place for place, value in enumerate(part, begin) if self.check(value))
                if (place := next(misfits, None)) is not None:
                    return place
        return None

    @property
    def type(self) -> Any:
        """What its annotation means, as far as reading can tell; Any checks nothing."""
        return Any if self.node is None or self.names is None else self.names.type_of(self.node)

    @cached_property
    def _adapter(self) -> Any:
        """pydantic's validator for the annotation, or what is wrong with it; None if anything is allowed."""
        if not getattr(self.type, "made", True):
            return f"no value of a workflow becomes {self.type.__name__}"
        try:
            return None if self.injected or self.type is Any else validator_of(self.type)
        except Exception as error:  # an annotation can raise anything
            return f"its type cannot be checked: {str(error).partition(chr(10))[0]}"


def validator_of(kind: Any) -> Any:
    """Return pydantic's validator of a type, as strict in JSON as in Python. Raise whatever that does."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter  # here: as in `fitted`
    from pydantic_core import SchemaValidator

    try:
        adapter: Any = TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a record, which has a configuration of its own
        adapter = TypeAdapter(kind)
    return SchemaValidator(_exact(adapter.core_schema))


def _exact(schema: Any) -> Any:
    """Return one of pydantic's schemas in which numbers, keys and fields are those of the type alone."""
    if type(schema) in (list, tuple):
        return type(schema)(map(_exact, schema))
    if not isinstance(schema, dict):
        return schema
    from pydantic_core import PydanticKnownError, core_schema  # here: as in `fitted`

    schema = {name: _exact(part) for name, part in schema.items()}
    kind, before = schema.get("type"), core_schema.no_info_before_validator_function
    if kind in _UNMADE.split() or (kind == "enum" and not issubclass(schema["cls"], str | int)):
        of = type(getattr(schema.get("cls"), "__name__", str(kind)), (), {})
        kind, schema = "is-instance", core_schema.is_instance_schema(of, ref=schema.get("ref"))
    if kind == "is-instance":
        return before(lambda value: value, schema)  # its value is one of Python, not of JSON
    if kind in ("set", "frozenset"):
        items = core_schema.list_schema(schema.get("items_schema"), strict=True)
        return core_schema.no_info_after_validator_function(_without_repeats, items)
    if kind == "complex":
        return core_schema.float_schema(ref=schema.get("ref"))  # JSON has no other numbers
    if kind == "dict" and schema.get("keys_schema", {}).get("type") in ("int", "float", "bool"):
        schema["keys_schema"] = before(lambda key: key, schema["keys_schema"])  # a key of JSON is a text
    if kind in ("typed-dict", "dataclass-args") and schema.get("extra_behavior") != "allow":
        schema["extra_behavior"] = "forbid"
    if kind not in ("literal", "enum"):
        return schema
    expected = schema["expected"] if kind == "literal" else [member.value for member in schema["members"]]
    *first, last = map(repr, expected)
    shown = f"{', '.join(first)} or {last}" if first else last

    def check(value: Any) -> Any:
        if isinstance(value, int | float) and not any(_is_alike(choice, value) for choice in expected):
            raise PydanticKnownError("literal_error", {"expected": shown})
        return value

    return before(check, core_schema.literal_schema(expected), ref=schema.get("ref"))


def _without_repeats(items: list[Any]) -> list[Any]:
    if len({*items}) < len(items):
        raise ValueError("expected a list in which nothing is there twice")
    return items


def _is_alike(choice: object, value: object) -> bool:
    """Return whether a number is meant by another: true is not 1, and 1.0 no whole number."""
    same = isinstance(choice, bool) == isinstance(value, bool)
    return choice == value and same and (isinstance(choice, float) or not isinstance(value, float))


def fitted(adapter: Any, value: Any) -> Any:
    """Return a JSON value as one of pydantic's validators makes it. Raise ValueError."""
    try:
        document = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")  # files have any names
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"expected a JSON value, found {type(value).__name__}") from None
    if adapter is None:
        return value
    if isinstance(adapter, str):
        raise ValueError(adapter)
    from pydantic import ValidationError  # here: most calls of a worker need none of it

    try:
        return adapter.validate_json(document, strict=True)
    except ValidationError as error:
        raise ValueError(_explain(value, error.errors(include_url=False))) from None
    except Exception as error:  # a bound may not fit its type
        raise ValueError(f"its type cannot be checked: {error}") from None


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
    "missing": "{place}",
    **dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), "no {place}"),
    "literal_error": "{expected}",
}


def _explain(value: Any, errors: list[Any]) -> str:
    """Write pydantic's errors as one sentence; those of a union's members are joined by `or`."""
    deepest = max(errors, key=lambda error: repr(error["input"]) != repr(value))  # NaN is as itself
    alike = [error for error in errors if repr(error["input"]) == repr(deepest["input"])]
    alike = alike[-1:] if alike[-1]["type"] == "missing" else alike
    expected: dict[str, None] = {}
    for error in alike:
        last = ("", *error["loc"])[-1]
        place = f"at least {last + 1} items" if isinstance(last, int) else f"'{last}'"
        text = re.sub("^(Input should be|Value error, expected) ", "", error["msg"])
        expected[
            _EXPECTED.get(error["type"], "{text}").format(text=text, place=place, **error.get("ctx", {}))
        ] = None
    within = f" in {shown_value(value)}" if repr(deepest["input"]) != repr(value) else ""
    return f"expected {' or '.join(expected)}, found {shown_value(deepest['input'])}{within}"


def shown_value(value: Any) -> str:
    """Return a value in a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def hint(message: str, value: Any) -> str:
    """Return a hint for such a message, for the usual mistakes of YAML."""
    if "value of a workflow becomes" in message or "an instance of" in message:
        return "annotate it with what JSON has, as dict or str, and make the object in the function"
    if "a whole number" in message and isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"a whole number is written without a point or exponent: {int(value)}"
    if "number" in message and isinstance(value, str) and _NUMBER.fullmatch(value):
        return "a number is written without quotes"
    if "true or false" in message and isinstance(value, str) and value.lower() in _TRUTHS:
        return "write true or false, without quotes"
    return ""
