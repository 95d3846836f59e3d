"""Append-only files of records: a JSON header, and a block of bytes; and what the channels' records hold.

One broker writes at a time, and each begins a file of its own: what a killed one left half written is at
the end of its last file, where readers stop. A record is two sizes (u32, little endian), header, block. A
record counts once it is handed to the operating system: it survives all processes, not the machine.
"""

import json
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, Required, TypedDict

from diel.streams.protocol import Header, pack

ROLL = 16 * 1024 * 1024
"""Bytes after which another file is begun."""
_SIZES = struct.Struct("<II")
_decode = json.JSONDecoder().decode


class Place(NamedTuple):
    """The place of a block: the file's number, and bytes; `record` is where its record begins."""

    file: int
    offset: int
    size: int
    record: int = 0


class RecordLog:
    """The files `NAME-000001.log`, … of one folder."""

    def __init__(self, folder: Path, name: str, roll: int = ROLL) -> None:
        self._folder = folder
        self._name = name
        self._roll = roll
        folder.mkdir(parents=True, exist_ok=True)
        stems = (path.stem.rpartition("-") for path in folder.glob(f"{name}-*.log"))
        self.files = sorted(int(number) for stem, _, number in stems if stem == name and number.isdigit())
        """Numbers of the files, the newest last."""
        self._writer = -1
        self._end = 0
        self._readers: dict[int, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next record begins a file."""
        return self._writer < 0 or self._end >= self._roll

    def append(self, header: Mapping[str, object], block: bytes = b"") -> Place:
        """Write a record. Raise OSError without room; then the record is not written."""
        text = pack(header)
        if self.is_full:
            self.roll()
        record = self._end
        start = record + _SIZES.size + len(text)
        try:
            _write_all(self._writer, _SIZES.pack(len(text), len(block)) + text, block)
        except OSError:
            os.close(self._writer)
            self._writer = -1  # half a record may stand there: the next begins a file
            raise
        self._end = start + len(block)
        return Place(self.files[-1], start, len(block), record)

    def roll(self) -> None:
        """Begin a file with the next record."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1
        number = self.files[-1] + 1 if self.files else 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._writer = os.open(self.path(number), flags, 0o644)
        self.files.append(number)
        self._end = 0

    def read(self, place: Place) -> bytes:
        """Return a block. Raise OSError if its file is gone."""
        reader = self._readers.get(place.file)
        if reader is None:
            while len(self._readers) >= 8:
                os.close(self._readers.pop(next(iter(self._readers))))
            reader = os.open(self.path(place.file), os.O_RDONLY | os.O_CLOEXEC)
            self._readers[place.file] = reader
        return os.pread(reader, place.size, place.offset)

    def record(self, file: int, offset: int) -> tuple[Header, bytes]:
        """Return the record that begins at an offset: its header and its block."""
        text, block = _SIZES.unpack(self.read(Place(file, offset, _SIZES.size)))
        whole = self.read(Place(file, offset + _SIZES.size, text + block))
        return json.loads(whole[:text]), whole[text:]

    def records(self, since: int = 0) -> Iterator[tuple[Header, Place]]:
        """Yield all whole records, in order; those of the files from one on."""
        for number in self.files:
            if number >= since:
                yield from self.records_of(number)

    def records_of(self, number: int) -> Iterator[tuple[Header, Place]]:
        """Yield the whole records of one file."""
        data = self.path(number).read_bytes()
        length, offset = len(data), 0
        while offset + _SIZES.size <= length:
            text, block = _SIZES.unpack_from(data, offset)
            start = offset + _SIZES.size + text
            if not text or start + block > length:
                break
            try:
                header = _decode(data[start - text : start].decode())
            except ValueError:
                break  # as a machine that lost power leaves it
            yield header, Place(number, start, block, offset)
            offset = start + block

    def remove(self, number: int) -> None:
        """Remove a file other than the newest."""
        reader = self._readers.pop(number, None)
        if reader is not None:
            os.close(reader)
        self.files.remove(number)
        self.path(number).unlink(missing_ok=True)

    def close(self) -> None:
        for file in (*self._readers.values(), self._writer):
            if file >= 0:
                os.close(file)
        self._readers.clear()
        self._writer = -1

    def path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number:06d}.log"


def _write_all(file: int, head: bytes, block: bytes) -> None:
    size = len(head) + len(block)
    written = os.writev(file, (head, block))
    if written < size:
        rest = memoryview(head + block)
        while written < size:
            written += os.write(file, rest[written:])


class Counts(TypedDict, total=False):
    """How many items and bytes came, and how many items of each producer."""

    end: int
    bytes: int
    counts: dict[str, int]
    base: int
    """The lowest position that is still there: items below it are gone."""


class ChannelRecord(Counts, total=False):
    """A record of the channels' log; which keys it has follows from what it does."""

    do: Required[
        Literal["open", "close", "break", "gone"]
        | Literal["attempt", "place"]
        | Literal["join", "skip", "begin", "give", "undo", "seat", "commit", "tell", "settle"]
    ]
    """To a channel (`gone` has its Counts), to a producer's attempt, or to a consumer."""
    c: Required[str]
    g: str
    """The group of a consumer, whose name is `m`."""
    m: str
    p: str
    """The producer; its attempt `a` begins, or stopped, at item `at`."""
    a: int
    at: int
    buffer: int
    replay: bool
    groups: Any
    """The members of groups by name that `open` adds, the names of those that `break` breaks."""
    why: str
    cursor: int
    holds: bool
    pos: int
    """Items from a position on, `n` of them, went to a consumer; `undo` where they did not reach it."""
    n: int
    good: bool


class Batch(TypedDict):
    """Items that a producer put together, in the log of their channel."""

    p: str
    first: int
    """The number that the producer gave the first."""
    pos: int
    """The position of the first in the channel."""
    sizes: list[int]
    held: NotRequired[int]
    """Bytes in the files of large items, which are `files`."""
    files: NotRequired[list[str]]


class BatchIndex(Counts):
    """Of a full file of batches."""

    held: list[str]
    batches: int


class GroupSnapshot(TypedDict):
    cursor: int
    holds: bool
    members: dict[str, list[int]]
    unsettled: list[str]
    returned: list[tuple[int, int]]
    good: NotRequired[list[str]]
    broken_at: NotRequired[int | None]
    broken: NotRequired[dict[str, str]]


class ChannelSnapshot(Counts):
    c: str
    buffer: int
    replay: bool
    closed: bool
    broken: NotRequired[str]
    sources: dict[str, list[int]]
    groups: dict[str, GroupSnapshot]
