"""Collects what a task made: what a module returned, what a command left in its directory."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diel.artifacts.artifact import Artifacts, Breach, Way, describe, written
from diel.artifacts.promise import Sizes, check_array, check_number, check_path, check_value
from diel.artifacts.values import Values, check_size, plain
from diel.errors import ModuleError

if TYPE_CHECKING:
    from diel.spec import Output

Promises = Mapping[str, "Output"]
"""By output, if it is more than a path or the type of a value."""
_NOTHING: Promises = {}


def collect_returned(
    returned: Any,
    task_dir: Path,
    run_dir: Path,
    promises: Promises = _NOTHING,
    inputs: Mapping[str, Any] = _NOTHING,
) -> tuple[Values, Artifacts]:
    """The values and artifacts that a Python module returned.

    None is nothing; a mapping or dataclass gives one output a key. An array that is an input, as it
    was mapped, is not written again. Raises ModuleError where it is anything else, where a value is no
    JSON, where a path is not below `task_dir`, and where a promise is broken.
    """
    task, run = os.fspath(task_dir), os.fspath(run_dir)
    sizes: Sizes = {}
    values: Values = {}
    artifacts: Artifacts = {}
    for name, value in _outputs_of(returned).items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ModuleError(f"the module returned an output named {name!r}; expected an identifier")
        promise = promises.get(name)
        with _named(name):
            if isinstance(value, os.PathLike):
                artifacts[name] = _keep_file(name, os.fspath(value), task, run, promise, sizes)
            elif getattr(value, "ndim", 0) and hasattr(value, "__array__"):
                from diel.artifacts.arrays import as_array, keep_array  # NumPy is loaded: it made the array

                array = as_array(value)
                if promise is not None:
                    check_array(name, array, promise, sizes)
                way: Way = "content" if promise is None else promise.digest
                finite = promise is not None and promise.finite
                artifacts[name] = keep_array(name, array, task, run, inputs, way, finite=finite)
            elif isinstance(value, list | tuple) and value and all(isinstance(v, os.PathLike) for v in value):
                artifacts[name] = _keep_files(map(os.fspath, value), task, run, promise)
            else:
                values[name] = plain(name, value)
                if promise is not None:
                    check_value(values[name], promise)
    for name in promises:
        if name not in values and name not in artifacts:
            made = ", ".join([*values, *artifacts]) or "nothing"
            raise ModuleError(f"the module returned no '{name}', which it promises; it returned: {made}")
    _mark_passing(promises, artifacts)
    check_size(values)
    return values, artifacts


def _outputs_of(returned: Any) -> Mapping[Any, Any]:
    if returned is None:
        return {}
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        return {f.name: getattr(returned, f.name) for f in dataclasses.fields(returned)}
    if not isinstance(returned, Mapping):
        kind = type(returned).__name__
        raise ModuleError(f"the module returned a {kind}; expected a dict or dataclass of named outputs")
    return returned


def collect_files(
    outputs: Mapping[str, str], task_dir: Path, run_dir: Path, promises: Promises = _NOTHING
) -> Artifacts:
    """The artifacts of a command's declared files.

    Raises ModuleError for one that is missing, and for one that is not as promised.
    """
    task, run = os.fspath(task_dir), os.fspath(run_dir)
    sizes: Sizes = {}
    artifacts: Artifacts = {}
    for name, path in outputs.items():
        promise = promises.get(name)
        with _named(name):
            if promise is not None and promise.glob is not None:
                artifacts[name] = _keep_files(_matching(path, task), task, run, promise, path)
            else:
                artifacts[name] = _keep_file(name, path, task, run, promise, sizes)
    _mark_passing(promises, artifacts)
    return artifacts


def _mark_passing(promises: Promises, artifacts: Artifacts) -> None:
    """Marks in the record what is not kept: other runs must not use it while this one is going."""
    for name, promise in promises.items():
        if not promise.keep and name in artifacts:
            artifacts[name]["keep"] = False


def check_values(values: Values, promises: Promises) -> None:
    """Checks the values of a command against their contracts. Raises ModuleError."""
    for name, promise in promises.items():
        if promise.value is not None:
            with _named(name):
                check_value(values[name], promise)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Says which output it is that breaks its promise."""
    try:
        yield
    except Breach as breach:
        raise ModuleError(f"output '{name}': {breach}") from breach.__cause__


def _matching(pattern: str, task: str) -> list[str]:
    found = set(_expanded(pattern.split("/"), task))
    return sorted(name for name in found if not os.path.isdir(f"{task}/{name}"))


def _expanded(parts: list[str], task: str) -> Iterator[str]:
    """The paths that a pattern matches. Unlike Python's own, `**` follows no links to directories: one such
    as `latest -> .` would give each file forty times.
    """
    if "**" not in parts:
        yield from glob.iglob("/".join(parts), root_dir=task)
        return
    place = parts.index("**")
    tail = parts[place + 1 :] or ["*"]
    for head in glob.iglob("/".join(parts[:place]), root_dir=task) if place else ("",):
        for folder, folders, _ in os.walk(f"{task}/{head}"):
            folders[:] = [name for name in folders if not name.startswith(".")]
            inner = os.path.relpath(folder, task).split("/")
            yield from _expanded([*(glob.escape(name) for name in inner if name != "."), *tail], task)


def _keep_file(
    name: str, path: str, task: str, run: str, promise: Output | None, sizes: Sizes
) -> dict[str, Any]:
    if promise is None:
        return describe(path, task, run)
    entry = describe(path, task, run, promise.digest)
    check_path(name, f"{run}/{entry['path']}", promise, sizes)
    return entry


def _keep_files(
    paths: Iterable[str], task: str, run: str, promise: Output | None, pattern: str = ""
) -> dict[str, Any]:
    """A list of files as one output."""
    way = "content" if promise is None else promise.digest
    found = [describe(path, task, run, way) for path in paths]
    if promise is not None and promise.files is not None:
        check_number(pattern or "the list", len(found), promise)
    elif not found:
        raise Breach(f"no file matches '{pattern}'; the task wrote {written(task)}")
    return {"files": found, "size": sum(one["size"] for one in found)}
