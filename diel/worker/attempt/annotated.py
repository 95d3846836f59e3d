"""The arguments of a call are of the types that the function's annotations say."""

import ast
import functools
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from diel.base.errors import ModuleError
from diel.store.artifacts import Artifact
from diel.workflow.modules.numpy_types import ToNumpy, followed, makes_numpy
from diel.workflow.modules.parameter import Parameter, fitted, validator_of
from diel.workflow.modules.signature import Signature

Fits = Callable[[Any], Any]
"""Returns what a function gets for a value, itself in most cases. Raises ValueError if it does not fit."""
_PLAIN: dict[Any, set[type]] = {
    **{plain: {plain} for plain in (bool, int, str, types.NoneType)},
    float: {float, int},
    Path: {str},
}
"""The types of values that fit a type as they are."""
_KNOWN: dict[int, tuple[Any, dict[str, Fits]]] = {}
"""What holds the parameters of functions to their types, by the function's identity."""


def hold_arguments(
    function: Callable[..., Any] | None, signature: Signature, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Hold values to annotations strictly, and return what the function gets: arrays where it takes them.
    Files are held to them where they are opened. Raises ModuleError."""
    memo = _KNOWN.get(id(function))
    if memo is None or memo[0] is not function or function is None:
        memo = _KNOWN[id(function)] = (function, {})
    held = {**arguments}
    for parameter in signature.parameters:
        name = parameter.name
        if (
            name not in arguments
            or parameter.injected
            or parameter.node is None
            or is_of_files(arguments[name])
        ):
            continue
        value = arguments[name]
        try:
            fits = memo[1].get(name) or memo[1].setdefault(name, _or_default(function, parameter))
            held[name] = fits(value)
        except ValueError as error:
            whole = "a whole number" in str(error) and isinstance(value, float) and value.is_integer()
            hint = f"; ${{{{ int({name}) }}}} in `params` makes one of it" if whole else ""
            raise ModuleError(f"parameter '{name}' of '{signature.name}': {error}{hint}") from None
    return held


def is_of_files(value: Any) -> bool:
    """Return whether a value is a file, or a list of files."""
    if isinstance(value, list):
        return is_of_files(next((item for item in value if item is not None), None))
    return type(value) is Artifact


def _hint(function: Callable[..., Any] | None, parameter: Parameter) -> Any:
    """Return the type as Python has it, and without a function as it is read. Raise ValueError."""
    called: Any = function
    target = inspect.unwrap(called.__init__ if inspect.isclass(called) else called)
    scope = {variable.__name__: variable for variable in getattr(target, "__type_params__", ())}
    scope |= getattr(target, "__globals__", {})
    written = types.SimpleNamespace(__annotations__={"type": parameter.annotation})
    try:
        while function is not None and parameter.names is not None:
            try:
                return typing.get_type_hints(written, scope, include_extras=True)["type"]
            except NameError as error:
                name = parameter.names.full_name(ast.Name(str(error.name)))
                scope[str(error.name)] = pkgutil.resolve_name(name)
    except Exception as error:  # what it names is not where it runs
        if "typing.Any" in repr(parameter.type):
            raise ValueError(f"its type cannot be checked: {error}") from None
    return parameter.type


def _or_default(function: Callable[..., Any] | None, parameter: Parameter) -> Fits:
    """`x: float = None` takes None, whatever it says, and a table the lists that it is made of."""
    fits = _fits(followed(_hint(function, parameter)))
    if "frame" in parameter.takes:
        return lambda value: value if isinstance(value, list | dict) else fits(value)
    if parameter.required or parameter.default is not None:
        return fits
    return lambda value: None if value is None else fits(value)


def _fits(hint: Any) -> Fits:
    """Return what holds values to a type: for plain ones that fit without pydantic, which is slow to load."""
    items, slow = typing.get_args(hint), _by_pydantic(hint)
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = items if union else (types.NoneType if hint is None else hint,)
    if Any in members or object in members:
        return lambda value: value
    listed = typing.get_origin(hint) is list
    quick = {plain for member in (items if listed else members) for plain in _PLAIN.get(member, ())}

    def check(value: Any) -> Any:
        kinds = {type(value)} if not listed else {*map(type, value)} if isinstance(value, list) else {None}
        return value if kinds <= quick else slow(value)

    return check


def _by_pydantic(hint: Any) -> Fits:
    validator, makes = functools.cache(lambda: validator_of(hint)), makes_numpy(hint)

    def check(value: Any) -> Any:
        try:
            adapter = validator()
        except ImportError:  # who calls in another Python holds them to what is read
            checked = next(
                (argument for argument in typing.get_args(hint) if isinstance(argument, ToNumpy)), None
            )
            return checked(value) if checked else value
        except Exception as error:
            raise ValueError(f"its type cannot be checked: {str(error).partition(chr(10))[0]}") from None
        try:
            checked = adapter.validate_python(value, strict=True)
        except Exception:  # what JSON has no type for
            checked = fitted(adapter, value)
        return checked if makes else value

    return check
