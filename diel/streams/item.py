"""Items as bytes: one letter for the kind, then JSON, raw bytes, or arrays with their dtype and shape.

    j  JSON in UTF-8: any JSON value
    b  the bytes as they are
    n  arrays: u32 (little endian) size of a JSON header, the header, zeros up to a multiple of 64 bytes from
       the item's start, then the arrays' bytes in C order, each at a multiple of 64
    r  JSON {"file", "offset", "size"}: the item is in that file, in one of the forms above

The header of `n` is {"value": …, "arrays": [{"at": […], "dtype": …, "shape": […], "offset": …}]}: the item
as JSON with null where arrays stand; `at` is the path to that place (keys and indices, empty for the item as
a whole), `offset` counts from the item's start. Nothing is pickled: an item can be read in any language, and
reading one runs no code.

Large items are in files: written once by their producer, mapped by their consumers, never through the broker.
Each producer appends to files of its own. An item begins at a page, so that a consumer maps it alone: what a
consumer holds stays valid when the file is removed, and goes when the item goes.
"""

import json
import math
import mmap
import os
import secrets
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from diel.base.errors import StreamError

if TYPE_CHECKING:
    import numpy

Buffer = bytes | memoryview
ALIGNED = 64
"""Bytes: arrays begin at multiples of it, which suits vector instructions and cache lines."""
_SIZE = struct.Struct("<cI")
LARGE = 64 * 1024
"""From this many bytes on, an item goes into a file: below, the broker is as fast (docs/decisions/022)."""
ROLL = 64 * 1024 * 1024
"""Bytes after which another file is begun: what is spent goes, and its memory is used again."""
_PAGE = max(4096, mmap.ALLOCATIONGRANULARITY)
_AHEAD = 64 * 1024 * 1024
"""Bytes that are asked of the file system at once, at most."""
_FAST = ("ext4", "xfs", "btrfs", "overlay")
"""File systems that give room without writing to it: an array is then written several times as fast."""


def encode(item: Any) -> list[Buffer]:
    """Return an item's bytes, in parts so that a large array is not copied. Raise StreamError for no JSON,
    bytes or array, nor a dict or list of JSON and arrays."""
    if isinstance(item, bytes | bytearray | memoryview):
        return [b"b", item if isinstance(item, bytes) else memoryview(item).cast("B")]
    try:
        return [b"j" + _json(item)]
    except _HoldsArray:
        arrays: list[tuple[list[Any], numpy.ndarray[Any, Any]]] = []
        return _with_arrays(_parted(item, [], arrays), arrays)


class _HoldsArray(Exception):
    """An item is not JSON: it holds an array."""


def _json(value: Any) -> bytes:
    try:
        return _encoder.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StreamError(
            f"an item of a stream cannot be {type(value).__name__} ({error}); put JSON values, bytes, "
            "numpy arrays, or dicts and lists of JSON values and arrays"
        ) from error


def as_python(value: Any) -> Any:
    """Return a number of numpy as Python's; anything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _plain(value: Any) -> Any:
    """Return a number of numpy as Python's. Raise _HoldsArray for an array, TypeError for others."""
    if hasattr(value, "__array__") and getattr(value, "shape", ()) != ():
        raise _HoldsArray
    plain = as_python(value)
    if plain is value:
        raise TypeError(f"{type(value).__name__} is not JSON")
    return plain


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
"""Made once: `json.dumps` with arguments makes one for each item."""


def _parted(value: Any, at: list[Any], arrays: list[tuple[list[Any], Any]]) -> Any:
    """Return the value with null in the places of arrays, which are listed with their places."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, dict):
        return {key: _parted(part, [*at, key], arrays) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_parted(part, [*at, index], arrays) for index, part in enumerate(value)]
    if hasattr(value, "__array__") and getattr(value, "shape", ()) != ():
        arrays.append((at, value))
        return None
    return value


def _with_arrays(value: Any, places: list[tuple[list[Any], Any]]) -> list[Buffer]:
    import numpy  # only where an item holds an array

    entries: list[dict[str, Any]] = []
    raws: list[Buffer] = []
    end = 0
    for at, content in places:
        array = numpy.ascontiguousarray(content)
        if array.dtype.hasobject:
            raise StreamError(f"an array of dtype {array.dtype} cannot be put: it holds Python objects")
        start = -(-end // ALIGNED) * ALIGNED
        dtype = numpy.lib.format.dtype_to_descr(array.dtype)
        entries.append({"at": at, "dtype": dtype, "shape": array.shape, "offset": start})
        flat: Any = array.reshape(-1).view(numpy.uint8) if array.size else b""
        raws += [bytes(start - end), memoryview(flat)]
        end = start + array.nbytes
    return [_header(value, entries), *raws]


def _header(value: Any, entries: list[dict[str, Any]]) -> bytes:
    """Return the header with its padding; offsets are stored from its end, and returned from the start."""
    room = ALIGNED
    while True:
        shifted = [{**entry, "offset": entry["offset"] + room} for entry in entries]
        text = _json({"value": value, "arrays": shifted})
        needed = -(-(_SIZE.size + len(text)) // ALIGNED) * ALIGNED
        if needed <= room:
            return (_SIZE.pack(b"n", len(text)) + text).ljust(room, b"\0")
        room = needed


def decode(data: Buffer) -> Any:
    """Return the item of these bytes; arrays are read-only views of them. Raise StreamError for others."""
    kind = data[:1]
    if kind == b"j":
        return json.loads(str(data[1:], "utf-8"))
    if kind == b"b":
        return bytes(data[1:])
    if kind == b"n":
        return _arrays(memoryview(data).toreadonly())
    raise StreamError(f"an item of a stream begins with {bytes(kind)!r}; expected one of j, b, n, r")


def _arrays(data: memoryview) -> Any:
    import numpy  # only where an item holds an array

    (_, size) = _SIZE.unpack_from(data)
    header = json.loads(bytes(data[_SIZE.size : _SIZE.size + size]))
    whole = numpy.frombuffer(data, numpy.uint8)
    value = header["value"]
    for entry in header["arrays"]:
        dtype = numpy.lib.format.descr_to_dtype(_descr(entry["dtype"]))
        shape: tuple[int, ...] = tuple(entry["shape"])
        nbytes = math.prod(shape, start=dtype.itemsize)
        flat = whole[entry["offset"] : entry["offset"] + nbytes]
        if flat.ctypes.data % max(1, dtype.alignment):
            flat = flat.copy()  # small: large items lie in files, where they are aligned
            flat.flags.writeable = False
        value = _placed(value, entry["at"], flat.view(dtype).reshape(shape))
    return value


def _descr(described: Any) -> Any:
    """Return a dtype's description as numpy expects it: JSON has lists in the place of a field's tuples."""
    if isinstance(described, str):
        return described
    names = [tuple(name) if isinstance(name, list) else name for name, *_ in described]
    return [
        (name, _descr(kind), *map(tuple, shape))
        for name, (_, kind, *shape) in zip(names, described, strict=True)
    ]


def _placed(value: Any, at: Sequence[Any], array: Any) -> Any:
    if not at:
        return array
    place = value
    for step in at[:-1]:
        place = place[step]
    place[at[-1]] = array
    return value


def read_npy(path: Path) -> Any:
    """Return the array in a file of numpy's format, mapped. Raise OSError and ValueError if it holds none."""
    import numpy  # only for arrays

    return numpy.load(path, mmap_mode="r", allow_pickle=False)


def write_npy(path: Path, array: Any) -> None:
    """Write an array to a file of numpy's format."""
    import numpy  # only for arrays

    numpy.save(path, array, allow_pickle=False)


class ItemWriter:
    """The files of one producer in `folder`, which lies below `root`, the run's `streams` directory."""

    def __init__(self, root: Path, folder: str) -> None:
        self._root = root
        self._stem = f"{folder}/items-{secrets.token_hex(6)}"
        self._number = self._end = self._room = 0
        self._file = -1
        self._name = ""
        self._forced = self._fast = False

    def append(self, parts: Sequence[Buffer], size: int) -> tuple[bytes, str]:
        """Write an item; return its placeholder in the stream, and the file's name."""
        if self._file < 0 or self._end >= ROLL:
            self._roll()
        offset = self._end
        if self._fast and offset + size > self._room:
            self._ask_for_room(offset + size)
        _write_all(self._file, parts, offset, size)
        if self._forced:  # on NFS another node sees only what was forced out
            os.fsync(self._file)
        self._end = -(-(offset + size) // _PAGE) * _PAGE
        reference = {"file": self._name, "offset": offset, "size": size}
        return b"r" + json.dumps(reference, separators=(",", ":")).encode(), self._name

    def _roll(self) -> None:
        self.close()
        self._number += 1
        self._name = f"{self._stem}-{self._number}.bin"
        path = self._root / self._name
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StreamError(f"{path}: cannot be written: {error.strerror}") from error
        kind = kind_of_file_system(path)
        self._forced, self._fast = kind.startswith("nfs"), kind in _FAST
        self._end = self._room = 0

    def _ask_for_room(self, end: int) -> None:
        more = max(end, min(2 * end, end + _AHEAD))  # so that a producer of few items takes little
        try:
            os.posix_fallocate(self._file, self._room, more - self._room)
        except OSError:
            self._fast = False  # whoever writes reports a full disk
        self._room = more

    def close(self) -> None:
        if self._file >= 0:
            if self._room > self._end:
                os.ftruncate(self._file, self._end)
            os.close(self._file)
            self._file = -1


def _write_all(file: int, parts: Sequence[Buffer], offset: int, size: int) -> None:
    try:
        written = os.pwritev(file, parts, offset)
        if written < size:  # one call writes 2 GiB at most, and less where the disk fills up
            rest = memoryview(b"".join(parts))
            while written < size:
                written += os.pwrite(file, rest[written:], offset + written)
    except OSError as error:
        raise StreamError(f"a large item cannot be written: {error.strerror}") from error


def kind_of_file_system(path: Path) -> str:
    """Return its name as the system has it: that of the innermost mount point, of several the last."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if path.is_relative_to(mount.mountpoint)]
    kinds = {len(mount.mountpoint): mount.fstype for mount in mounts}
    return kinds[max(kinds)] if kinds else ""


def mapped(root: Path, reference: Buffer) -> memoryview:
    """Return the bytes of an item in a file, mapped read-only. Raise StreamError if gone or too short."""
    place: dict[str, Any] = json.loads(bytes(reference[1:]))
    name, offset, size = str(place["file"]), int(place["offset"]), int(place["size"])
    if name.startswith("/") or ".." in name.split("/"):
        raise StreamError(f"an item of a stream points outside the run: {name}")
    try:
        file = os.open(root / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return memoryview(mmap.mmap(file, size, prot=mmap.PROT_READ, offset=offset))
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        raise StreamError(
            f"{root / name}: an item of a stream should stand there ({size} bytes at {offset}): {error}"
        ) from error
