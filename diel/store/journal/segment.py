"""The journal on the disk: segments, each an append-only file of one writer.

A writer appends whole lines of JSON with one write call each. A line that a kill tore is always the last of
its file, and a reader leaves it alone until it ends in a newline. Workers do so, too.
"""

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from diel.base.errors import JournalError, UsageError
from diel.base.files import put
from diel.base.form import NOT_AS_IT_SHOULD_BE, Contradiction
from diel.base.paths import RunPaths
from diel.base.values import encoder

if TYPE_CHECKING:
    from diel.store.journal.history import History
    from diel.store.journal.records import NoticeRecord, PrunedRecord, Record, Result

LATE = 60.0
"""Seconds after a block's end in which lines of its workers can still appear on a shared file system."""
_NAME = re.compile(r"(controller-[0-9]+|worker-[0-9]+-.*)\.jsonl")

_encode = encoder(ensure_ascii=False, separators=(",", ":"))
_encode_ascii = encoder(separators=(",", ":"))


class SegmentWriter:
    """Appends records to a new file that nobody else writes. Several threads may append."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self.size = 0
        """Bytes written."""

    @property
    def name(self) -> str:
        return self.path.name

    def append(self, *records: "Record | NoticeRecord") -> int:
        """Append records and return the offset of the first. Raise JournalError as `write` does."""
        try:
            data = "\n".join([*map(_encode, records), ""]).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # half a UTF-16 pair, which only an escape can write
            data = "\n".join([*map(_encode_ascii, records), ""]).encode("ascii")
        return self.write(data)

    def write(self, lines: bytes) -> int:
        """Append whole lines and return their offset. A write that fails part-way (a full disk) is taken back
        before JournalError is raised, so that the next line does not continue a torn one."""
        with self._lock:
            offset, rest = self.size, lines
            try:
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            except OSError as error:
                os.ftruncate(self._file, offset)
                raise JournalError(f"cannot write {self.path}: {error.strerror}") from error
            self.size = offset + len(lines)
        return offset

    def close(self) -> None:
        os.close(self._file)


def worker_segment_name(epoch: int, host: str, process: int) -> str:
    """Return a name that no other worker process uses: epoch, host, pid, and when it began."""
    return f"worker-{epoch:04d}-{host}-{process}-{time.time_ns():x}.jsonl"


def segments(journal: Path) -> list[str]:
    """Return a journal's segments: controllers by epoch, then workers. Raise UsageError for a folder."""
    try:
        with os.scandir(journal) as entries:
            entries_ = {entry.name: entry.is_file() for entry in entries if _NAME.fullmatch(entry.name)}
    except FileNotFoundError:
        return []
    for name, is_file in entries_.items():
        if not is_file:
            raise UsageError(f"{journal / name}: the journal needs a file here; put it back")
    return sorted(entries_)


def read_segment(path: Path, offset: int = 0) -> "Iterator[tuple[int, int, Record | None]]":
    """Yield begin, end and record of each whole line from an offset on; None for a damaged one."""
    with open(path, "rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            start, offset = offset, offset + len(line)
            yield start, offset, decode(line)


def decode(line: bytes) -> "Record | None":
    """Return the record of a line, or None if it is not a JSON object with an event."""
    try:
        record: Record = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "event" in record else None


def read_result(path: Path, offset: int) -> "Result":
    """Return the result at an offset. Raise JournalError if there is none."""
    record = read_keyed(path, offset)
    if record["event"] == "pruned":
        raise JournalError(f"{path}: no result at byte {offset}")
    return record


def read_keyed(path: Path, offset: int) -> "Result | PrunedRecord":
    """Return the result, or a pruned task's report, at an offset. Raise JournalError if there is neither."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            record = decode(file.readline())
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
    if record is not None and (
        record["event"] == "done" or record["event"] == "cached" or record["event"] == "pruned"
    ):
        return record
    raise JournalError(f"{path}: no record at byte {offset}")


class DamagedRecord(UsageError):
    """A record that cannot be folded in; what comes behind it can be read on."""

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message)
        self.place = place
        """Where it is, and what is wrong with it."""


@dataclass
class Reader:
    """A run's history, and how far each of its segments was read."""

    paths: RunPaths
    history: "History"
    offsets: dict[str, int] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)
    """Places of lines that are no records: what they said is missing."""
    flaws: list[str] = field(default_factory=list)
    """Places of damaged records behind which it was read on, and what is wrong with each."""
    _silent: set[str] = field(default_factory=set)
    """Segments that are complete: their blocks ended long ago."""
    _saved: dict[str, int] | None = None

    def catch_up(self, notice: "Callable[[str, int, Record], None] | None" = None) -> None:
        """Fold what was appended since, and show each record to `notice` first. Raise Damaged."""
        for name in segments(self.paths.journal):
            if name in self._silent:
                continue
            path = self.paths.journal / name
            offset = self.offsets.get(name, 0)
            try:
                if os.path.getsize(path) <= offset:
                    if self._is_long_over(name):
                        self._silent.add(name)
                    continue
            except FileNotFoundError:
                continue
            worker = name if name.startswith("worker") else ""
            for start, end, record in read_segment(path, offset):
                self.offsets[name] = end
                if record is None:
                    self.gaps.append(f"{path}:{_line_at(path, start)}: it is no record of a journal")
                    continue
                try:
                    if notice is not None:
                        notice(name, start, record)
                    self.history.apply(record, worker)
                except (*NOT_AS_IT_SHOULD_BE, MemoryError) as error:
                    flaw = _flaw(error, record)
                    if not flaw:
                        raise
                    place = f"{path}:{_line_at(path, start)}: {flaw}"
                    text = f"the journal of {self.paths.run_id} is not one that this diel can read: {place}"
                    raise DamagedRecord(text, place) from error

    def _is_long_over(self, name: str) -> bool:
        """Return whether a worker's block ended so long ago that no line of its segment is under way."""
        worker = self.history.workers.get(name)
        block = self.history.blocks.get(worker["block"]) if worker is not None else None
        ended = block.get("ended") if block is not None else None
        return ended is not None and time.time() - ended > LATE

    def save(self) -> None:
        """Write the snapshot in one step, if there is anything new."""
        if self._saved != self.offsets:
            put(self.paths.snapshot, self.history.packed(self.offsets))
            self._saved = dict(self.offsets)


def _flaw(error: BaseException, record: "Record") -> str:
    """Say what is wrong with a record at which the fold failed; empty if the fold is to blame."""
    if isinstance(error, Contradiction):
        return str(error)
    from diel.store.journal.form import (
        flaw_of,  # the types of all records, which a good journal does not need
    )

    return flaw_of(record)


def _line_at(path: Path, offset: int) -> int:
    with open(path, "rb") as file:
        return file.read(offset).count(b"\n") + 1
