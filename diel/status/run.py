"""A run as its files show it: its controller, state, stages, failures, searches and loops."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from diel.journal.history import History
from diel.journal.segment import Reader, decode
from diel.journal.snapshot import read_run
from diel.journal.stage_history import StageHistory
from diel.paths import RunPaths
from diel.project.lease import Lease, is_alive, is_being_taken, last_word, read_lease
from diel.project.submission import Submission, awaited, newest_submission, submission_of
from diel.states import RunState, TaskState
from diel.status.axis import AxisStatus, axes_of
from diel.status.environment import environments_in
from diel.status.service import ServiceStatus, services_of
from diel.status.stream import streams_of
from diel.status.surrogate import SurrogateStatus, surrogate_of
from diel.status.tasks import UNDER_WAY, failure_document, stage_names

if TYPE_CHECKING:
    from diel.journal.records import BlockFacts, BlockNow, Failed

LIVE = (RunState.PENDING, RunState.RUNNING)
"""The states of a run that continues on its own."""


@dataclass(frozen=True)
class StageStatus:
    """One stage: how many of its tasks are in each state."""

    name: str
    kind: str
    total: int | None
    """None until the run shows it; tasks that will never come do not count."""
    counts: Mapping[str, int]
    """Tasks by the label of their state."""
    mean_seconds: float | None
    """Mean run time of the attempts that were committed."""
    void: str = ""
    """Why the stage will have no tasks, if one of its axes could not be made."""
    held: Sequence[str] = ()
    """By which rule no more of its tasks are begun, and why; empty if they are."""
    omitted: int = 0
    """Tasks at points that never came: of rounds after a loop's last, of pruned trials."""
    tolerated: int = 0
    """Failed tasks that others went on without, as a search or `min_success` allows."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By output, how many tasks' artifacts were deleted after use."""
    surrogate: SurrogateStatus | None = None
    """If its tasks ask before they run."""

    def __getitem__(self, state: TaskState) -> int:
        return self.counts[state.label]

    @property
    def good(self) -> int:
        """Tasks with a result, cached ones included."""
        return self[TaskState.DONE] + self[TaskState.CACHED]

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "total": self.total,
            **self.counts,
            "omitted": self.omitted,
            "tolerated": self.tolerated,
            "mean_seconds": self.mean_seconds,
            **({"void": self.void} if self.void else {}),
            **({"held": {"rule": self.held[0], "why": self.held[1]}} if self.held else {}),
            **({"dropped": dict(self.dropped)} if self.dropped else {}),
            **({} if self.surrogate is None else {"surrogate": self.surrogate.document()}),
        }


@dataclass(frozen=True)
class Status:
    """A run as its files show it."""

    run: str
    workflow: str
    state: RunState
    lease: Lease | None
    alive: bool
    """Whether a controller drives the run."""
    heartbeat_age: float | None
    """Seconds since the controller's last heartbeat."""
    began: float | None
    ended: float | None
    """When the run ended, or its controller was last heard of; None while it runs."""
    now: float
    stages: tuple[StageStatus, ...]
    failures: tuple[Failed, ...]
    """The verdicts on failed tasks, in the order of their stages and indices."""
    uses: tuple[str, ...] = ()
    """Earlier runs whose results this one took."""
    submission: Submission | None = None
    """How its controller was requested; None if it was started in the foreground."""
    awaited: bool = False
    """Whether that controller is still to come."""
    blocks: tuple[BlockNow, ...] = ()
    """Allocations of a scheduler, the oldest first; none on one machine."""
    silent: str = ""
    """Why the scheduler does not answer; empty if it does, or is not asked."""
    silent_since: float | None = None
    trouble: str = ""
    """The last problem that was not a task's."""
    site: str = ""
    axes: tuple[AxisStatus, ...] = ()
    """Its searches and loops."""
    services: tuple[ServiceStatus, ...] = ()
    """Those that were started at least once."""
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By channel, what is in it and how far it was read."""
    staging: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What was copied to the nodes' own disks, by node."""
    environments: Mapping[str, str] = field(default_factory=dict)
    """What its programs run in, by name, in a few words."""

    exports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What was copied out of the run, by STAGE.OUTPUT."""

    @property
    def elapsed(self) -> float:
        """Seconds from the beginning to the end, or to now."""
        end = self.now if self.ended is None else self.ended
        return 0.0 if self.began is None else max(0.0, end - self.began)

    def count(self, state: TaskState) -> int:
        """Tasks in a state, over all stages."""
        return sum(stage[state] for stage in self.stages)

    @property
    def asks_first(self) -> dict[str, SurrogateStatus]:
        """What was answered, by the stage that asks."""
        return {stage.name: stage.surrogate for stage in self.stages if stage.surrogate is not None}

    @property
    def tolerated(self) -> int:
        """Failed tasks that do not fail the run."""
        return sum(stage.tolerated for stage in self.stages)

    @property
    def good(self) -> int:
        return sum(stage.good for stage in self.stages)

    @property
    def total(self) -> int | None:
        """The number of tasks; None until it is known."""
        totals = [stage.total for stage in self.stages]
        return None if None in totals else sum(total or 0 for total in totals)

    def document(self) -> dict[str, Any]:
        """The status as JSON."""
        lease = self.lease
        return {
            "run": self.run,
            "workflow": self.workflow,
            "state": self.state.value,
            "began": self.began,
            "ended": self.ended,
            "elapsed_s": round(self.elapsed, 3),
            "controller": {
                "alive": self.alive,
                "heartbeat_age_s": None if self.heartbeat_age is None else round(self.heartbeat_age, 3),
                "host": None if lease is None else lease.host,
                "pid": None if lease is None else lease.pid,
                "epoch": None if lease is None else lease.epoch,
                "home": None if self.submission is None else self.submission.home,
                "job": None if self.submission is None else self.submission.job,
                "awaited": self.awaited,
            },
            "tasks": {"total": self.total, **{s.label: self.count(s) for s in TaskState}},
            "stages": {stage.name: stage.document() for stage in self.stages},
            "axes": {axis.label: axis.document() for axis in self.axes},
            "services": {service.name: service.document() for service in self.services},
            "streams": dict(self.streams),
            "failures": [failure_document(record) for record in self.failures],
            "uses": list(self.uses),
            "blocks": [dict(block) for block in self.blocks],
            "scheduler": {"silent": self.silent, "since": self.silent_since},
            "trouble": self.trouble,
            "staging": dict(self.staging),
            **({"environments": dict(self.environments)} if self.environments else {}),
            **({"exports": dict(self.exports)} if self.exports else {}),
        }


def read_status(paths: RunPaths, reader: Reader | None = None) -> Status:
    """The status of a run now. The reader of an earlier call makes the next one cheap.

    Raises UsageError where the run's files are in a form that this diel cannot read.
    """
    if reader is None:
        return fold_status(paths, read_run(paths))
    reader.catch_up()
    return fold_status(paths, reader)


class Driving(NamedTuple):
    """A run's state, and who drives it."""

    held: tuple[Lease, float] | None
    """The lease and the age of its heartbeat in seconds."""
    alive: bool
    coming: Submission | None
    """The controller that was requested and has not started yet."""
    state: RunState


def standing(paths: RunPaths, history: History) -> Driving:
    """The state of a run and its controller: without one it is interrupted, whatever its journal says
    last."""
    # In the order in which a controller starts: one that passed the first look is seen by the next.
    asked = awaited(paths, history)
    taking = is_being_taken(paths)
    held = read_lease(paths)
    alive = history.ended is None and held is not None and is_alive(*held)
    if alive and held is not None and last_word(paths, held[0].epoch) == "handover":
        alive = False  # on another host its heartbeat is still young
    coming = None if alive else asked
    state = history.state
    if coming is not None:
        state = RunState.PENDING
    elif state in LIVE and not alive:
        taken = held is not None or newest_submission(paths) is not None
        state = RunState.INTERRUPTED if taken else RunState.PENDING
    if state is RunState.INTERRUPTED and taking:
        state = RunState.PENDING
    return Driving(held, alive, coming, state)


def fold_status(paths: RunPaths, reader: Reader) -> Status:
    """The status that a reader's history gives."""
    history = reader.history
    found = standing(paths, history)
    state = found.state
    lease, age = found.held or (None, None)
    driven = found.alive and state is RunState.RUNNING
    now = time.time()
    heard = None if age is None else now - age
    document = _run_document(paths)
    workflow = document.get("workflow")
    order = {name: place for place, name in enumerate(history.stages)}
    verdicts = history.failures.values()
    return Status(
        run=paths.run_id,
        workflow=workflow if isinstance(workflow, str) else paths.run_id.rpartition("-")[0],
        state=state,
        lease=lease,
        alive=found.alive and state in LIVE,
        heartbeat_age=age,
        began=history.began or None,
        ended=None if state in LIVE else heard if history.ended is None else history.ended,
        now=now,
        stages=tuple(_stages(paths, reader, state)),
        failures=tuple(sorted(verdicts, key=lambda one: (order.get(one["stage"], 0), one["tasks"][0][0]))),
        uses=tuple(sorted(history.uses)),
        submission=found.coming or submission_of(paths, 0 if lease is None else lease.epoch),
        awaited=found.coming is not None,
        blocks=tuple(blocks_of(history)),
        silent=history.silent,
        silent_since=_silent_since(paths, history) if history.silent else None,
        trouble=history.trouble,
        site=str(document.get("site") or ""),
        staging=history.staging,
        environments=environments_in(paths),
        exports=history.exports,
        axes=axes_of(paths, history, now, driven=driven) if history.axes else (),
        streams=streams_of(paths) if paths.streams.exists() else {},
        services=services_of(paths, driven=driven) if paths.services.exists() else (),
    )


def _run_document(paths: RunPaths) -> dict[str, Any]:
    """The run's file as it is, unchecked: a run of another version of diel can be listed too."""
    try:
        document = json.loads(paths.run_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def blocks_of(history: History) -> list[BlockNow]:
    """The run's allocations, oldest first, each with the number of tasks known to run in it."""
    at = {
        (name, index): attempt.worker
        for name, stage in history.stages.items()
        for index, attempt in stage.under_way.items()
        if attempt.state == TaskState.RUNNING
    }
    at |= {task: attempt.worker for task, attempt in history.left.items()}
    running = Counter(history.workers[worker]["block"] for worker in at.values() if worker in history.workers)
    found = sorted(history.blocks.items(), key=lambda item: item[1]["asked"])
    return [_now(block, running[name]) for name, block in found]


def _now(block: BlockFacts, running: int) -> BlockNow:
    facts = {key: value for key, value in block.items() if key not in ("event", "time")}
    return cast("BlockNow", {**facts, "running": running})


def _silent_since(paths: RunPaths, history: History) -> float | None:
    """When the scheduler stopped answering, as the controller recorded it."""
    since = None
    with suppress(FileNotFoundError), open(paths.controller_segment(history.epoch), "rb") as file:
        for line in file:
            record = decode(line) if b'"event":"scheduler"' in line and line.endswith(b"\n") else None
            if record is not None and record["event"] == "scheduler":
                since = (since or record["time"]) if record["message"] else None
    return since


def _stages(paths: RunPaths, reader: Reader, state: RunState) -> Iterator[StageStatus]:
    known = reader.history.stages
    names = list(known)
    if not known or not paths.snapshot.exists():  # its first snapshot names the stages that have yet to begin
        written = stage_names(paths)
        names = [*written, *(name for name in names if name not in written)] if written else names
    for name in names:
        stage = known.get(name) or StageHistory("analysis", 0, bytearray())
        yield _stage_status(name, stage, state, reader.history)


def _stage_status(name: str, stage: StageHistory, state: RunState, history: History) -> StageStatus:
    counts = stage.counts()
    if state not in LIVE:  # without a controller nothing is under way
        for label in (s.label for s in UNDER_WAY):
            counts["waiting"] += counts[label]
            counts[label] = 0
    return StageStatus(
        name=name,
        kind=stage.kind,
        total=stage.expected if stage.total or stage.parts or stage.void else None,
        counts=counts,
        mean_seconds=round(stage.seconds / stage.timed, 6) if stage.timed else None,
        void=stage.void,
        held=stage.held,
        omitted=stage.never,
        tolerated=len(stage.tolerated),
        dropped={output: len(tasks) for output, tasks in stage.dropped.items()},
        surrogate=None if stage.surrogate is None else surrogate_of(history, stage.surrogate),
    )
