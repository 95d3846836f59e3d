"""Arrays as inputs and outputs: read as memory maps, written at most once, handed on without a copy.

It needs NumPy, and is imported where an array is at hand already, or where a module asks for one.
"""

from __future__ import annotations

import mmap
import os
import resource
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy

from diel.artifacts.artifact import Artifact, Breach, Way, describe, file_content
from diel.artifacts.npy import Array, NotFinite, first_not_finite, read_header, write_array
from diel.errors import ModuleError

_SPARE = 256
"""Open files that a module may need besides its mapped arrays: each of these holds one."""


def open_array(name: str, path: str) -> Array:
    """A `.npy` file as an array that cannot be written to, mapped into memory: nothing is read yet.

    Raises ModuleError where it is no such file.
    """
    if not path.lower().endswith(".npy"):
        raise ModuleError(f"input '{name}' is {path}; an array is read from a .npy file: ask for a Path")
    try:
        array: Array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except ValueError as error:
        if "empty" in str(error):  # an array without items cannot be mapped
            array = numpy.load(path, allow_pickle=False)
            array.flags.writeable = False
            return array
        raise ModuleError(f"input '{name}': {path} holds no array: {error}") from error
    except (OSError, EOFError) as error:
        raise ModuleError(f"input '{name}': {path} cannot be read: {error}") from error


def open_arrays(name: str, paths: list[str]) -> list[Array]:
    """Several of them. Each holds a file open, so that the process may have to be allowed more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(paths) + len(os.listdir("/proc/self/fd")) + _SPARE
    if soft != resource.RLIM_INFINITY and wanted > soft:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return [open_array(name, path) for path in paths]


def as_array(value: Any) -> Array:
    """What a module returned as an array, without a copy where it lies in memory already.

    Raises Breach where it lies on a device, or holds Python objects.
    """
    try:
        array = numpy.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise Breach(f"it cannot be saved as an array: {error}") from error
    if array.dtype.hasobject:
        raise Breach("it cannot be saved as an array: it holds Python objects")
    return array


def keep_array(
    name: str,
    array: Array,
    task_dir: str,
    run_dir: str,
    inputs: Mapping[str, Any],
    way: Way,
    *,
    finite: bool = False,
) -> dict[str, Any]:
    """Makes an array a file of the task, written at most once; gives its path, size and digest.

    An array that is the memory map of an input is a hard link to that file, and one that the module
    has mapped from a file of its own is that file. Raises Breach where no number may be NaN or
    infinite, and one is: that is looked at while the array is written, where it has to be.
    """
    path = f"{task_dir}/{name}.npy"
    mapped = _whole_file(array)
    if mapped is not None:
        if finite:
            check_finite(name, array)
            finite = False
        if mapped.startswith(f"{task_dir}/"):
            return describe(mapped, task_dir, run_dir, way)
        digest = _digest_of_input(inputs, mapped)
        if digest is not None and _link(mapped, path):
            size = os.stat(path).st_size
            if way == "stat" or digest.startswith("stat-"):
                digest = file_content(path, way)[1]
            return {"path": f"{task_dir[len(run_dir) + 1 :]}/{name}.npy", "size": size, "digest": digest}
    try:
        size, digest = write_array(path, array, hashed=way != "stat", finite=finite)
    except NotFinite:
        check_finite(name, array)
        raise
    if way == "stat":
        size, digest = file_content(path, way)
    return {"path": os.path.relpath(path, run_dir), "size": size, "digest": digest}


def check_finite(what: str, array: Array) -> None:
    """Raises Breach where an array has a number that is NaN or infinite, with its place."""
    odd = first_not_finite(array)
    if odd is not None:
        index, value = odd
        place = f"[{', '.join(map(str, index))}]" if index else ""
        raise Breach(f"{what}{place} is {value}; expected a finite number")


def _whole_file(array: Array) -> str | None:
    """The `.npy` file that an array is the memory map of, unchanged and as a whole; None for others."""
    kind: Any = numpy.memmap
    root: Any = array if isinstance(array, kind) else array.base
    if not isinstance(root, kind) or not isinstance(root.base, mmap.mmap) or root.mode == "c":
        return None
    if array is not root and array.__array_interface__ != numpy.asarray(root).__array_interface__:
        return None
    path = os.fspath(root.filename) if root.filename is not None else ""
    if not path.endswith(".npy"):
        return None
    try:
        header = read_header(path)
    except (OSError, ValueError):
        return None
    flags = array.flags
    ordered = flags.f_contiguous if header.fortran_order else flags.c_contiguous
    whole = (header.shape, header.dtype, header.offset) == (array.shape, array.dtype, root.offset)
    return path if whole and ordered else None


def _digest_of_input(inputs: Mapping[str, Any], path: str) -> str | None:
    """The digest of the input that lies at a path; None where none does."""
    real = os.path.realpath(path)
    lists = (value if isinstance(value, list) else (value,) for value in inputs.values())
    found = (item for item in chain.from_iterable(lists) if type(item) is Artifact)
    return next((item.digest for item in found if os.path.realpath(item) == real), None)


def _link(source: str, path: str) -> bool:
    """Makes a hard link, where the file system can."""
    try:
        os.link(source, path)
    except OSError:  # another file system, a limit on links, a file of that name
        return False
    return True
