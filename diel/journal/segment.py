"""A segment: one append-only file of JSON lines with a single writer.

A writer appends whole lines with one write call each. A line that a kill tore is always the last of
its file, and a reader leaves it alone until it ends in a newline.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diel.errors import JournalError, UsageError

if TYPE_CHECKING:
    from diel.journal.records import Record, Result

_NAME = re.compile(r"(controller-[0-9]+|worker-[0-9]+-.*)\.jsonl")

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Misfit(ValueError):
    """A record that cannot be: those before it say otherwise."""


class SegmentWriter:
    """Appends records to one file that nobody else writes. The file is made new: it must not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._size = 0

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._size

    def append(self, *records: Record) -> int:
        """Appends records and returns the offset of the first.

        A write that fails part-way (a full disk) is taken back before JournalError is raised, so
        that the next line does not continue a torn one.
        """
        try:
            data = "".join([_encode(record) + "\n" for record in records]).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # half a UTF-16 pair, which only an escape can write
            data = "".join([_encode_ascii(record) + "\n" for record in records]).encode("ascii")
        offset = self._size
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, offset)
            raise JournalError(f"cannot write {self.path}: {error.strerror}") from error
        self._size += len(data)
        return offset

    def close(self) -> None:
        os.close(self._file)


def read_segment(path: Path, offset: int = 0) -> Iterator[tuple[int, int, Record | None]]:
    """The whole lines from an offset on: where each begins, where it ends, and its record.

    A damaged line has no record; it is told so that a reader can go on behind it.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            start, offset = offset, offset + len(line)
            yield start, offset, decode(line)


def decode(line: bytes) -> Record | None:
    """The record of a line, or None where it is no JSON object with an event."""
    try:
        record: Record = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "event" in record else None


def result_in(line: bytes) -> Result | None:
    """The result of a line; None where it is none."""
    record = decode(line)
    if record is not None and (record["event"] == "done" or record["event"] == "cached"):
        return record
    return None


def read_result(path: Path, offset: int) -> Result:
    """The result at an offset. Raises JournalError where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            record = result_in(file.readline())
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
    if record is None:
        raise JournalError(f"{path}: no record at byte {offset}")
    return record


def worker_segment_name(epoch: int, host: str, process: int) -> str:
    """A name that no other worker process uses: epoch, host, pid, and when it began."""
    return f"worker-{epoch:04d}-{host}-{process}-{time.time_ns():x}.jsonl"


def epoch_of(name: str) -> int:
    """The epoch of a controller's or worker's segment."""
    return int(name.split("-")[1].partition(".")[0])


def segments(journal: Path) -> list[str]:
    """The names of a journal's segments: controllers by epoch, then workers.

    Raises UsageError for one that is no file: no record could be told from one that is not there.
    """
    try:
        with os.scandir(journal) as entries:
            found = [(entry.name, entry.is_file()) for entry in entries if _NAME.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    for name, is_file in found:
        if not is_file:
            raise UsageError(
                f"{journal / name}: a part of the journal that is no file; put the file back there"
            )
    return sorted(name for name, _ in found)
