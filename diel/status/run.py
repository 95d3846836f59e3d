"""A run as its files tell it: its state, its stages, its failures, its searches and loops."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diel.errors import UsageError, did_you_mean
from diel.journal.history import LEFT_BY_AXIS, History, StageHistory, ranges
from diel.journal.segment import Record, decode
from diel.journal.snapshot import Reader, read_run
from diel.lease import Lease, is_alive, last_word, read_lease
from diel.paths import RunPaths
from diel.states import RunState, TaskState
from diel.status.axis import AxisStatus, axes_of
from diel.submission import Submission, awaited, newest_submission, submission_of

UNDER_WAY = (TaskState.READY, TaskState.QUEUED, TaskState.RUNNING)


@dataclass(frozen=True)
class StageStatus:
    """One stage: how many of its tasks are in each state."""

    name: str
    kind: str
    total: int | None
    """None while the run has still to tell; tasks that will never come are not in it."""
    counts: Mapping[str, int]
    """Tasks by the label of their state."""
    mean_seconds: float | None
    """Mean run time of the attempts that were committed."""
    void: str = ""
    """Why the stage will have no tasks, where an axis of it could not be made."""
    omitted: int = 0
    """Tasks at points that never came: of rounds after a loop's last, of pruned trials."""

    def __getitem__(self, state: TaskState) -> int:
        return self.counts[state.label]

    @property
    def good(self) -> int:
        """Tasks with a result, cached ones included."""
        return self[TaskState.DONE] + self[TaskState.CACHED]

    def document(self) -> dict[str, Any]:
        more = {"void": self.void} if self.void else {}
        return {
            "kind": self.kind,
            "total": self.total,
            **self.counts,
            "omitted": self.omitted,
            "mean_seconds": self.mean_seconds,
            **more,
        }


@dataclass(frozen=True)
class Status:
    """A run as its files tell it."""

    run: str
    workflow: str
    state: RunState
    lease: Lease | None
    alive: bool
    """Whether a controller drives the run."""
    heartbeat_age: float | None
    """Seconds since the controller's last sign of life."""
    began: float | None
    ended: float | None
    """When the run ended, or its controller was last heard of; None while it runs."""
    now: float
    stages: tuple[StageStatus, ...]
    failures: tuple[Record, ...]
    """The verdicts on failed tasks, in the order of their stages and indices."""
    uses: tuple[str, ...] = ()
    """Earlier runs whose results this one took."""
    submission: Submission | None = None
    """How its controller was asked for; None where it was started in the foreground."""
    awaited: bool = False
    """Whether that controller is still to come."""
    blocks: tuple[Mapping[str, Any], ...] = field(default=())
    """Allocations of a scheduler, the oldest first; none on one machine."""
    silent: str = ""
    """Why the scheduler does not answer; empty where it does, or is not asked."""
    silent_since: float | None = None
    trouble: str = ""
    """What last went wrong besides tasks."""
    site: str = ""
    axes: tuple[AxisStatus, ...] = ()
    """Its searches and loops."""

    @property
    def elapsed(self) -> float:
        """Seconds from the beginning to the end, or to now."""
        end = self.now if self.ended is None else self.ended
        return 0.0 if self.began is None else max(0.0, end - self.began)

    def count(self, state: TaskState) -> int:
        """Tasks in a state, over all stages."""
        return sum(stage[state] for stage in self.stages)

    @property
    def good(self) -> int:
        return sum(stage.good for stage in self.stages)

    @property
    def total(self) -> int | None:
        """All tasks; None while that is not known."""
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
            "failures": [failure_document(record) for record in self.failures],
            "uses": list(self.uses),
            "blocks": [dict(block) for block in self.blocks],
            "scheduler": {"silent": self.silent, "since": self.silent_since},
            "trouble": self.trouble,
        }


def failure_document(record: Record) -> dict[str, Any]:
    """A failure as JSON: the same keys whatever failed."""
    return {
        "task": task_of(record),
        "class": record.get("class"),
        "message": record.get("message", ""),
        "exit_code": record.get("exit_code"),
        "attempt": record.get("attempt"),
        "stderr_tail": record.get("stderr_tail") or "",
        "time": record.get("time"),
    }


def task_of(record: Record) -> str:
    """The first task of a verdict: `simulate/17`."""
    return f"{record['stage']}/{record['tasks'][0][0]}"


def open_reader(paths: RunPaths) -> Reader:
    """A run read from its files. Raises UsageError where they are in a form that this diel cannot read."""
    try:
        return read_run(paths)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _unreadable(paths, error) from error


def read_status(paths: RunPaths, reader: Reader | None = None) -> Status:
    """How a run stands now. The reader of an earlier call makes the next one cheap.

    Raises UsageError where the run's files are in a form that this diel cannot read.
    """
    if reader is None:
        return fold_status(paths, open_reader(paths))
    try:
        reader.catch_up()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _unreadable(paths, error) from error
    return fold_status(paths, reader)


def _unreadable(paths: RunPaths, error: Exception) -> UsageError:
    told = f"{type(error).__name__}: {error}"
    return UsageError(f"the journal of {paths.run_id} is not one that this diel can read ({told})")


def fold_status(paths: RunPaths, reader: Reader) -> Status:
    """The status that a reader's history adds up to."""
    history = reader.history
    found = standing(paths, history)
    held, state = found.held, found.state
    now = time.time()
    age = None if held is None else held[1]
    return Status(
        run=paths.run_id,
        workflow=workflow_name(paths),
        state=state,
        lease=None if held is None else held[0],
        alive=found.alive and state in (RunState.PENDING, RunState.RUNNING),
        heartbeat_age=age,
        began=history.began or None,
        ended=None if state in (RunState.PENDING, RunState.RUNNING) else _ended(history, now, age),
        now=now,
        stages=tuple(_stages(paths, reader, state)),
        failures=tuple(sorted(history.failures.values(), key=_place_of(history))),
        uses=tuple(sorted(history.uses)),
        submission=found.coming or submission_of(paths, 0 if held is None else held[0].epoch),
        awaited=found.coming is not None,
        blocks=tuple(blocks_of(history)),
        silent=history.silent,
        silent_since=_silent_since(paths, history),
        trouble=history.trouble,
        site=str(run_document(paths).get("site") or ""),
        axes=axes_of(paths, history, now, driven=found.alive and state is RunState.RUNNING),
    )


def blocks_of(history: History) -> list[dict[str, Any]]:
    """The run's allocations, the oldest first, each with how many tasks are known to run in it."""
    at = {
        (name, index): attempt.worker
        for name, stage in history.stages.items()
        for index, attempt in stage.under_way.items()
        if attempt.state == TaskState.RUNNING
    }
    at |= {task: attempt.worker for task, attempt in history.left.items()}
    running = Counter(history.workers[worker]["block"] for worker in at.values() if worker in history.workers)
    return [
        {**{key: value for key, value in block.items() if key != "time"}, "running": running[name]}
        for name, block in sorted(history.blocks.items(), key=lambda item: item[1]["asked"])
    ]


def _silent_since(paths: RunPaths, history: History) -> float | None:
    """When the scheduler ceased to answer, as its controller wrote it; None while it answers."""
    since = None
    if history.silent:
        for record in records_with(paths.controller_segment(history.epoch), b'"event":"scheduler"'):
            since = (since or record["time"]) if record["message"] else None
    return since


def records_with(segment: Path, needle: bytes) -> Iterator[Record]:
    """The records of a segment whose lines hold these bytes: no other line is decoded."""
    try:
        with open(segment, "rb") as file:
            for line in file:
                record = decode(line) if needle in line and line.endswith(b"\n") else None
                if record is not None:
                    yield record
    except FileNotFoundError:
        return


@dataclass(frozen=True)
class Standing:
    """A run's state, and who drives it."""

    held: tuple[Lease, float] | None
    """The lease and the age of its heartbeat in seconds."""
    alive: bool
    coming: Submission | None
    """The controller that was asked for and has not come yet."""
    state: RunState


def standing(paths: RunPaths, history: History) -> Standing:
    """Who drives a run, as its files tell."""
    held = read_lease(paths)
    alive = held is not None and is_alive(*held) and history.ended is None
    if alive and held is not None and last_word(paths, held[0].epoch) == "handover":
        alive = False  # on another host its heartbeat is still young
    coming = None if alive else awaited(paths, history)
    taken = held is not None or newest_submission(paths) is not None
    state = RunState.PENDING if coming is not None else run_state(history, alive, taken=taken)
    return Standing(held, alive, coming, state)


def run_state(history: History, alive: bool, *, taken: bool = True) -> RunState:
    """The state of a run: one without its controller is interrupted, whatever its journal says last.

    A run that no controller has taken yet is pending.
    """
    if history.state in (RunState.PENDING, RunState.RUNNING) and not alive:
        return RunState.INTERRUPTED if taken else RunState.PENDING
    return history.state


def _ended(history: History, now: float, age: float | None) -> float | None:
    """When the run ended, or when its controller was last heard of."""
    if history.ended is not None:
        return history.ended
    return None if age is None else now - age


def _place_of(history: History) -> Any:
    order = {name: place for place, name in enumerate(history.stages)}
    return lambda record: (order.get(record["stage"], 0), record["tasks"][0][0])


def _stages(paths: RunPaths, reader: Reader, state: RunState) -> Iterator[StageStatus]:
    known = reader.history.stages
    names = list(known)
    if not paths.snapshot.exists():  # its first snapshot tells the stages that have yet to begin
        written = stage_names(paths)
        names = [*written, *(name for name in names if name not in written)] if written else names
    for name in names:
        stage = known.get(name) or StageHistory("analysis", 0, bytearray())
        yield _stage_status(name, stage, state)


def _stage_status(name: str, stage: StageHistory, state: RunState) -> StageStatus:
    counts = stage.counts()
    if state not in (RunState.PENDING, RunState.RUNNING):  # without a controller nothing is under way
        for label in (s.label for s in UNDER_WAY):
            counts["waiting"] += counts[label]
            counts[label] = 0
    return StageStatus(
        name=name,
        kind=stage.kind,
        total=stage.expected if is_open(stage) or stage.void or state.ended else None,
        counts=counts,
        mean_seconds=round(stage.seconds / stage.timed, 6) if stage.timed else None,
        void=stage.void,
        omitted=stage.never,
    )


def is_open(stage: StageHistory) -> bool:
    """Whether the number of the stage's tasks is known."""
    return bool(stage.total or stage.parts)


def workflow_name(paths: RunPaths) -> str:
    """The workflow's name: as the run's file has it, else as the run's name begins."""
    named = run_document(paths).get("workflow")
    return named if isinstance(named, str) else paths.run_id.rpartition("-")[0]


def run_document(paths: RunPaths) -> dict[str, Any]:
    """The run's file as it is, unchecked: a run of another version of diel can be listed too."""
    try:
        document = json.loads(paths.run_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def stage_names(paths: RunPaths) -> list[str]:
    """The stages of the workflow's text, in its order; none where it cannot be read."""
    import yaml  # costs 20 ms, which the status of a run with a snapshot does not need

    try:
        text = paths.workflow.read_text(encoding="utf-8")
        document = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes nothing but text
        return list(document["stages"])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return []


def find_stage(reader: Reader, name: str) -> StageHistory:
    """A stage of a run. Raises UsageError with the nearest name where there is none."""
    stages = reader.history.stages
    if name in stages:
        return stages[name]
    written = stage_names(reader.paths)
    if name in written:
        return StageHistory("analysis", 0, bytearray())
    known = [*stages, *(other for other in written if other not in stages)]
    hint = did_you_mean(name, known) or f"stages: {', '.join(known) or 'none yet'}"
    raise UsageError(f"{reader.paths.run_id} has no stage '{name}'; {hint}")


def find_task(reader: Reader, task: str) -> tuple[str, int]:
    """The stage and index of `simulate/17`, or of a stage that has one task.

    Raises UsageError where there is no such task.
    """
    name, slash, text = task.partition("/")
    stage = find_stage(reader, name)
    run = reader.paths.run_id
    last = stage.total - 1
    if not slash:
        if stage.total != 1:
            known = f"{stage.total} tasks, {name}/0 to {name}/{last}" if stage.total else "no tasks yet"
            raise UsageError(f"{run}: '{name}' has {known}; say which one")
        return name, 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError(f"'{task}' is no task; write STAGE/INDEX, for instance {name}/0")
    index = int(text)
    if index > last:
        known = "no tasks yet" if last < 0 else f"{last + 1} tasks, {name}/0 to {name}/{last}"
        raise UsageError(f"{run} has no task '{task}'; '{name}' has {known}")
    return name, index


def never_came(stage: StageHistory) -> list[list[int]]:
    """The tasks at points that never came, as [first, last] pairs."""
    return ranges(index for index, reason in enumerate(stage.left_out) if reason == LEFT_BY_AXIS)


def tasks_by_state(stage: StageHistory, *, under_way: bool = True) -> dict[TaskState, list[list[int]]]:
    """The indices of a stage's tasks in each state, as [first, last] pairs; states without any left out.

    Without `under_way`, what was handed out counts as waiting: its controller is gone. Tasks that never came
    are in no state: see `never_came`.
    """
    found: dict[TaskState, list[int]] = {}
    states = bytes(stage.states) + bytes(max(0, stage.total - len(stage.states)))
    left_out = stage.left_out + bytes(max(0, len(states) - len(stage.left_out)))
    for index, number in enumerate(states):
        state = TaskState(number)
        if left_out[index] == LEFT_BY_AXIS:
            continue
        if not under_way and state in UNDER_WAY:
            state = TaskState.WAITING
        found.setdefault(state, []).append(index)
    return {state: ranges(found[state]) for state in TaskState if state in found}
