"""What a task made: small JSON values, and artifacts (files, directories, arrays) with their digest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from diel.errors import ModuleError

MAX_VALUES = 1024 * 1024
"""Most bytes of one task's values as JSON; what is larger belongs into a file."""
_CHUNK = 1024 * 1024

Values = dict[str, Any]
Artifacts = dict[str, dict[str, Any]]
"""By output: `path` relative to the run's directory, `size` in bytes, `digest` of the content."""


def collect_returned(returned: Any, task_dir: Path, run_dir: Path) -> tuple[Values, Artifacts]:
    """The values and artifacts of what a Python module returned.

    None is nothing; a mapping or dataclass gives one output a key. Raises ModuleError where it is
    anything else, where a value is no JSON, and where a path is not below `task_dir`.
    """
    if returned is None:
        return {}, {}
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        returned = {f.name: getattr(returned, f.name) for f in dataclasses.fields(returned)}
    if not isinstance(returned, Mapping):
        kind = type(returned).__name__
        raise ModuleError(f"the module returned a {kind}; expected a dict or dataclass of named outputs")
    values: Values = {}
    artifacts: Artifacts = {}
    for name, value in returned.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ModuleError(f"the module returned an output named {name!r}; expected an identifier")
        if isinstance(value, os.PathLike):
            artifacts[name] = describe(name, Path(value), task_dir, run_dir)
        elif getattr(value, "ndim", 0) and hasattr(value, "__array__"):
            artifacts[name] = _save_array(name, value, task_dir, run_dir)
        else:
            values[name] = plain(name, value)
    check_size(values)
    return values, artifacts


def collect_files(outputs: Mapping[str, str], task_dir: Path, run_dir: Path) -> Artifacts:
    """The artifacts of a command's declared output files. Raises ModuleError for one that is missing."""
    return {name: describe(name, Path(path), task_dir, run_dir) for name, path in outputs.items()}


def collect_result(path: str, types: Mapping[str, str]) -> Values:
    """The values that a command wrote to DIEL_RESULT: nothing, or one JSON object.

    Raises ModuleError where it is no JSON object or a declared value is missing or of another type.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        if not types:
            return {}
        text = "{}"
    except (OSError, UnicodeDecodeError) as error:
        raise ModuleError(f"DIEL_RESULT cannot be read: {error}") from error
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModuleError(f"DIEL_RESULT holds no JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModuleError(f"DIEL_RESULT holds {type(values).__name__}; expected one JSON object")
    for name, expected in types.items():
        if name not in values:
            raise ModuleError(f"the command did not write the value '{name}' to DIEL_RESULT")
        if type(values[name]) is not _TYPES[expected] and not (
            expected == "float" and type(values[name]) is int
        ):
            raise ModuleError(f"value '{name}': expected {expected}, found {values[name]!r}")
    check_size(values)
    return values


_TYPES: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict}


def check_size(values: Values) -> None:
    """Refuses values that belong into a file."""
    try:
        size = len(json.dumps(values)) if values else 0
    except (ValueError, RecursionError) as error:
        raise ModuleError(f"the values cannot be written as JSON: {error}") from error
    if size > MAX_VALUES:
        raise ModuleError(f"the values are {size} bytes of JSON; return a file's Path beyond 1 MiB")


def plain(name: str, value: Any) -> Any:
    """A JSON value from what a module returned. Raises ModuleError where there is none."""
    item = getattr(value, "item", None)  # NumPy's scalars, some of which are Python's too
    if value is None or isinstance(value, bool | int | float | str):
        return value if item is None else item()
    if isinstance(value, Mapping):
        return {str(key): plain(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(f"{name}[{number}]", item) for number, item in enumerate(value)]
    if item is not None and not getattr(value, "ndim", 0):
        python = item()
        if type(python) is not type(value):  # a long double gives itself
            return plain(name, python)
    kind = type(value).__name__
    raise ModuleError(f"output '{name}' is a {kind}; expected a JSON value, a Path or an array")


def describe(name: str, path: Path, task_dir: Path, run_dir: Path) -> dict[str, Any]:
    """Path, size and digest of an output. Raises ModuleError where it is missing or elsewhere."""
    whole = path if path.is_absolute() else task_dir / path
    try:
        real = whole.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links; a NUL in the path
        made = sorted(os.listdir(task_dir)) if task_dir.is_dir() else []
        shown = ", ".join(entry for entry in made if not entry.startswith("."))[:200] or "nothing"
        raise ModuleError(f"output '{name}': no file '{path}'; the task wrote {shown}") from error
    if not real.is_relative_to(task_dir.resolve()):
        raise ModuleError(f"output '{name}': {path} is outside the task's directory")
    if not (real.is_file() or real.is_dir()):
        raise ModuleError(f"output '{name}': {path} is neither a file nor a directory")
    size, digest = content(real)
    if ".." in whole.parts or not whole.is_relative_to(run_dir):  # through links, or by another name
        whole, run_dir = real, run_dir.resolve()
    return {"path": os.path.relpath(whole, run_dir), "size": size, "digest": digest}


def _save_array(name: str, array: Any, task_dir: Path, run_dir: Path) -> dict[str, Any]:
    import numpy  # already loaded: the module returned an array

    path = task_dir / f"{name}.npy"
    try:
        numpy.save(path, numpy.asarray(array), allow_pickle=False)
    except (TypeError, ValueError, RuntimeError) as error:  # of objects; on a device
        raise ModuleError(f"output '{name}' cannot be saved as an array: {error}") from error
    return describe(name, path, task_dir, run_dir)


def content(path: Path) -> tuple[int, str]:
    """Size in bytes and digest of a file, or of a directory's files and their names."""
    if not path.is_dir():
        return _file_content(path)
    size, digest = 0, hashlib.blake2b(digest_size=16)
    for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
        length, inner = _file_content(file)
        size += length
        digest.update(f"{file.relative_to(path)}\0{inner}\0".encode("utf-8", "surrogateescape"))
    return size, digest.hexdigest()


def _file_content(path: Path) -> tuple[int, str]:
    digest = hashlib.blake2b(digest_size=16)
    size = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def digest_of(parts: Iterable[Any]) -> str:
    """The digest of JSON values: the same for the same values, whatever the order of keys."""
    text = json.dumps(list(parts), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
