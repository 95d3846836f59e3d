"""The ends of attempts in a piece of a segment, found without decoding all of its lines.

Of a million tasks the JSON alone takes ten seconds to decode. A line that a worker wrote begins with the
fields that a timeline needs, in the order of `Done` and `Fail`; one that does not is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from diel.journal.segment import decode

PIECE = 2**18
"""Bytes of a segment that are looked at together: the memory of larger ones is mapped anew for each."""
_ENDED = re.compile(
    rb'\n\{"event":"(?=done"|fail")(?:(\w+","stage":"[^"\\]*)","index":(\d+,"attempt":\d+),'
    rb'(?:"bundle":\d+,)?"time":([\d.]+),"seconds":([\d.eE+-]+(?:,"class":"\w+")?))?'
)
"""It begins with bytes, not with `^`, which is tried at each of them; each group costs a tenth of its time.
All groups of a line whose fields stand in another order are empty."""
_BEGINS = (b'{"event":"done"', b'{"event":"fail"')
_START = b'\n{"event":"start"'


@dataclass(frozen=True, slots=True)
class Ends:
    """Attempts of a stage that ended in the same way, as columns."""

    stage: str
    state: str
    """`done`, `failed`, `cancelled`, or `given up`: by a controller, for a worker that no longer answered."""
    tasks: Sequence[bytes]
    """What `task_of` makes of index and attempt."""
    times: list[float]
    """When each ended, in seconds since the epoch."""
    seconds: list[float]
    """How long each took; 0 for an attempt that was given up."""


def task_of(index: int, attempt: int) -> bytes:
    """Return a task and its attempt, as a line has them."""
    return b'%d,"attempt":%d' % (index, attempt)


def numbers_of(task: bytes) -> tuple[int, int]:
    """Return index and attempt."""
    index, _, attempt = task.partition(b',"attempt":')
    return int(index), int(attempt)


@dataclass(frozen=True, slots=True)
class Began:
    """An attempt without an end so far."""

    stage: str
    index: int
    attempt: int
    time: float

    @property
    def task(self) -> bytes:
        return task_of(self.index, self.attempt)


def pieces(path: Path, offset: int) -> Iterator[bytes]:
    """Yield the whole lines of a segment from an offset, some megabytes at a time, each behind a newline."""
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        rest = b"\n"
        while data := file.read(PIECE):
            whole, _, rest = (rest + data).rpartition(b"\n")
            if whole:
                yield whole
            rest = b"\n" + rest


def ends_in(piece: bytes) -> list[Ends]:
    """Return the ends of attempts among these lines, those of a stage together."""
    matches = _ENDED.findall(piece)
    heads = dict.fromkeys(map(itemgetter(0), matches))  # in their order, the same each time
    if b"" in heads:
        matches = list(filter(None, map(_decoded, piece.split(b"\n"))))
        heads = dict.fromkeys(map(itemgetter(0), matches))
    return [
        ends
        for head in heads
        for ends in _alike(head, matches if len(heads) == 1 else [end for end in matches if end[0] == head])
    ]


def _alike(head: bytes, lines: list[tuple[bytes, ...]]) -> Iterator[Ends]:
    """Yield the attempts of one stage that ended well, or, by their class, those that did not."""
    kind, _, word = head.partition(b'","stage":"')
    stage = word.decode("utf-8", "surrogateescape")
    if kind == b"done":
        _, tasks, times, seconds = zip(*lines, strict=True)
        yield Ends(stage, "done", tasks, list(map(float, times)), list(map(float, seconds)))
        return
    for state, ends in groupby(sorted(lines, key=_badly), _badly):
        _, tasks, times, seconds = zip(*ends, strict=True)
        took = [float(text.partition(b",")[0]) for text in seconds]
        yield Ends(stage, state, tasks, list(map(float, times)), took)


def _badly(end: tuple[bytes, ...]) -> str:
    kind = end[3].partition(b',"class":')[2]
    return {b'"cancelled"': "cancelled", b'"given up"': "given up"}.get(kind, "failed")


def _decoded(line: bytes) -> tuple[bytes, ...] | None:
    """Return the groups of a line whose fields stand in another order."""
    record = decode(line) if line.startswith(_BEGINS) else None
    if record is None or record["event"] not in ("done", "fail"):
        return None
    try:
        head = f'{record["event"]}","stage":"{record["stage"]}'.encode("utf-8", "surrogateescape")
        seconds, badly = record.get("seconds"), record.get("class") if record["event"] == "fail" else None
        if seconds is None:
            seconds, badly = 0.0, "given up"
        took = repr(float(seconds)) + (f',"class":"{badly}"' if badly is not None else "")
        task = task_of(int(record["index"]), int(record.get("attempt", 1)))
        return head, task, repr(float(record["time"])).encode(), took.encode()
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # a damaged one: the fold says which


def last_start(piece: bytes) -> tuple[Began | None, int]:
    """Return the last attempt that began in these lines, and where; a worker runs one at a time."""
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
