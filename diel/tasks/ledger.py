"""A controller's records: its own segment, and the history folded from all segments."""

import time
from collections.abc import Callable, Iterable

from diel.base.paths import RunPaths
from diel.base.states import RunState
from diel.store.journal.history import History
from diel.store.journal.records import Failed, JoinedRecord, Ranges, Record, Result, Said
from diel.store.journal.segment import Reader, SegmentWriter, read_segment
from diel.store.project.cache import write_keys
from diel.tasks.joins import JoinRemainder
from diel.tasks.results import Results
from diel.tasks.stage_run import StageRun

MANY = 20_000
"""Tasks of a run whose timeline is worth keeping when it ends."""

Failing = Callable[[StageRun, int, "Said"], None]


class Ledger:
    """The journal of one run as its controller sees it."""

    def __init__(self, paths: RunPaths, segment: SegmentWriter) -> None:
        self.paths = paths
        self.segment = segment
        self.reader = Reader(paths, History())
        self.history = self.reader.history
        self.results = Results(paths)
        self.on_failure: Failing | None = None
        """Told of each verdict that a task failed for good."""

    def read_all(self) -> None:
        """Fold the records of earlier controllers and their workers."""
        self.reader.catch_up(self._remember)

    def _remember(self, segment: str, offset: int, record: Record) -> None:
        if (record["event"] == "done" or record["event"] == "cached") and self.counts(record):
            self.results.put(record["stage"], record["index"], segment, offset, record)

    def counts(self, record: Result) -> bool:
        """Return whether a result counts: its attempt was not given up for lost, and kept its files."""
        return self.history.stage(record["stage"]).takes(record)

    def read_news(self) -> list[tuple[str, int, Record, bool]]:
        """Fold and return what workers wrote since, with places, and whether tasks had ended before."""
        news: list[tuple[str, int, Record, bool]] = []

        def note(segment: str, offset: int, record: Record) -> None:
            ended = True
            match record["event"]:
                case "start" | "done" | "fail":
                    ended = self.history.stage(record["stage"]).state(record["index"]).ended
            news.append((segment, offset, record, ended))

        self.reader.catch_up(note)
        return news

    def append(self, record: Record) -> int:
        """Write a record with the time, and fold it in, unless `commit` will; return its place."""
        record["time"] = time.time()
        offset = self.segment.append(record)
        self.reader.offsets[self.segment.name] = self.segment.size
        if record["event"] != "cached":
            self.history.apply(record)
        return offset

    def trouble(self, message: str) -> None:
        """Record a problem of the run, not of a task."""
        self.append({"event": "trouble", "message": message})

    def cancel(self, stage: StageRun, tasks: Ranges) -> None:
        if tasks:
            self.append({"event": "cancelled", "stage": stage.name, "tasks": tasks})

    def skip(self, stage: StageRun, tasks: Ranges, reason: str, cause: str) -> None:
        self.append(
            {"event": "skipped", "stage": stage.name, "tasks": tasks, "reason": reason, "cause": cause}
        )

    def join(self, stage: StageRun, index: int, remainders: Iterable[JoinRemainder]) -> None:
        """Record the points that a task lacks of gathers that meet in it, unless that is known."""
        rows = [remainder._asdict() for remainder in remainders]
        if rows != stage.history.joined.get(index, []):
            record: JoinedRecord = {"event": "joined", "stage": stage.name, "index": index, "left": rows}
            self.append(record)

    def fail(self, stage: StageRun, index: int, error: Said, attempt: int | None = None) -> None:
        """Record that a task failed for good, with the message of its last attempt."""
        record: Failed = {
            "event": "failed",
            "stage": stage.name,
            "tasks": [[index, index]],
            "class": error["class"],
            "message": error["message"],
        }
        if point := stage.point(index):
            record["point"] = point
        if attempt is not None:
            record |= {
                "exit_code": error.get("exit_code"),
                "stderr_tail": error.get("stderr_tail", ""),
                "attempt": attempt,
            }
        if "headline" in error:
            record["headline"] = error["headline"]
        self.append(record)
        if self.on_failure is not None:
            self.on_failure(stage, index, error)

    def commit(self, stage: StageRun, index: int, segment: str, offset: int, record: Result) -> None:
        self.history.apply(record, segment)
        self.results.put(stage.name, index, segment, offset, record)

    def read_until(self, segment: str, end: int) -> None:
        """Read a worker's segment up to this byte: what it reported, and in its first line who it is."""
        if segment not in self.reader.offsets:
            first = next(read_segment(self.paths.journal / segment), (0, 0, None))[-1]
            if first is not None and first["event"] == "worker":
                self.history.apply(first, segment)
        self.reader.offsets[segment] = max(self.reader.offsets.get(segment, 0), end)

    def hand_over(self) -> None:
        """Hand the run to the next controller: tasks that run in blocks stay as they are."""
        self._leave({"event": "handover"})

    def close(self, state: RunState) -> None:
        """Leave the run in a form that others can read fast."""
        self._leave({"event": "end", "state": state})
        write_keys(self.paths)
        if sum(stage.total for stage in self.history.stages.values()) >= MANY:
            from diel.store.timeline import read_timeline  # here: few runs are so large

            read_timeline(self.paths)

    def _leave(self, last: Record) -> None:
        self.append(last)
        self.reader.catch_up()
        self.reader.save()
        self.segment.close()
