"""The attempts of a task: where each ran, with what, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from diel.errors import counted
from diel.explain.block import Location, ended_block, place_of, says
from diel.explain.text import clock, tail
from diel.results import Recorded
from diel.states import FailureClass, RunState
from diel.status.columns import printable
from diel.values import format_duration, format_size

if TYPE_CHECKING:
    from diel.journal.records import BlockFacts, OfTask, StagingRecord

LOST = (FailureClass.NODE, FailureClass.PREEMPTED, FailureClass.WALLTIME, FailureClass.OOM)
"""Failures of tasks that the end of a block can explain."""


@dataclass
class Tried:
    """One attempt, as its worker wrote it down."""

    attempt: int
    worker: str
    dir: str
    state: Literal["lost", "running", "done", "failed", "interrupted"] = "lost"
    began: float | None = None
    ended: float | None = None
    seconds: float | None = None
    failure: str | None = None
    """Its class."""
    exit_code: int | None = None
    message: str = ""
    stderr_tail: str = ""
    memory: int | None = None
    walltime: float | None = None
    place: Location = field(default_factory=Location)
    block_end: BlockFacts | None = None
    """Its block, if the block's end may be to blame."""
    staging: list[StagingRecord] = field(default_factory=list)

    def take(self, record: OfTask, worker: str) -> None:
        """Adds what a record says."""
        match record["event"]:
            case "start":
                self.began, self.worker = record["time"], worker
            case "done":
                self.state, self.ended, self.seconds = "done", record["time"], record.get("seconds")
            case "staging":
                self.staging.append(record)
            case "fail":
                self.state = "interrupted" if record["class"] == FailureClass.INTERRUPTED else "failed"
                self.ended, self.seconds = record["time"], record.get("seconds")
                self.failure, self.message = record["class"], record.get("message", "")
                self.exit_code, self.stderr_tail = record.get("exit_code"), record.get("stderr_tail", "")

    def document(self) -> dict[str, Any]:
        own = ("attempt", "state", "began", "ended", "seconds", "worker", "dir")
        end = ("state", "reason", "stderr_tail", "ended")
        staging = ("node", "copied", "bytes", "found", "seconds", "warning")
        return {
            **{name: getattr(self, name) for name in own},
            "class": self.failure,
            "exit_code": self.exit_code,
            "message": self.message,
            "stderr_tail": self.stderr_tail,
            "staging": [_some(record, staging) for record in self.staging],
            **asdict(self.place),
            "resources": {"memory": self.memory, "walltime": self.walltime},
            "block_end": None if self.block_end is None else _some(self.block_end, end),
        }

    def lines(self) -> Iterator[str]:
        """The first line says how it went, the others where, with what, and why it was lost."""
        took = f" after {format_duration(self.seconds)}" if self.seconds is not None else ""
        reason = f" ({self.failure}): {self.message}" if self.state == "failed" else ""
        if self.state == "interrupted":
            reason = f": {self.message}"
        began = f", {clock(self.began)}" if self.began else ""
        yield f"    attempt {self.attempt}: {self.state}{took}{reason}{began}, {self.worker}"
        memory = "" if self.memory is None else format_size(self.memory)
        walltime = "" if self.walltime is None else f"{format_duration(self.walltime)} of walltime"
        if where := ", ".join(filter(None, (str(self.place), memory, walltime))):
            yield f"        {where}"
        yield f"        {self.dir}"
        yield from (f"        {printable(_staged(record))}" for record in self.staging)
        if self.block_end is not None:
            yield f"        its block ended: {self.block_end['state']}{says(self.block_end)}"
            yield from (f"    {line}" for line in tail(self.block_end["stderr_tail"]))


def _some(facts: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {name: facts[name] for name in names}


def _staged(record: StagingRecord) -> str:
    """What an attempt copied to its node's disk, or why it did not."""
    if record["warning"]:
        return f"used the shared file system: {record['warning']}"
    copied = counted(record["copied"], "artifact")
    found = f"; found {record['found']:,} there" if record["found"] else ""
    size, took = format_size(record["bytes"]), format_duration(record["seconds"])
    return f"brought {copied} ({size}) to the disk of {record['node']} in {took}{found}"


def attempts_of(run: Recorded, stage: str, index: int) -> list[Tried]:
    """The attempts of a task, in order."""
    found: dict[int, Tried] = {}
    for segment, record in run.attempts(stage, index):
        if record["event"] == "cached":
            continue
        number, worker = record["attempt"], segment.removesuffix(".jsonl")
        if record["event"] == "done" and run.history.stage(stage).is_fenced(index, number):
            continue  # it came after its attempt was given up
        folder = run.paths.task_dir(stage, index, number)
        found.setdefault(number, Tried(number, worker, str(folder))).take(record, worker)
    attempts = [found[number] for number in sorted(found)]
    changed = _changed_resources(run, stage, index) if len(attempts) > 1 else {}
    for tried in attempts:
        resources = run.workflow.stages[stage].resources.changed(changed.get(tried.attempt, {}))
        tried.memory, tried.walltime = resources.memory, resources.walltime
        tried.place = place_of(run, tried.worker)
        if tried.state == "lost" or tried.failure in LOST:
            tried.block_end = ended_block(run, tried.place.block)
    last = attempts[-1] if attempts else None
    if last and last.state == "lost" and last.block_end is None and run.state == RunState.RUNNING:
        last.state = "running"
    return attempts


def _changed_resources(run: Recorded, stage: str, index: int) -> dict[int, dict[str, Any]]:
    """What later attempts asked for instead of what the stage says, by attempt."""
    found: dict[int, dict[str, Any]] = {}
    needles = (b'"event":"queued"', b'"stage":"%s"' % stage.encode(), b'"resources":')
    for _, record in run.events(*needles):
        if record["event"] == "queued" and record["stage"] == stage and index in record["tasks"]:
            numbers = record.get("attempts") or [1] * len(record["tasks"])
            found[numbers[record["tasks"].index(index)]] = record["resources"]
    return found
