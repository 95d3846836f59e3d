"""Collects what a task made: what a module returned, what a command left in its directory."""

import contextlib
import dataclasses
import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.base.errors import ModuleError
from diel.base.terms import LIBRARIES, RESULT, format_of, lacking, suffix_of
from diel.store.artifacts.artifact import Artifacts, Breach, Way, describe, written
from diel.store.artifacts.promise import Sizes, check_kind, check_path, check_value, hold_count
from diel.store.artifacts.values import Values, bare_text, check_size, plain

if TYPE_CHECKING:
    from diel.workflow.models import Output

Outputs = tuple[Values, Artifacts]
"""What a task made."""
Promises = Mapping[str, "Output"]
"""By output, if it is more than a path or the type of a value."""
_NOTHING: Promises = {}


def collect_returned(
    returned: Any,
    task_dir: Path,
    run_dir: Path,
    promises: Promises = _NOTHING,
    inputs: Mapping[str, Any] = _NOTHING,
) -> Outputs:
    """Return the values and artifacts that a Python function returned. A mapping, dataclass or named tuple
    gives one output a key, None nothing, and anything else the output `result`, or the only one of
    `promises`. An array that is an input, as it was mapped, is not written again. Raise ModuleError where an
    output can be kept neither as JSON nor in a file, where a path is not below `task_dir`, and where a
    promise is broken; what no promise names may be of any kind beside them."""
    task, run = os.fspath(task_dir), os.fspath(run_dir)
    collection = _Kept(task, run, promises, inputs, {})
    values: Values = {}
    artifacts: Artifacts = {}
    for key, value in _outputs_of(returned, list(promises)).items():
        name = bare_text(key)
        try:
            with _named(name):
                entry = collection.in_file(name, value)
                if entry is not None:
                    artifacts[name] = entry
                else:
                    values[name] = plain(name, value)
                    if name in promises:
                        check_value(values[name], promises[name])
        except ModuleError:
            if not promises or name in promises:
                raise
    for name in promises:
        if name not in values and name not in artifacts:
            names = ", ".join([*values, *artifacts]) or "nothing"
            raise ModuleError(f"the module returned no '{name}', which it promises; it returned: {names}")
    _mark_passing(promises, artifacts)
    check_size(values)
    return values, artifacts


class _Kept(NamedTuple):
    task: str
    run: str
    promises: Promises
    inputs: Mapping[str, Any]
    sizes: Sizes

    def in_file(self, name: str, value: Any) -> dict[str, Any] | None:
        """Return the record of what is kept in a file, or is one; None for a value. Raise Breach."""
        promise = self.promises.get(name)
        if isinstance(value, os.PathLike):
            return _keep_file(name, bare_text(os.fspath(value)), self.task, self.run, promise, self.sizes)
        if _is_of_the_field(value):
            return self._object(name, value)
        if _is_array(value):
            return self._array(name, value)
        if isinstance(value, list | tuple) and value:
            if all(isinstance(item, os.PathLike) for item in value):
                return _keep_files([*map(bare_text, map(os.fspath, value))], self.task, self.run, promise)
            if all(map(_is_array, value)):
                entries = [self._array(f"{name}-{number}", item) for number, item in enumerate(value)]
                return {"files": entries, "size": sum(item["size"] for item in entries)}
        return None

    def _array(self, name: str, value: Any) -> dict[str, Any]:
        from diel.store.artifacts.arrays import as_array, keep_array  # NumPy is loaded: it made the array

        promise, array = self.promises.get(name), as_array(value)
        if promise is not None:
            check_kind(name, "the array", array.shape, array.dtype, promise, self.sizes)
        way: Way = "content" if promise is None else promise.digest
        finite = promise is not None and promise.finite
        return keep_array(name, array, self.task, self.run, self.inputs, way, finite=finite)

    def _object(self, name: str, value: Any) -> dict[str, Any] | None:
        from diel.base.formats.node import BadData  # here: their libraries are loaded
        from diel.base.formats.objects import kind_of, save

        kind = kind_of(value)
        if kind is None:
            return None
        try:
            path = save(kind, value, f"{self.task}/{name}")
        except BadData as error:
            raise Breach(str(error)) from error
        return _keep_file(name, path, self.task, self.run, self.promises.get(name), self.sizes)


def _is_array(value: Any) -> bool:
    return bool(getattr(value, "ndim", 0)) and hasattr(value, "__array__")


def _is_of_the_field(value: Any) -> bool:
    """Return whether a value may be an object of the field's libraries, or a list of them."""
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    return type(value).__module__.partition(".")[0] in _FIELD


_FIELD = {"ase", "pandas", "polars", "pyarrow", "xarray"}


def _outputs_of(returned: Any, declared: list[str]) -> Mapping[Any, Any]:
    if returned is None:
        return {}
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        return {f.name: getattr(returned, f.name) for f in dataclasses.fields(returned)}
    if isinstance(returned, Mapping) and not _is_of_the_field(returned):  # a dataset is one
        if all(isinstance(name, str) and name.isidentifier() for name in returned):
            return returned
    elif isinstance(returned, tuple):
        named = (*getattr(returned, "_fields", ()), *getattr(returned, "_extra_fields", ()))  # scipy has more
        if named:
            return {name: getattr(returned, name) for name in named}
        if len(returned) > 1 and len(returned) == len(declared):
            return dict(zip(declared, returned, strict=True))
        if any(_is_array(item) or _is_of_the_field(item) for item in returned):
            return {f"{RESULT}_{number}": item for number, item in enumerate(returned)}
    elif hasattr(type(returned), "model_fields"):  # pydantic's
        return {name: getattr(returned, name) for name in type(returned).model_fields}
    return {declared[0] if len(declared) == 1 else RESULT: returned}


def collect_files(
    outputs: Mapping[str, str], task_dir: Path, run_dir: Path, promises: Promises = _NOTHING
) -> Artifacts:
    """Return the artifacts of a command. Raise ModuleError for one that is missing or not as promised."""
    task, run = os.fspath(task_dir), os.fspath(run_dir)
    sizes: Sizes = {}
    artifacts: Artifacts = {}
    for name, path in outputs.items():
        promise = promises.get(name)
        with _named(name):
            if promise is not None and promise.glob is not None:
                artifacts[name] = _keep_files(matching(path, task), task, run, promise, path)
            else:
                artifacts[name] = _keep_file(name, path, task, run, promise, sizes)
    _mark_passing(promises, artifacts)
    return artifacts


def _mark_passing(promises: Promises, artifacts: Artifacts) -> None:
    """Mark in the record what is not kept: other runs must not use it while this one is going."""
    for name, promise in promises.items():
        if not promise.keep and name in artifacts:
            artifacts[name]["keep"] = False


def check_values(values: Values, promises: Promises) -> None:
    """Check the values of a command against their contracts. Raise ModuleError."""
    for name, promise in promises.items():
        if promise.value is not None:
            with _named(name):
                check_value(values[name], promise)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Say which output breaks its promise."""
    try:
        yield
    except Breach as breach:
        raise ModuleError(f"output '{name}': {breach}") from breach.__cause__


def matching(pattern: str, task: str) -> list[str]:
    """Return the files of a task that a pattern matches, in the order of their names."""
    names = set(_expanded(pattern.split("/"), task))
    return sorted(name for name in names if not os.path.isdir(f"{task}/{name}"))


def _expanded(parts: list[str], task: str) -> Iterator[str]:
    """Return the paths that a pattern matches. `**` follows no links to directories, unlike Python's own."""
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
    name: str, path: str, task: str, run: str, promise: "Output | None", sizes: Sizes
) -> dict[str, Any]:
    if promise is None:
        return describe(path, task, run)
    entry = describe(path, task, run, promise.digest)
    hold_file(name, f"{run}/{entry['path']}", promise, sizes)
    if promise.inside is not None:
        entry["inside"] = promise.inside
    return entry


def hold_file(name: str, path: str, promise: "Output", sizes: Sizes) -> None:
    """Hold a file to its contract; a name for a size is one size in all that share `sizes`. Raise Breach."""
    if LIBRARIES.get(suffix_of(path), ("array",))[0] == "array":  # or what takes no library
        return check_path(name, path, promise, sizes)
    labelled = promise.units is not None and not lacking(path) and format_of(path) != "frames"
    if promise.inside is not None or set(promise.promises) - {"units"} or labelled:
        from diel.store.artifacts.contents import check_contents  # here: libraries that read such files

        check_contents(name, path, promise, sizes)


def _keep_files(
    paths: Iterable[str], task: str, run: str, promise: "Output | None", pattern: str = ""
) -> dict[str, Any]:
    way = "content" if promise is None else promise.digest
    entries = [describe(path, task, run, way) for path in paths]
    if promise is not None and promise.files is not None:
        hold_count(promise.files, pattern or "the list", len(entries), "file")
    elif not entries:
        raise Breach(f"no file matches '{pattern}'; the task wrote {written(task)}")
    return {"files": entries, "size": sum(entry["size"] for entry in entries)}
