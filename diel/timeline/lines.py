"""The ends of attempts in a piece of a segment, found without decoding all of its lines.

Of a million tasks the JSON alone takes ten seconds to decode. A line that a worker wrote begins with the
fields that a timeline needs, in the order of `Done` and `Fail`; one that does not is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diel.journal.segment import decode

PIECE = 2**18
"""Bytes of a segment that are looked at together: the memory of larger ones is mapped anew for each."""
_ENDED = re.compile(
    rb'\n\{"event":"(done|fail)","stage":"([^"\\]*)","index":(\d+),"attempt":(\d+),(?:"bundle":\d+,)?'
    rb'"time":([\d.]+),"seconds":([\d.eE+-]+)(,"class":"cancelled")?'
)
"""It begins with bytes, not with `^`, which is tried at each of them."""
_BEGINS = (b'\n{"event":"done"', b'\n{"event":"fail"')
_START = b'\n{"event":"start"'


End = tuple[Any, ...]
"""`done` or `fail`, stage, index, attempt, time, seconds, and more if it was cancelled: as bytes, or decoded.
The seconds are None where a controller wrote the record for a worker that no longer answered."""


@dataclass(frozen=True, slots=True)
class Began:
    """An attempt without an end so far."""

    stage: str
    index: int
    attempt: int
    time: float


def pieces(path: Path, offset: int) -> Iterator[bytes]:
    """The whole lines of a segment from an offset on, some megabytes together, each behind a newline."""
    with open(path, "rb") as file:
        file.seek(offset)
        rest = b"\n"
        while data := file.read(PIECE):
            whole, _, rest = (rest + data).rpartition(b"\n")
            if whole:
                yield whole
            rest = b"\n" + rest


def ends_in(piece: bytes) -> list[End]:
    """The ends of attempts among these lines, as they are written there."""
    found: list[End] = _ENDED.findall(piece)
    if len(found) == sum(map(piece.count, _BEGINS)):
        return found
    lines = (b"\n" + line for line in piece.split(b"\n"))
    return [end for line in lines if line.startswith(_BEGINS) and (end := _decoded(line)) is not None]


def _decoded(line: bytes) -> End | None:
    record = decode(line)
    if record is None or (record["event"] != "done" and record["event"] != "fail"):
        return None
    try:
        seconds = record.get("seconds")
        return (
            record["event"].encode(),
            record["stage"].encode("utf-8", "surrogateescape"),
            int(record["index"]),
            int(record.get("attempt", 1)),
            float(record["time"]),
            None if seconds is None else float(seconds),
            b"cancelled" if record.get("class") == "cancelled" else b"",
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # a damaged one: the fold says which


def last_start(piece: bytes) -> tuple[Began | None, int]:
    """The last attempt that began in these lines, and where; a worker runs one at a time."""
    at = len(piece)
    while (at := piece.rfind(_START, 0, at)) >= 0:
        end = piece.find(b"\n", at + 1)
        record = decode(piece[at : end if end >= 0 else None])
        if record is None or record["event"] != "start":
            continue
        try:
            return Began(
                record["stage"], int(record["index"]), int(record["attempt"]), float(record["time"])
            ), at
        except (KeyError, TypeError, ValueError):
            continue
    return None, -1
