"""Arrays on the disk: `.npy` files, written once and hashed on the way, read as memory maps.

NumPy is imported where an array is at hand already, or where a module asks for one.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import resource
import threading
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import xxhash

from diel.artifacts.artifact import Artifact, describe
from diel.artifacts.digest import CHUNK, Way, file_content
from diel.errors import ModuleError

if TYPE_CHECKING:
    import numpy

_SMALL = 64 * 1024
_STEP = 16 * 1024 * 1024
_LARGE = 4 * _STEP
"""Bytes from which on a thread of its own for the digest is worth its start."""
_SPARE = 256
"""Open files that a module may need besides its mapped arrays: each of these holds one."""


# --- reading --------------------------------------------------------------------------------------


def open_array(name: str, path: str) -> numpy.ndarray[Any, Any]:
    """A `.npy` file as an array that cannot be written to, mapped into memory: nothing is read yet.

    Raises ModuleError where it is no such file.
    """
    import numpy  # the module asks for an array, so that it has it

    if not path.endswith(".npy"):
        raise ModuleError(f"input '{name}' is {path}; an array is read from a .npy file: ask for a Path")
    try:
        array: numpy.ndarray[Any, Any] = numpy.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except ValueError as error:
        if "empty" in str(error):  # an array without items cannot be mapped
            array = numpy.load(path, allow_pickle=False)
            array.flags.writeable = False
            return array
        raise ModuleError(f"input '{name}': {path} holds no array: {error}") from error
    except (OSError, EOFError) as error:
        raise ModuleError(f"input '{name}': {path} cannot be read: {error}") from error


def open_arrays(name: str, paths: list[str]) -> list[numpy.ndarray[Any, Any]]:
    """Several of them. Each holds a file open, so that the process may have to be allowed more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(paths) + len(os.listdir("/proc/self/fd")) + _SPARE
    if soft != resource.RLIM_INFINITY and wanted > soft:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return [open_array(name, path) for path in paths]


# --- writing --------------------------------------------------------------------------------------


def as_array(name: str, value: Any) -> numpy.ndarray[Any, Any]:
    """What a module returned as an array, without a copy where it lies in memory already.

    Raises ModuleError where it lies on a device, or holds Python objects.
    """
    import numpy  # already loaded: the module returned an array

    try:
        array = numpy.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModuleError(f"output '{name}' cannot be saved as an array: {error}") from error
    if array.dtype.hasobject:
        raise ModuleError(f"output '{name}' cannot be saved as an array: it holds Python objects")
    return array


def keep_array(
    name: str,
    array: numpy.ndarray[Any, Any],
    task_dir: str,
    run_dir: str,
    inputs: Mapping[str, Any],
    way: Way,
) -> dict[str, Any]:
    """Makes an array a file of the task, written at most once; gives its path, size and digest.

    An array that is the memory map of an input is a hard link to that file, and one that the module
    has mapped from a file of its own is that file.
    """
    path = f"{task_dir}/{name}.npy"
    mapped = _whole_file(array)
    if mapped is not None:
        if mapped.startswith(f"{task_dir}/"):
            return describe(name, mapped, task_dir, run_dir, way)
        digest = _digest_of_input(inputs, mapped)
        if digest is not None and _link(mapped, path):
            size = os.stat(path).st_size
            if way == "stat" or digest.startswith("stat-"):
                digest = file_content(path, way)[1]
            return {"path": f"{task_dir[len(run_dir) + 1 :]}/{name}.npy", "size": size, "digest": digest}
    if way == "stat":
        write_array(path, array, hashed=False)
        size, digest = file_content(path, way)
    else:
        size, digest = write_array(path, array)
    return {"path": os.path.relpath(path, run_dir), "size": size, "digest": digest}


def _whole_file(array: numpy.ndarray[Any, Any]) -> str | None:
    """The `.npy` file that an array is the memory map of, unchanged and as a whole; None for others."""
    import numpy  # already loaded

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
        header, offset = read_header(path)
    except (OSError, ValueError):
        return None
    flags = array.flags
    ordered = flags.f_contiguous if header["fortran_order"] else flags.c_contiguous
    whole = (header["shape"], header["descr"], offset) == (array.shape, array.dtype, root.offset)
    return path if whole and ordered else None


def read_header(path: str) -> tuple[dict[str, Any], int]:
    """The header of a `.npy` file (`shape`, `fortran_order`, and the dtype as `descr`), and where the data
    begins. Raises ValueError where it has none.
    """
    import numpy  # where an array on the disk is checked

    with open(path, "rb") as file:
        version = numpy.lib.format.read_magic(file)
        read = numpy.lib.format.read_array_header_1_0 if version == (1, 0) else _read_header_2
        shape, fortran_order, dtype = read(file)
        return {"shape": shape, "fortran_order": fortran_order, "descr": dtype}, file.tell()


def _read_header_2(file: io.BufferedReader) -> tuple[tuple[int, ...], bool, numpy.dtype[Any]]:
    import numpy  # see read_header

    shape, fortran_order, dtype = numpy.lib.format.read_array_header_2_0(file)
    return shape, fortran_order, dtype


def _digest_of_input(inputs: Mapping[str, Any], path: str) -> str | None:
    """The digest of the input that lies at a path; None where none does."""
    real = os.path.realpath(path)
    for value in inputs.values():
        for item in value if isinstance(value, list) else (value,):
            if type(item) is Artifact and os.path.realpath(item) == real:
                return item.digest
    return None


def _link(source: str, path: str) -> bool:
    """Makes a hard link; False where the file system cannot."""
    try:
        os.link(source, path)
    except OSError:  # another file system, a limit on links, a file of that name
        return False
    return True


def write_array(path: str, array: numpy.ndarray[Any, Any], *, hashed: bool = True) -> tuple[int, str]:
    """Writes an array as NumPy does; gives the file's size in bytes and the digest of its content (of its
    header alone, where it is not to be `hashed`).

    Nothing of the file is read: each piece is hashed and written while it is in the processor's cache,
    and a large array is hashed by a thread beside the writing. A file of that name is replaced in one
    step: the array may be mapped from it.
    """
    head = _header(array)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        part = ""
    except FileExistsError:
        part = f"{os.path.dirname(path)}/.{os.path.basename(path)}.part"
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        if array.nbytes <= _SMALL:
            data = head + array.tobytes("F" if _is_fortran(array) else "C")
            _write(file, memoryview(data))
            size, text = len(data), xxhash.xxh3_128_hexdigest(data)
        else:
            size, digest = len(head) + array.nbytes, xxhash.xxh3_128(head)
            _write(file, memoryview(head))
            _reserve(file, size)
            if array.nbytes >= _LARGE and (flat := _flat(array)) is not None:
                _write_beside(file, flat, digest if hashed else None)
            else:
                for chunk in _chunks(array):
                    if hashed:
                        digest.update(chunk)
                    _write(file, chunk)
            text = digest.hexdigest()
    finally:
        os.close(file)
    if part:
        os.replace(part, path)
    return size, text


def _write(file: int, data: memoryview) -> None:
    while written := os.write(file, data):
        data = data[written:]


def _write_beside(file: int, data: memoryview, digest: xxhash.xxh3_128 | None) -> None:
    """Writes many bytes while another thread hashes them; both leave the interpreter to others."""

    def hash_all(wanted: xxhash.xxh3_128) -> None:
        for start in range(0, len(data), _STEP):
            wanted.update(data[start : start + _STEP])

    beside = None if digest is None else threading.Thread(target=hash_all, args=(digest,))
    if beside is not None:
        beside.start()
    try:
        for start in range(0, len(data), _STEP):
            _write(file, data[start : start + _STEP])
    finally:
        if beside is not None:
            beside.join()


def _reserve(file: int, size: int) -> None:
    """Asks for all blocks of a file at once, as NumPy does: writing is a third quicker on ext4.

    `posix_fallocate` would write to each block where the file system cannot do that; `fallocate` does
    nothing then, and the writing itself tells of a full disk.
    """
    if size < _STEP:
        return
    import ctypes  # here: few tasks make large arrays

    keep_size = 1
    with contextlib.suppress(AttributeError):  # a system without it
        ctypes.CDLL(None).fallocate(file, keep_size, ctypes.c_int64(0), ctypes.c_int64(size))


def _is_fortran(array: numpy.ndarray[Any, Any]) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _header(array: numpy.ndarray[Any, Any]) -> bytes:
    if array.dtype.names is None:
        return _plain_header(array.dtype.str, array.shape, _is_fortran(array))
    import numpy  # already loaded

    return _header_of(numpy.lib.format.header_data_from_array_1_0(array))


@lru_cache(maxsize=256)
def _plain_header(descr: str, shape: tuple[int, ...], fortran_order: bool) -> bytes:
    return _header_of({"descr": descr, "fortran_order": fortran_order, "shape": shape})


def _header_of(facts: dict[str, Any]) -> bytes:
    import numpy  # already loaded

    file = io.BytesIO()
    try:
        numpy.lib.format.write_array_header_1_0(file, facts)
    except ValueError:  # more than 64 KiB of fields, or their names are no Latin-1
        file = io.BytesIO()
        numpy.lib.format.write_array_header_2_0(file, facts)
    return file.getvalue()


def _flat(array: numpy.ndarray[Any, Any]) -> memoryview | None:
    """The bytes of an array as they lie in memory, where that is how they are written."""
    import numpy  # already loaded

    if array.flags.c_contiguous or array.flags.f_contiguous:
        return (array if array.flags.c_contiguous else array.T).reshape(-1).view(numpy.uint8).data
    return None


def _chunks(array: numpy.ndarray[Any, Any]) -> Iterator[memoryview]:
    """The bytes of an array in the order in which they are written, a piece at a time."""
    import numpy  # already loaded

    whole = _flat(array)
    if whole is not None:
        for start in range(0, len(whole), CHUNK):
            yield whole[start : start + CHUNK]
        return
    for piece in _pieces(array, CHUNK):
        yield numpy.ascontiguousarray(piece).view(numpy.uint8).data


def _pieces(array: numpy.ndarray[Any, Any], size: int) -> Iterator[numpy.ndarray[Any, Any]]:
    """The items of an array in C order, at most `size` bytes at a time."""
    import numpy  # already loaded

    yield from numpy.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        buffersize=max(1, size // max(1, array.itemsize)),
        order="C",
    )


def first_not_finite(array: numpy.ndarray[Any, Any]) -> tuple[tuple[int, ...], Any] | None:
    """Where the first NaN or infinite item of an array is, and the item; None where there is none."""
    import numpy  # already loaded

    if array.dtype.kind not in "fc":
        return None
    fortran = _is_fortran(array)
    looked = array.T if fortran else array
    start = 0
    for piece in _pieces(looked, CHUNK):
        good = numpy.isfinite(piece)
        if not good.all():
            place = numpy.unravel_index(start + int(good.argmin()), looked.shape)
            index = tuple(int(one) for one in (place[::-1] if fortran else place))
            return index, array[index].item()
        start += piece.size
    return None
