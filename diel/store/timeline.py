"""When and where the attempts of a run took place: a function of its journal, in memory that has a bound.

Of each stage the first thousands of attempts are kept as they are. With more, what remains is bins of time,
the longest attempts and those that failed. Ends are found without decoding all lines: of a million tasks the
JSON alone takes ten seconds. A line that a worker wrote begins with the fields that a timeline needs, in the
order of `Done` and `Fail`; one that does not is decoded.
"""

import gzip
import heapq
import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from itertools import groupby, repeat
from math import log
from operator import itemgetter, mul, sub, truediv
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.files import put
from diel.base.paths import RunPaths, epoch_of
from diel.store.journal.segment import decode, read_segment, segments

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


class Lane(NamedTuple):
    """Where attempts run one after the other: a worker; beyond some hundreds, all others of a node."""

    worker: str
    """The worker's segment; empty for several of a node, or of all nodes."""
    node: str
    """The node as its scheduler calls it, else the host; empty for all others."""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """An attempt in time."""

    stage: str
    index: int
    attempt: int
    lane: int
    begin: float
    """Seconds since the epoch."""
    end: float
    """The time of its last sign of life while it runs."""
    state: str
    """`done`, `failed`, `cancelled`, `running`, or `lost`: it began, and no end of it is written."""

    @property
    def task(self) -> str:
        return f"{self.stage}/{self.index}"

    @property
    def seconds(self) -> float:
        return self.end - self.begin


BINS = 512
FINEST = 2.0**-6
"""The width of a bin at first, in seconds."""


@dataclass
class Bins:
    """By bin, the seconds that were spent in it, and how many attempts ended in it, well and badly."""

    busy: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    ended: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    failed: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def spread(self, first: float, last: float, width: float) -> None:
        """Add a span from `first` to `last`, in bins (fractions count), over all that it touches."""
        place = int(first)
        while place < last:
            part = min(last, place + 1) - max(first, place)
            self.busy[place] += part * width
            place += 1

    def fill(self, firsts: list[float], lasts: list[float], width: float, state: str) -> None:
        """Add attempts of a worker. One follows the other: all but the first of a bin lie in it."""
        if lasts != sorted(lasts):
            lasts, firsts = map(list, zip(*sorted(zip(lasts, firsts, strict=True)), strict=True))
        at = 0
        for place, count in Counter(map(int, lasts)).items():
            began, ended = firsts[at : at + count], lasts[at : at + count]
            within = 1 if min(began[1:], default=0.0) >= place else count
            for first, last in zip(began[:within], ended[:within], strict=True):
                self.spread(max(0.0, first), last, width)
            self.busy[place] += (sum(ended[within:]) - sum(began[within:])) * width
            if state != "cancelled":
                (self.ended if state == "done" else self.failed)[place] += count
            at += count

    def halve(self) -> None:
        """Make each two bins one."""
        self.busy, self.ended, self.failed = _half(self.busy), _half(self.ended), _half(self.failed)

    def packed(self) -> list[list[list[float]]]:
        return [
            [list(counts), [round(value, 3) for value in counts.values()]]
            for counts in (self.busy, self.ended, self.failed)
        ]

    @classmethod
    def unpacked(cls, packed: Any) -> "Bins":
        bins = cls()
        counts: tuple[dict[int, Any], ...] = (bins.busy, bins.ended, bins.failed)
        for count, (places, values) in zip(counts, packed, strict=True):
            count.update(zip(places, values, strict=True))
        return bins


def _half(bins: defaultdict[int, Any]) -> defaultdict[int, Any]:
    half: defaultdict[int, Any] = defaultdict(bins.default_factory)
    for place, value in bins.items():
        half[place // 2] += value
    return half


@dataclass
class StageTimes:
    """The attempts of one stage."""

    many: int = MANY
    count: int = 0
    failed: int = 0
    """Those that ended otherwise than well: failed or cancelled."""
    seconds: float = 0.0
    squares: float = 0.0
    first: float = math.inf
    """When the first began, in seconds since the epoch."""
    last: float = 0.0
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
        """Return the seconds within which this part of the attempts ended well; of many, within 1 %."""
        if not self.binned:
            seconds = sorted(span.seconds for span in self.spans if span.state == "done")
            return seconds[math.ceil(part * len(seconds)) - 1] if seconds else None
        remaining = part * sum(self.lasted.values())
        for size in sorted(self.lasted):
            remaining -= self.lasted[size]
            if remaining <= 0:
                return float(_STEP**size)
        return None

    def keep(self, span: Span) -> None:
        """Keep an attempt in whole."""
        self.spans.append(span)
        most = self.many if not self.binned else 2 * (LONGEST + FAILURES)
        if len(self.spans) > most:
            self.binned = True
            bad = [attempt for attempt in self.spans if attempt.state != "done"][:FAILURES]
            long = heapq.nlargest(LONGEST, self.spans, key=lambda attempt: attempt.seconds)
            self.spans = [*bad, *(attempt for attempt in long if attempt.state == "done")]
            self.floor = long[-1].seconds


@dataclass
class Timeline:
    """What happened when and where in a run, as far as its segments were read."""

    paths: RunPaths
    many: int = MANY
    origin: float = 0.0
    """Where its bins begin, in seconds since the epoch; 0 until anything ended."""
    width: float = FINEST
    last: float = 0.0
    stages: dict[str, StageTimes] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    begun: "dict[str, OpenAttempt]" = field(default_factory=dict)
    """By segment, the attempt that its worker began and has not ended."""
    given_up: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """When attempts of workers that no longer answered were given up."""
    driven: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By epoch, when its controller took the run over, and the last sign of life of it and its workers."""
    _of: dict[str, int] = field(default_factory=dict)
    """The lane of each segment."""

    def catch_up(self) -> int:
        """Read what was appended since the last call. Return how many attempts ended in it."""
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
        """Yield attempts that began and have no end: until then they run, or they were lost.

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
        """Yield the attempts kept one by one, and those that run, as plain data in the columns of `ROW`."""
        spans = [span for stage in self.stages.values() for span in stage.spans]
        for span in [*spans, *self.running(until, live=live)]:
            lane = self.lanes[span.lane]
            head = (span.stage, span.index, span.attempt, span.state, span.begin, span.end)
            place = (lane.worker.removesuffix(".jsonl"), lane.node, lane.block)
            yield *head, round(span.seconds, 6), *place

    def _open(self, name: str) -> None:
        """Learn from its first record where a segment was written."""
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
        begun = self.begun.get(name)
        after = ends_in(piece[at:]) if at >= 0 else ends
        if begun is not None and any(begun.task in end.tasks for end in after if end.stage == begun.stage):
            del self.begun[name]

    def _heard(self, epoch: int, when: float) -> None:
        began, last = self.driven.get(epoch, (when, when))
        self.driven[epoch] = min(began, when), max(last, when)

    def _count(self, lane: int, ends: "EndedAttempts") -> None:
        """Add attempts of a stage that ended in the same way: loops that a million tasks go through."""
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
        self.last = max(end, self.last)
        self.origin = self.origin or end
        while (end - self.origin) / self.width >= BINS:
            self.width *= 2
            for stage in self.stages.values():
                for bins in stage.lanes.values():
                    bins.halve()


def _turns(piece: bytes) -> Iterator[Any]:
    """Yield the lines with which controllers begin and end."""
    for word in (b'\n{"event":"controller"', b'\n{"event":"handover"', b'\n{"event":"end"'):
        at = -1
        while (at := piece.find(word, at + 1)) >= 0:
            end = piece.find(b"\n", at + 1)
            record: Any = decode(piece[at : end if end >= 0 else None])
            if record is not None and isinstance(record.get("time"), float):
                yield record


VERSION = 1
SAVED = 20_000
"""Attempts that are worth a file: fewer are read as fast."""
_COUNTS = ("count", "failed", "seconds", "squares", "first", "last", "binned", "floor")
_PLAIN = ("origin", "width", "last", "offsets")


def read_timeline(paths: RunPaths) -> Timeline:
    """Return the timeline of a run now, from its shortcut on. Raise UsageError for an unreadable journal."""
    timeline = load_timeline(paths) or Timeline(paths)
    if timeline.catch_up() >= SAVED:
        _save(timeline)
    return timeline


def _save(timeline: Timeline) -> None:
    """Write the timeline in one step; none in a directory that the user cannot write."""
    document = {
        "version": VERSION,
        **{name: getattr(timeline, name) for name in _PLAIN},
        "lanes": timeline.lanes,
        "of": timeline._of,
        "driven": [[epoch, *times] for epoch, times in timeline.driven.items()],
        "begun": {name: astuple(began) for name, began in timeline.begun.items()},
        "given_up": [[*task, when] for task, when in timeline.given_up.items()],
        "stages": {name: _packed(stage) for name, stage in timeline.stages.items()},
    }
    with suppress(OSError):
        put(timeline.paths.timeline, gzip.compress(json.dumps(document).encode(), 1))


def _packed(stage: StageTimes) -> dict[str, Any]:
    return {
        **{name: getattr(stage, name) for name in _COUNTS},
        "spans": [astuple(span)[1:] for span in stage.spans],
        "lasted": list(stage.lasted.items()),
        "lanes": [[lane, bins.packed()] for lane, bins in stage.lanes.items()],
    }


def load_timeline(paths: RunPaths) -> Timeline | None:
    """Return the kept timeline; None if it is missing, damaged, of another version or other segments."""
    try:
        document = json.loads(gzip.decompress(paths.timeline.read_bytes()))
        if document["version"] != VERSION:
            return None
        for name, offset in document["offsets"].items():
            if os.path.getsize(paths.journal / name) < offset:
                return None
        timeline = Timeline(paths, **{name: document[name] for name in _PLAIN})
        timeline.driven = {epoch: (began, last) for epoch, began, last in document["driven"]}
        timeline.lanes = [Lane(*lane) for lane in document["lanes"]]
        timeline._of = document["of"]
        timeline.begun = {name: OpenAttempt(*began) for name, began in document["begun"].items()}
        timeline.given_up = {(stage, index, n): when for stage, index, n, when in document["given_up"]}
        timeline.stages = {name: _stage(name, packed) for name, packed in document["stages"].items()}
        return timeline
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _stage(name: str, packed: dict[str, Any]) -> StageTimes:
    stage = StageTimes(**{field: packed[field] for field in _COUNTS})
    stage.spans = [Span(name, *span) for span in packed["spans"]]
    stage.lasted.update(dict(map(tuple, packed["lasted"])))
    stage.lanes = {lane: Bins.unpacked(bins) for lane, bins in packed["lanes"]}
    return stage


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
class EndedAttempts:
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
class OpenAttempt:
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


def ends_in(piece: bytes) -> list[EndedAttempts]:
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


def _alike(head: bytes, lines: list[tuple[bytes, ...]]) -> Iterator[EndedAttempts]:
    """Yield the attempts of one stage that ended well, or, by their class, those that did not."""
    kind, _, word = head.partition(b'","stage":"')
    stage = word.decode("utf-8", "surrogateescape")
    if kind == b"done":
        _, tasks, times, seconds = zip(*lines, strict=True)
        yield EndedAttempts(stage, "done", tasks, list(map(float, times)), list(map(float, seconds)))
        return
    for state, ends in groupby(sorted(lines, key=_badly), _badly):
        _, tasks, times, seconds = zip(*ends, strict=True)
        took = [float(text.partition(b",")[0]) for text in seconds]
        yield EndedAttempts(stage, state, tasks, list(map(float, times)), took)


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


def last_start(piece: bytes) -> tuple[OpenAttempt | None, int]:
    """Return the last attempt that began in these lines, and where; a worker runs one at a time."""
    at = len(piece)
    while (at := piece.rfind(_START, 0, at)) >= 0:
        end = piece.find(b"\n", at + 1)
        record = decode(piece[at : end if end >= 0 else None])
        if record is None or record["event"] != "start":
            continue
        with suppress(KeyError, TypeError, ValueError):
            number, time = int(record["attempt"]), float(record["time"])
            return OpenAttempt(record["stage"], int(record["index"]), number, time), at
    return None, -1
