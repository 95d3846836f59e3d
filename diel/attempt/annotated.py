"""The arguments of a call are of the types that the function's annotations say."""

from __future__ import annotations

import contextlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from diel.artifacts import Artifact
from diel.errors import ModuleError
from diel.modules.parameter import Parameter, misfit, shown_value, validator_of
from diel.modules.signature import Signature

Fits = Callable[[Any], str | None]
"""What is wrong with a value; None if it fits."""
_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    types.NoneType: "null",
}
_OPAQUE = ("numpy", "pandas", "pyarrow", "xarray", "ase", "torch", "mpi4py", "diel")
"""Packages whose classes are not checked here: what is read from a file is checked as it is read."""
_KNOWN: dict[int, tuple[Any, dict[str, Fits]]] = {}
"""What holds the parameters of functions to their types, by the function's identity."""


def hold_arguments(
    function: Callable[..., Any] | None, signature: Signature, given: Mapping[str, Any]
) -> None:
    """Hold values strictly to annotations, but a whole number is a float, and texts serve as paths.

    Files are held to them where they are opened; without a function, to what is read of it. Raises
    ModuleError.
    """
    known = _KNOWN.get(id(function))
    if known is None or known[0] is not function or function is None:
        known = _KNOWN[id(function)] = (function, _checks(function, signature))
    for name, fits in known[1].items():
        if name in given and not _is_of_files(given[name]) and (message := fits(given[name])) is not None:
            whole = (
                isinstance(given[name], float) and given[name].is_integer() and "a whole number" in message
            )
            hint = f"; ${{{{ int({name}) }}}} in `params` makes one of it" if whole else ""
            raise ModuleError(f"parameter '{name}' of '{signature.name}': {message}{hint}")


def _is_of_files(value: Any) -> bool:
    if isinstance(value, list):
        return _is_of_files(next((one for one in value if one is not None), None))
    return type(value) is Artifact


def _checks(function: Callable[..., Any] | None, signature: Signature) -> dict[str, Fits]:
    """What holds each parameter to its type; of those whose type is none that can be checked, nothing."""
    hints: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # a name that only type checkers see: what is read is left
        target: Any = getattr(function, "__init__", None) if inspect.isclass(function) else function
        hints = {} if target is None else typing.get_type_hints(target, include_extras=True)
    found: dict[str, Fits] = {}
    for parameter in signature.parameters:
        if parameter.injected or parameter.node is None:
            continue
        fits = _fits(hints.get(parameter.name, parameter.type))
        if fits is not None:
            found[parameter.name] = _or_default(parameter, fits)
    return found


def _or_default(parameter: Parameter, fits: Fits) -> Fits:
    """`x: float = None` takes None, whatever it says."""
    if parameter.required or parameter.default is not None:
        return fits
    return lambda value: None if value is None else fits(value)


def _fits(hint: Any) -> Fits | None:
    """What holds values to a type: for plain ones without pydantic, which is slow to load."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = typing.get_args(hint) if union else (types.NoneType if hint is None else hint,)
    if any(member is Any or member is object or member is Path or _is_opaque(member) for member in members):
        return None
    if all(map(_is_plain, members)):
        return _plain(members)
    items = typing.get_args(hint)
    if typing.get_origin(hint) is list and _is_plain(items[0]):
        return _listed(items[0])
    return _by_pydantic(hint)


def _is_plain(hint: Any) -> bool:
    return isinstance(hint, type) and hint in _WORDS


def _is_opaque(hint: Any) -> bool:
    origin = typing.get_origin(hint) or hint
    inner = any(map(_is_opaque, typing.get_args(hint))) if origin in (list, dict, tuple) else False
    return inner or str(getattr(origin, "__module__", "")).partition(".")[0] in _OPAQUE


def _plain(members: tuple[Any, ...]) -> Fits:
    allowed = {*members, *({int} if float in members else ())}
    expected = " or ".join(_WORDS[member] for member in members)

    def check(value: Any) -> str | None:
        kind = type(value)
        if kind in allowed or (kind is not bool and any(issubclass(kind, one) for one in allowed)):
            return None
        return f"expected {expected}, found {shown_value(value)}"

    return check


def _listed(item: Any) -> Fits:
    one = _plain((item,))
    allowed = {item, *({int} if item is float else ())}

    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return f"expected a list, found {shown_value(value)}"
        if {*map(type, value)} <= allowed:
            return None
        wrong = next((message for message in map(one, value) if message is not None), None)
        return wrong and f"{wrong} in {shown_value(value)}"

    return check


def _by_pydantic(hint: Any) -> Fits | None:
    adapter = validator_of(hint)
    if adapter is None:
        return None
    from pydantic import ValidationError  # here: few annotations need it

    def check(value: Any) -> str | None:
        try:
            adapter.validate_python(value, strict=True)
        except ValidationError:
            return misfit(adapter, value)
        except Exception:  # a bound that does not fit its type says nothing about the value
            return None
        return None

    return check
