"""Values: results of a task that are small enough to be JSON in its record."""

import math
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from diel.base.errors import ModuleError
from diel.base.values import read_json, unique, utf_8

MAX_VALUES = 1024 * 1024
"""Most bytes of one task's values as JSON; larger ones belong in a file."""

Values = dict[str, Any]

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60

_TYPES: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict}


def is_of(value: Any, expected: str) -> bool:
    """Return whether a JSON value has a type: a whole number is also a float, a bool is no number."""
    return type(value) is _TYPES[expected] or (expected == "float" and type(value) is int)


def not_finite(value: Any) -> str | None:
    """Return the first number in a JSON value that is NaN or infinite, with its place; None without one. It
    uses no recursion: a stack of Python's own would end before JSON's."""
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        place, value = todo.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                return f"{place or 'the value'} is {value}"
        elif isinstance(value, dict):
            inner = [(f"{place}.{key}" if place else str(key), item) for key, item in value.items()]
            todo += reversed(inner)
        elif isinstance(value, list):
            todo += reversed([(f"{place}[{number}]", item) for number, item in enumerate(value)])
    return None


def shown(value: Any) -> str:
    """Return a value in a message: only its beginning if it is long."""
    try:
        text = _SHORT.repr(value)
    except ValueError:  # more digits than Python writes
        text = f"{type(value).__name__} of many digits"
    return text if len(text) <= 60 else f"{text[:57]}…"


def listed(names: Iterable[Any]) -> str:
    """Write names in a message: only the first if there are many."""
    text = ", ".join(map(str, names)) or "nothing"
    return text if len(text) <= 200 else f"{text[:197]}…"


def collect_result(path: str, types: Mapping[str, str]) -> Values:
    """Return the values that a command wrote to DIEL_RESULT, as declared. Raise ModuleError."""
    if not types and not os.access(path, os.F_OK):  # as nearly every task: an exception takes longer
        return {}
    try:
        text = Path(path).read_text("utf-8")
    except FileNotFoundError:
        text = "{}"
    except (OSError, UnicodeDecodeError) as error:
        raise ModuleError(f"DIEL_RESULT cannot be read: {error}") from error
    try:
        values = read_json(text)
    except (ValueError, RecursionError) as error:
        raise ModuleError(f"DIEL_RESULT holds no JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModuleError(f"DIEL_RESULT holds {type(values).__name__}; expected one JSON object")
    for name, expected in types.items():
        if name not in values:
            raise ModuleError(f"the command did not write the value '{name}' to DIEL_RESULT")
        if not is_of(values[name], expected):
            raise ModuleError(f"value '{name}': expected {expected}, found {shown(values[name])}")
    check_size(values)
    return values


def check_size(values: Values) -> None:
    """Refuse values that belong in a file."""
    try:
        size = len(utf_8(values)) if values else 0
    except (ValueError, RecursionError) as error:
        raise ModuleError(f"the values cannot be written as JSON: {error}") from error
    if size > MAX_VALUES:
        raise ModuleError(f"the values are {size} bytes of JSON; return a file's Path beyond 1 MiB")


_BARE: dict[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__int__, float: float.__float__}
"""What gives the text or number that an object of a derived class is, such as an Enum's member."""


def bare_text(key: Any) -> str:
    """Return the text of a name or key, without the class that it may have of its own."""
    return str.__str__(key if isinstance(key, str) else str(key))


def loss_of(value: Any) -> str | None:
    """Return what numbers alone would not say of an array or scalar: a mask, a unit; None for nothing."""
    if type(value).__name__ in ("MaskedArray", "MaskedConstant") and value.mask.any():
        return "some of it is masked, which its file would not show: return x.filled(...), or the mask too"
    if hasattr(value, "__array__") and (hasattr(value, "magnitude") or hasattr(value, "to_value")):
        return (
            "it has a unit, which its file would not show: return its numbers (x.magnitude, x.to_value(...)) "
            "in the unit of the contract"
        )
    return None


def plain(name: str, value: Any) -> Any:
    """Return a JSON value from what a module returned. Raise ModuleError for what is not one."""
    if value is None or isinstance(value, bool):
        return value
    if (loss := loss_of(value)) is not None:
        raise ModuleError(f"output '{name}': {loss}")
    for base, bare in _BARE.items():
        if isinstance(value, base):
            return bare(value)
    if isinstance(value, Mapping):
        pairs = [(bare_text(key), plain(f"{name}.{key}", item)) for key, item in value.items()]
        try:
            return unique(pairs)
        except ValueError as error:
            raise ModuleError(f"output '{name}': {error}") from None
    if isinstance(value, list | tuple):
        return [plain(f"{name}[{number}]", item) for number, item in enumerate(value)]
    if getattr(value, "ndim", 0) and hasattr(value, "tolist"):  # an array inside a mapping or a list
        return plain(name, value.tolist())
    item = getattr(value, "item", None)  # NumPy's scalars
    if item is not None and not getattr(value, "ndim", 0):
        python = item()
        if type(python) is not type(value):  # a long double gives itself
            return plain(name, python)
    kind = type(value).__name__
    raise ModuleError(
        f"output '{name}' is a {kind}; expected a JSON value, a Path, an array or a table: name the outputs "
        "to keep under `outputs`, or convert it in a function of your own"
    )
