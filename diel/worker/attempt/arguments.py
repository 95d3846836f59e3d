"""The arguments of a function: values as they are, files as what its annotations ask for."""

import inspect
import os
import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

from diel.base.errors import HintedError, ModuleError, UsageError, counted
from diel.base.terms import FITS, format_of, suffix_of
from diel.store.artifacts import Artifact
from diel.worker.attempt.annotated import hold_arguments, is_of_files
from diel.worker.attempt.bundle import Request
from diel.worker.context import Context
from diel.workflow.modules.annotations import OBJECTS
from diel.workflow.modules.catalogue import Module
from diel.workflow.modules.definition import way_of
from diel.workflow.modules.parameter import Parameter

_OF_TABLES = ("frame", "arrow", "dataset", "dataarray")
"""Kinds of objects that tables in texts become."""
_NUMBERS = {bool, int, float}
_NO_FILES = {"int", "float", "bool", "dict"}
"""What annotations accept that no file can be."""
_OF_FILES = re.compile(r"file|path|fname|^fp$", re.IGNORECASE)
"""Names of parameters without a type that mean a file itself."""


class Reading(NamedTuple):
    """How a file of an input is read: into which units, and with which types of columns."""

    rule: Any = None
    columns: Mapping[str, str] | None = None


def arguments(
    function: Callable[..., Any],
    module: Module,
    request: Request,
    context: Context,
    communicator: Any,
    conversions: Mapping[str, Any] | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[list[Any], dict[str, Any]]:
    """Work out by place and by name what a function is called with. Raises ModuleError for a misfit."""
    values = own({**request.params, **request.inputs})
    signature, lengths = module.signature, _lengths(values.values())
    readings: tuple[Mapping[str, Any], ...] = (conversions or {}, columns or {})
    pass_on = partial(_passed, readings=readings, plain=signature.kind is None, lengths=lengths)
    if not signature.loose:
        values = hold_arguments(function, signature, values)
    parameters, variadic = signature.parameters, signature.variadic
    if signature.loose:
        inspected = _inspect(function, parameters)
        if inspected is None:  # compiled, and silent about what it takes
            return [pass_on(_unknown(name), value) for name, value in values.items()], {}
        parameters, variadic = inspected
    places: list[Any] = []
    passed: dict[str, Any] = {}
    for parameter in parameters:
        name = parameter.name
        if parameter.injected == "context":
            passed[name] = context
        elif parameter.injected == "communicator":
            passed[name] = communicator
        elif name in values:
            _refuse_files(module, parameter, values[name])
            value = pass_on(parameter, values.pop(name))
            if parameter.passed == "spread":
                places, passed = [*places, *passed.values(), *value], {}
            elif parameter.passed == "place":
                places.append(value)
            else:
                passed[name] = value
    if variadic:
        passed |= {name: pass_on(_unknown(name), value) for name, value in values.items()}
    elif signature.loose and values:
        takes = ", ".join(declared.name for declared in parameters) or "nothing"
        raise ModuleError(f"'{module.reference}' has no parameter '{next(iter(values))}'; it takes: {takes}")
    return places, passed


def _refuse_files(module: Module, parameter: Parameter, value: Any) -> None:
    """Raise ModuleError where a file, or a list of files, is for a parameter of numbers or mappings."""
    items = get_args(parameter.type) if parameter.takes == {"list"} else ()
    numbers = bool({*items} & _NUMBERS) or bool(parameter.takes and parameter.takes <= _NO_FILES)
    if numbers and is_of_files(value):
        found = "a list of files" if isinstance(value, list) else f"a file ({os.path.basename(value)})"
        raise ModuleError(
            f"parameter '{parameter.name}' of '{module.signature.name}': expected {parameter.annotation}, "
            f"found {found}; annotate it with what reads the file, as numpy.ndarray or Path"
        )


def own(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same values in objects of this call alone: the tasks of a bundle share what came with it."""
    nested = (list, dict)
    return {n: pickle.loads(pickle.dumps(v)) if isinstance(v, nested) else v for n, v in values.items()}


def _unknown(name: str) -> Parameter:
    return Parameter(name, takes=frozenset({"any"}))


def _inspect(
    function: Callable[..., Any], declared: tuple[Parameter, ...]
) -> tuple[tuple[Parameter, ...], bool] | None:
    """Return the parameters that an imported function shows, and whether it takes any others."""
    try:
        signature = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    by_name = {inspected.name: inspected for inspected in declared}
    merged = []
    for inspected in signature:
        if inspected.kind is not inspected.VAR_KEYWORD:
            passed = way_of(inspected)
            parameter = by_name.get(inspected.name) or _unknown(inspected.name)
            merged.append(replace(parameter, passed=passed))
    return tuple(merged), any(inspected.kind is inspected.VAR_KEYWORD for inspected in signature)


def _lengths(values: Iterable[Any]) -> list[int]:
    """Return the lengths of the lists that a function gets, those in mappings too."""
    inner = (item for value in values for item in (value.values() if isinstance(value, dict) else [value]))
    return [len(item) for item in inner if isinstance(item, list)]


def _passed(
    parameter: Parameter, value: Any, readings: tuple[Mapping[str, Any], ...], plain: bool, lengths: list[int]
) -> Any:
    """Make of a value what a parameter asks for; `plain` functions know nothing of diel. Raises ModuleError
    for a file that does not fit; `lengths` are those of all lists, for frames in step."""
    if not is_of_files(value):
        if "frame" in parameter.takes and isinstance(value, list | dict):
            from diel.base.formats.objects import make_frame  # the function asks for its tables

            return make_frame(value)
        paths = parameter.takes_path
        if isinstance(value, list) and paths:
            return [Path(item) if isinstance(item, str) else item for item in value]
        return Path(value) if paths and isinstance(value, str) else value
    reading = Reading(*(element.get(parameter.name) for element in readings))
    if isinstance(value, list):
        first = next(file for file in value if file is not None)  # null keeps the place of what is missing
        kind = _kind(parameter, first, plain, several=True)
        if kind == "array" and reading.rule is None and all(str(file).endswith(".npy") for file in value):
            from diel.store.artifacts.arrays import open_arrays  # it loads NumPy: few modules take arrays

            return open_arrays(parameter.name, value)
        if isinstance(first, list):
            return [_passed(parameter, item, readings, plain, []) for item in value]
        several = [None if item is None else _of_file(parameter, item, reading, kind) for item in value]
        return _frames(parameter.name, value, several, lengths) if kind == "structures" else several
    return _of_file(parameter, value, reading, _kind(parameter, value, plain))


def _frames(name: str, files: list[Any], several: list[Any], lengths: list[int]) -> list[Any]:
    """Return all frames of several files in one list. Raise ModuleError if others, or null, stand for one."""
    if None in several or lengths.count(len(files)) > 1:
        for file, frames in zip(files, several, strict=True):
            if frames is not None and len(frames) != 1:
                mixture = (
                    f"{file} has {counted(len(frames), 'frame')}, and each file needs one place in the list"
                )
                hint = "annotate it with list[pathlib.Path], and read each file"
                raise ModuleError(f"input '{name}': {mixture}; {hint}")
    return [frame for frames in several for frame in ([None] if frames is None else frames)]


def _of_file(parameter: Parameter, value: Artifact, reading: Reading, kind: str | None) -> Any:
    if kind is not None:
        return _loaded(parameter.name, kind, value, reading)
    if reading.rule is not None:
        message = f"input '{parameter.name}' is a file in other units, and the function takes its path"
        raise ModuleError(f"{message}; annotate the parameter with numpy.ndarray or pandas.DataFrame")
    return Path(value) if parameter.takes_path else str(value)


def _kind(parameter: Parameter, value: Any, plain: bool, several: bool = False) -> str | None:
    """Return what a file becomes for a parameter: an array, a table, …; None for its path."""
    if isinstance(value, list):
        return None
    takes, suffix = parameter.takes, suffix_of(value)
    if "structures" in takes:
        return "structures"
    fits = not parameter.takes_path or format_of(value) in FITS["array"]
    if takes & {"array", "arrays"} and fits:
        return "array"
    for kind in OBJECTS:
        if takes & {kind, f"{kind}s"} and (not parameter.takes_path or format_of(value) is not None):
            return kind
    if (
        plain
        and takes & {"any", "list" if several else "any"}
        and not parameter.takes_path
        and not _OF_FILES.search(parameter.name)
    ):
        from diel.base.formats.objects import USUAL  # here: most modules say what they take

        return None if re.search("str|File|IO", parameter.annotation) else USUAL.get(suffix)
    return None


def _loaded(name: str, kind: str, value: Artifact, reading: Reading) -> Any:
    if kind == "array" and not (value.inside or format_of(value) == "store"):
        from diel.store.artifacts.arrays import open_array  # as above

        array = open_array(name, value)
        return array if reading.rule is None else reading.rule.apply(array)
    from diel.base.formats.node import BadData  # here: only data of the field needs them
    from diel.base.formats.objects import load
    from diel.workflow.models.forms.rows import TEXTS, read_table

    try:
        text = kind in _OF_TABLES and suffix_of(value) in TEXTS
        array = load(kind, value, value.inside, read_table(Path(value), reading.columns) if text else None)
        return array if reading.rule is None else reading.rule.apply(array)
    except (BadData, HintedError, UsageError) as error:
        raise ModuleError(f"input '{name}': {error}") from error
