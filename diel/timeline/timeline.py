"""The timeline of a run: a pure function of its journal, in memory that has a bound.

Of each stage the first thousands of attempts are kept as they are. With more, what remains is bins of time,
the longest attempts and those that failed.
"""

from __future__ import annotations

import heapq
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from math import log
from operator import mul, sub, truediv
from typing import Any

from diel.journal.segment import decode, read_segment, segments
from diel.paths import RunPaths, epoch_of
from diel.timeline.bins import BINS, FINEST, Bins
from diel.timeline.lines import Began, Ends, ends_in, last_start, numbers_of, pieces
from diel.timeline.span import Lane, Span

MANY = 5000
"""Attempts of a stage that are kept one by one."""
ROW = ("stage", "index", "attempt", "state", "begin", "end", "seconds", "worker", "node", "block")
LONGEST = 100
FAILURES = 1000
LANES = 256
"""Workers with a lane of their own; the others of a node share one."""
_STEP = 1.02
"""The durations of a stage are counted in classes 2 % wide: enough for a quantile."""
_LOG = math.log(_STEP)
_SHORT = 1e-6
"""Seconds below which all count as one class."""


@dataclass
class StageTimes:
    """The attempts of one stage."""

    many: int = MANY
    count: int = 0
    """Attempts that ended."""
    failed: int = 0
    """Those that ended otherwise than well: failed or cancelled."""
    seconds: float = 0.0
    """The time of all that ended well together."""
    squares: float = 0.0
    """The squares of their times together."""
    first: float = math.inf
    """When the first began, in seconds since the epoch."""
    last: float = 0.0
    """When the last ended."""
    spans: list[Span] = field(default_factory=list)
    """All of them, or, if `binned`, the longest and some that failed."""
    binned: bool = False
    lasted: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """How many took about 1.02^n seconds, by n; those that ended well."""
    lanes: dict[int, Bins] = field(default_factory=dict)
    floor: float = -1.0
    """If `binned`, the seconds of the shortest that is kept for its length."""

    @property
    def mean(self) -> float | None:
        good = self.count - self.failed
        return self.seconds / good if good else None

    @property
    def variance(self) -> float:
        """How much their times scatter, in seconds squared."""
        good = self.count - self.failed
        return max(0.0, self.squares / good - (self.seconds / good) ** 2) if good else 0.0

    @property
    def rate(self) -> float | None:
        """Attempts that ended in a second, from the first begin to the last end."""
        return self.count / (self.last - self.first) if self.last > self.first else None

    def quantile(self, part: float) -> float | None:
        """The seconds within which this part of the attempts ended well; of many, within 1 %."""
        if not self.binned:
            kept = sorted(span.seconds for span in self.spans if span.state == "done")
            return kept[math.ceil(part * len(kept)) - 1] if kept else None
        left = part * sum(self.lasted.values())
        for size in sorted(self.lasted):
            left -= self.lasted[size]
            if left <= 0:
                return float(_STEP**size)
        return None

    def keep(self, span: Span) -> None:
        """Takes one in whole."""
        self.spans.append(span)
        most = self.many if not self.binned else 2 * (LONGEST + FAILURES)
        if len(self.spans) > most:
            self.binned = True
            bad = [one for one in self.spans if one.state != "done"][:FAILURES]
            long = heapq.nlargest(LONGEST, self.spans, key=lambda one: one.seconds)
            self.spans = [*bad, *(one for one in long if one.state == "done")]
            self.floor = long[-1].seconds


@dataclass
class Timeline:
    """What happened when and where in a run, as far as its segments were read."""

    paths: RunPaths
    many: int = MANY
    origin: float = 0.0
    """Where its bins begin, in seconds since the epoch; 0 until anything ended."""
    width: float = FINEST
    """Seconds of a bin."""
    last: float = 0.0
    """The latest time that anything ended."""
    stages: dict[str, StageTimes] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    begun: dict[str, Began] = field(default_factory=dict)
    """By segment, the attempt that its worker began and has not ended."""
    given_up: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """When attempts of workers that no longer answered were given up."""
    driven: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By epoch, when its controller took the run over, and the last sign of life of it and its workers."""
    _of: dict[str, int] = field(default_factory=dict)
    """The lane of each segment."""

    def catch_up(self) -> int:
        """Reads what was appended since the last call. Returns how many attempts ended in it."""
        before = sum(stage.count for stage in self.stages.values())
        for name in segments(self.paths.journal):
            path, offset = self.paths.journal / name, self.offsets.get(name, 0)
            with suppress(FileNotFoundError):
                if os.path.getsize(path) <= offset:
                    continue
                for piece in pieces(path, offset):
                    if not self.offsets.get(name):
                        self._open(name)
                    self._take(name, piece)
                    self.offsets[name] = self.offsets.get(name, 0) + len(piece)
        return sum(stage.count for stage in self.stages.values()) - before

    def running(self, until: float, *, live: bool) -> Iterator[Span]:
        """Attempts that began and have no end: until then they run, or they were lost.

        `until` is now for a run that lives, else the end of its last controller. On one machine workers end
        with their controller, and a later one lost what they had begun.
        """
        newest = max(self.driven, default=0)
        for name, began in self.begun.items():
            place, epoch = self._of.get(name, 0), epoch_of(name)
            end, state = until, "running" if live else "lost"
            if (gone := self.given_up.get((began.stage, began.index, began.attempt))) is not None:
                end, state = gone, "failed"
            elif epoch < newest and self.lanes[place].worker and not self.lanes[place].block:
                end, state = self.driven[epoch][1], "lost"
            end = max(began.time, end)
            yield Span(began.stage, began.index, began.attempt, place, began.time, end, state)

    def rows(self, until: float, *, live: bool) -> Iterator[tuple[Any, ...]]:
        """The attempts that are kept one by one, and those that run, as plain data: the columns of `ROW`."""
        kept = [span for stage in self.stages.values() for span in stage.spans]
        for span in [*kept, *self.running(until, live=live)]:
            lane = self.lanes[span.lane]
            head = (span.stage, span.index, span.attempt, span.state, span.begin, span.end)
            place = (lane.worker.removesuffix(".jsonl"), lane.node, lane.block)
            yield *head, round(span.seconds, 6), *place

    def _open(self, name: str) -> None:
        """Learns from its first record where a segment was written."""
        first = next((record for _, _, record in read_segment(self.paths.journal / name) if record), None)
        if first is not None and first["event"] == "controller":
            self.origin = min(self.origin or first["time"], first["time"])
        node, block = name.removeprefix("worker-")[5:].rsplit("-", 2)[0], ""
        if first is not None and first["event"] == "worker":
            node, block = str(first.get("node") or first["host"]), first.get("block", "")
        if name.startswith("worker"):
            self._of[name] = self._lane(Lane(name, node, block))

    def _lane(self, lane: Lane) -> int:
        if len(self.lanes) >= LANES:
            lane = Lane("", lane.node, "")
        if len(self.lanes) >= 2 * LANES and lane not in self.lanes:
            lane = Lane("", "", "")
        if lane not in self.lanes:
            self.lanes.append(lane)
        return self.lanes.index(lane)

    def _take(self, name: str, piece: bytes) -> None:
        epoch = epoch_of(name)
        for record in _turns(piece) if name.startswith("controller") else ():
            self._heard(epoch, record["time"])
            if isinstance(idle := record.get("idle"), float):  # seconds since the last heartbeat before it
                self._heard(epoch - 1, record["time"] - idle)
        began, at = last_start(piece)
        ends = ends_in(piece)
        for alike in ends:
            self._count(self._of[name] if name in self._of else self._lane(Lane("", "", "")), alike)
            self._heard(epoch, max(alike.times))
        if began is not None:
            self._heard(epoch, began.time)
            self.begun[name] = began
        known = self.begun.get(name)
        after = ends_in(piece[at:]) if at >= 0 else ends
        if known is not None and any(known.task in end.tasks for end in after if end.stage == known.stage):
            del self.begun[name]

    def _heard(self, epoch: int, when: float) -> None:
        began, last = self.driven.get(epoch, (when, when))
        self.driven[epoch] = min(began, when), max(last, when)

    def _count(self, lane: int, ends: Ends) -> None:
        """Adds attempts of a stage that ended in the same way: loops that a million tasks go through."""
        if ends.state == "given up":
            for task, time in zip(ends.tasks, ends.times, strict=True):
                self.given_up[(ends.stage, *numbers_of(task))] = time
            return
        times, took = ends.times, ends.seconds
        self._extend(max(times))
        stage = self.stages.setdefault(ends.stage, StageTimes(self.many))
        stage.count += len(times)
        stage.first = min(stage.first, min(map(sub, times, took)))
        stage.last = max(stage.last, max(times))
        if ends.state == "done":
            stage.seconds += sum(took)
            stage.squares += sum(map(mul, took, took))
            logs = map(log, took if min(took) >= _SHORT else map(max, took, repeat(_SHORT)))
            for size, count in Counter(map(round, map(truediv, logs, repeat(_LOG)))).items():
                stage.lasted[size] += count
        else:
            stage.failed += len(times)
        lasts = [(time - self.origin) / self.width for time in times]
        firsts = list(map(sub, lasts, map(truediv, took, repeat(self.width))))
        stage.lanes.setdefault(lane, Bins()).fill(firsts, lasts, self.width, ends.state)
        if ends.state == "done" and max(took) <= stage.floor:
            return
        for task, time, seconds in zip(ends.tasks, times, took, strict=True):
            if seconds > stage.floor or ends.state != "done":
                index, attempt = numbers_of(task)
                stage.keep(Span(ends.stage, index, attempt, lane, time - seconds, time, ends.state))

    def _extend(self, end: float) -> None:
        """Makes the bins wide enough for a time."""
        self.last = max(end, self.last)
        self.origin = self.origin or end
        while (end - self.origin) / self.width >= BINS:
            self.width *= 2
            for stage in self.stages.values():
                for bins in stage.lanes.values():
                    bins.halve()


def _turns(piece: bytes) -> Iterator[Any]:
    """The lines with which controllers begin and end."""
    for word in (b'\n{"event":"controller"', b'\n{"event":"handover"', b'\n{"event":"end"'):
        at = -1
        while (at := piece.find(word, at + 1)) >= 0:
            end = piece.find(b"\n", at + 1)
            record: Any = decode(piece[at : end if end >= 0 else None])
            if record is not None and isinstance(record.get("time"), float):
                yield record
