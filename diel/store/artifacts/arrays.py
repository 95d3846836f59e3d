"""Arrays as inputs and outputs: read as memory maps, written at most once and in a single pass, never copied.

It needs NumPy, and is imported where an array is at hand already, or where one on the disk is looked at.
"""

import contextlib
import io
import mmap
import os
import resource
import threading
import tokenize
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy
import xxhash

from diel.base.errors import ModuleError
from diel.base.files import replacing
from diel.store.artifacts.artifact import Artifact, Breach, Way, describe, file_content, identity_of
from diel.store.artifacts.values import loss_of

Array = numpy.ndarray[Any, Any]
_SMALL = 64 * 1024
"""Bytes up to which an array is copied after its header, so that one call writes both."""
_PIECE = 1024 * 1024
"""Bytes to look at at a time: few enough to stay in the processor's cache between two looks."""
_STEP = 8 * 1024 * 1024
"""Bytes of a large array that one call writes while another thread looks at the same ones."""
_RESERVED = 16 * 1024 * 1024
_LARGE = 64 * 1024 * 1024
"""From this many bytes on, such a thread is worth its start."""
_BROKEN = (EOFError, SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError)
"""What NumPy raises for broken headers, besides ValueError."""
_SPARE = 256
"""Open files that a module can need besides its mapped arrays, each of which holds one."""


def open_array(name: str, path: str) -> Array:
    """Open a `.npy` file as a read-only array, mapped into memory: nothing is read yet. Raise ModuleError."""
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
    """Open several arrays. Each holds a file open, so the process may need a higher limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(paths) + len(os.listdir("/proc/self/fd")) + _SPARE
    if soft != resource.RLIM_INFINITY and needed > soft:
        most = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return [open_array(name, path) for path in paths]


def as_array(value: Any) -> Array:
    """Return what a module made as an array, not copied if it can. Raise Breach for what no file holds."""
    if (loss := loss_of(value)) is not None:
        raise Breach(loss)
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
    """Make an array a file of the task, written at most once; return its record. The memory map of an input
    becomes a hard link to that file, that of a file of the task is this file. Raise Breach where no number
    may be NaN or infinite and one is, which is looked at while the array is written."""
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
            if way == "stat" or digest.startswith("stat-"):
                digest = file_content(path, way)[1]
            return _entry(path, run_dir, os.stat(path).st_size, digest)
    try:
        size, digest = write_array(path, array, hashed=way != "stat", finite=finite)
    except NotFinite:
        check_finite(name, array)
        raise
    if way == "stat":
        size, digest = file_content(path, way)
    return _entry(path, run_dir, size, digest)


def _entry(path: str, run_dir: str, size: int, digest: str) -> dict[str, Any]:
    place = os.path.relpath(path, run_dir)
    return {"path": place, "size": size, "digest": digest, "identity": identity_of(path)[0]}


def check_finite(what: str, array: Array) -> None:
    """Raise Breach where an array has a number that is NaN or infinite, with its place."""
    odd = first_not_finite(array)
    if odd is not None:
        index, value = odd
        place = f"[{', '.join(map(str, index))}]" if index else ""
        raise Breach(f"{what}{place} is {value}; expected a finite number")


def _whole_file(array: Array) -> str | None:
    """Return the `.npy` file whose complete, unchanged memory map an array is; None for others."""
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
    real = os.path.realpath(path)
    lists = (value if isinstance(value, list) else (value,) for value in inputs.values())
    artifacts = (item for item in chain.from_iterable(lists) if type(item) is Artifact)
    return next((item.digest for item in artifacts if os.path.realpath(item) == real), None)


def _link(source: str, path: str) -> bool:
    try:
        os.link(source, path)
    except OSError:  # another file system, a limit on links, a file of that name
        return False
    return True


class NotFinite(Exception):
    """An item of an array is NaN or infinite."""


class Header(NamedTuple):
    """What a `.npy` file says about its array, and at which byte that begins."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: numpy.dtype[Any]
    offset: int


def read_header(path: str) -> Header:
    """Return the header of a `.npy` file. Raise ValueError if it has none, and OSError."""
    with open(path, "rb") as file:
        try:
            version = numpy.lib.format.read_magic(file)
            if version not in ((1, 0), (2, 0), (3, 0)):
                raise ValueError(f"version {version[0]}.{version[1]} of the format is unknown")
            # The third differs from the second in the letters of field names alone, which do not matter here.
            first = version == (1, 0)
            read = numpy.lib.format.read_array_header_1_0 if first else numpy.lib.format.read_array_header_2_0
            shape, fortran_order, dtype = read(file)
        except _BROKEN as error:
            raise ValueError(str(error) or type(error).__name__) from error
        if any(type(size) is not int or size < 0 for size in shape):
            raise ValueError(f"shape is not valid: {shape}")
        return Header(shape, fortran_order, dtype, file.tell())


def header_of(array: Array) -> bytes:
    """Return the header that NumPy would write for an array."""
    facts, file = numpy.lib.format.header_data_from_array_1_0(array), io.BytesIO()
    try:
        numpy.lib.format.write_array_header_1_0(file, facts)
    except ValueError:  # more than 64 KiB of fields, or their names are not Latin-1
        file = io.BytesIO()
        numpy.lib.format.write_array_header_2_0(file, facts)
    return file.getvalue()


def write_array(path: str, array: Array, *, hashed: bool = True, finite: bool = False) -> tuple[int, str]:
    """Write an array as NumPy does; return the file's size and the digest of its content (of its header,
    unless `hashed`). Nothing of the file is read: each piece is looked at while it is in the processor's
    cache. A file of that name is replaced in one step. Raise OSError, NotFinite."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        with replacing(path) as opened:
            return _write_any(opened.fileno(), array, hashed=hashed, finite=finite)
    try:
        return _write_any(file, array, hashed=hashed, finite=finite)
    except NotFinite:
        os.unlink(path)
        raise
    finally:
        os.close(file)


def _write_any(file: int, array: Array, *, hashed: bool, finite: bool) -> tuple[int, str]:
    head = header_of(array)
    if array.nbytes <= _SMALL:
        if finite and first_not_finite(array) is not None:
            raise NotFinite
        data = head + array.tobytes("F" if _is_fortran(array) else "C")
        _write(file, memoryview(data))
        return len(data), xxhash.xxh3_128_hexdigest(data)
    digest = xxhash.xxh3_128(head)
    flat = _flat(array)

    def look(piece: Array) -> memoryview:
        """Return the bytes of a piece of the array; each piece is looked at once."""
        if finite and not _all_finite(piece):
            raise NotFinite
        data = piece.view(numpy.uint8).data
        if hashed:
            digest.update(data)
        return data

    _write(file, memoryview(head))
    _reserve(file, len(head) + array.nbytes)
    if flat is not None and not (hashed or finite):
        _write(file, look(flat))
    elif flat is not None and array.nbytes >= _LARGE:
        _write_beside(file, flat, look)
    else:
        for piece in _pieces(array):
            _write(file, look(piece))
    return len(head) + array.nbytes, digest.hexdigest()


def _write(file: int, data: memoryview) -> None:
    while written := os.write(file, data):
        data = data[written:]


def _write_beside(file: int, flat: Array, look: Callable[[Array], memoryview]) -> None:
    """Write many bytes while another thread looks at each piece in the processor's cache."""
    steps: SimpleQueue[Array | None] = SimpleQueue()
    refused: list[NotFinite] = []

    def look_at_all() -> None:
        try:
            while (step := steps.get()) is not None:
                for piece in _slices(step, _PIECE):
                    look(piece)
        except NotFinite as error:
            refused.append(error)

    beside = threading.Thread(target=look_at_all)
    beside.start()
    try:
        for step in _slices(flat, _STEP):
            if refused:
                break
            steps.put(step)
            _write(file, step.view(numpy.uint8).data)
    finally:
        steps.put(None)
        beside.join()
    if refused:
        raise refused[0]


def _reserve(file: int, size: int) -> None:
    """Reserve all blocks of a file at once, as NumPy does: writing is a third faster on ext4.
    `posix_fallocate` would write to each block where the file system cannot do that."""
    if size < _RESERVED:
        return
    import ctypes  # here: few tasks make large arrays

    keep_size = 1
    with contextlib.suppress(AttributeError):  # a system without it
        ctypes.CDLL(None).fallocate(file, keep_size, ctypes.c_int64(0), ctypes.c_int64(size))


def _is_fortran(array: Array) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _flat(array: Array) -> Array | None:
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return (array if array.flags.c_contiguous else array.T).reshape(-1)
    return None


def _slices(flat: Array, size: int) -> Iterator[Array]:
    step = max(1, size // max(1, flat.itemsize))
    return (flat[start : start + step] for start in range(0, flat.size, step))


def _pieces(array: Array) -> Iterator[Array]:
    """Yield the items of an array as they are written, one dimension and a piece at a time."""
    flat = _flat(array)
    if flat is not None:
        yield from _slices(flat, _PIECE)
        return
    step = max(1, _PIECE // max(1, array.itemsize))
    for piece in numpy.nditer(
        array, flags=["external_loop", "buffered", "zerosize_ok"], buffersize=step, order="C"
    ):
        yield numpy.ascontiguousarray(piece)


def _numbers_of(array: Array) -> Iterator[Array]:
    """Yield the floating-point numbers and times of an array: itself, or its fields."""
    if array.dtype.names is not None:
        for name in array.dtype.names:
            yield from _numbers_of(array[name])
    elif array.dtype.kind in "fcM":
        yield array


def _all_finite(piece: Array) -> bool:
    for numbers in _numbers_of(piece):
        if numbers.dtype.char not in "eM":  # fast only for longer ones, and any sum of these is too large
            with numpy.errstate(over="ignore", invalid="ignore"):
                total = numpy.add.reduce(numbers, axis=None)
            if numpy.isfinite(total):  # it is only if all its parts are
                continue
        if not numpy.isfinite(numbers).all():
            return False
    return True


def first_not_finite(array: Array) -> tuple[tuple[int, ...], Any] | None:
    """Return the place of an array's first NaN or infinite item, and the item; None if all are finite."""
    for numbers in _numbers_of(array):
        fortran = _is_fortran(numbers)
        looked = numbers.T if fortran else numbers
        start = 0
        for piece in _pieces(looked):
            good = numpy.isfinite(piece)
            if not good.all():
                place = numpy.unravel_index(start + int(good.argmin()), looked.shape)
                index = tuple(int(number) for number in (place[::-1] if fortran else place))
                return index, numbers[index].item()
            start += piece.size
    return None
