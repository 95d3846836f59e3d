"""The fold: what a run's records add up to.

Workers' segments may be read in any order, and any record twice: a committed result beats everything
else, a later attempt beats an earlier one, and a controller's verdict counts until the next one takes over.
"""

# mypy: enable-error-code="exhaustive-match"
import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

from diel.base.form import Contradiction
from diel.base.paths import epoch_of
from diel.base.states import RunState, TaskState
from diel.store.journal.axis_history import AxisHistory, Trial
from diel.store.journal.stage_history import Attempt, StageHistory, ranges, spread
from diel.store.journal.surrogate import SurrogateHistory

if TYPE_CHECKING:
    from diel.store.journal import records
    from diel.store.journal.records import NodeFacts, StagingRecord, UsageFacts

_SUMS = ("cpu_seconds", "system_seconds", "read_bytes", "written_bytes", "gpu_seconds")
_PEAKS = ("memory_bytes", "gpu_memory_bytes")

VERSION = 12
"""The version of a snapshot's form: one of another version is ignored."""
MAX_FAILURES = 1000
"""The most failures to keep with their messages; the rest are counted."""


@dataclass
class History:
    """The state of a run, folded from its records."""

    stages: dict[str, StageHistory] = field(default_factory=dict)
    failures: "dict[tuple[str, int], records.Failed]" = field(default_factory=dict)
    state: RunState = RunState.PENDING
    epoch: int = 0
    bundles: int = 0
    """The number of the last bundle: a worker of an earlier controller may still report its own."""
    began: float = 0.0
    ended: float | None = None
    uses: set[str] = field(default_factory=set)
    """Earlier runs whose results this one took from the cache."""
    origins: dict[str, str] = field(default_factory=dict)
    """Their names by their ids; by their names, of records from before."""
    blocks: "dict[str, records.BlockFacts]" = field(default_factory=dict)
    """Allocations of a scheduler, by name: the latest record of each."""
    workers: "dict[str, records.WorkerFacts]" = field(default_factory=dict)
    """The workers in blocks, by segment."""
    left: dict[tuple[str, int], Attempt] = field(default_factory=dict)
    """Tasks that ran in blocks when their controller went: they may still run."""
    silent: str = ""
    """Why the scheduler does not answer; empty if it does."""
    trouble: str = ""
    """The last problem that was not a task's."""
    refusals: dict[str, str] = field(default_factory=dict)
    """What is to be said of each replica that went on with inputs which were not the newest."""
    axes: dict[str, AxisHistory] = field(default_factory=dict)
    """Searches and loops, by axis."""
    staging: "dict[str, records.NodeFacts]" = field(default_factory=dict)
    """What was copied to the disk of each node, and what last went wrong there, by node."""
    staging_told: dict[str, float] = field(default_factory=dict)
    """The time of the last such record of each worker: they are counted once."""

    exports: "dict[str, records.ExportFacts]" = field(default_factory=dict)
    """What was copied out of the run, by STAGE.OUTPUT."""

    def apply(self, record: "records.Record", worker: str = "") -> None:
        """Fold one record in. What only a newer diel writes is left alone; a damaged one raises."""
        match record["event"]:
            case "done":
                self._done(record)
            case "start":
                self._take_step(record, TaskState.RUNNING, worker)
            case "queued":
                self._queued(record)
            case "cached":
                self._cached(record)
            case "fail":
                self._take_step(record, TaskState.READY, worker)
            case "failed" | "skipped" | "cancelled":
                self._verdict(record)
            case "release":
                self._release(record, worker)
            case "staging":
                _count_staging(self.staging, self.staging_told, record, worker)
            case "service" if record["state"] == "refused":
                replica, why = f"{record['stage']}/{record['index']}", record.get("message", "")
                self.refusals[replica] = f"{replica} refused newer inputs and answered with older ones: {why}"
            case "service" | "pruned":
                pass  # its own file says how it is; its search knows
            case _:
                self._apply_to_stage(record, worker)

    def _apply_to_stage(
        self, record: "records.OfStage | records.OfAxis | records.OfRun", worker: str
    ) -> None:
        match record["event"]:
            case "stage":
                self._stage(record)
            case "tolerated":
                self._tolerated(record)
            case "joined":
                self.stage(record["stage"]).join(record["index"], record["left"])
            case "held":
                why = [record["rule"], record["why"]] if record["why"] else []
                self.stage(record["stage"]).held = why
            case "fenced":
                self._fenced(record)
            case "gone":
                epoch = epoch_of(worker) if worker else self.epoch
                for index, attempt in record["tasks"]:
                    self.stage(record["stage"]).lose(index, attempt)
                    self._count_verdict(record["stage"], index)
                    if self.stage(record["stage"]).try_again(index, epoch):
                        self.failures.pop((record["stage"], index), None)
                self.stage(record["stage"]).hold_to(dict(record.get("made", ())), epoch)
            case "doubted":
                for index, attempt in record["tasks"]:
                    self.stage(record["stage"]).doubted[index] = attempt
            case "dropped":
                gone = self.stage(record["stage"]).dropped.setdefault(record["output"], set())
                gone.update(spread(record["tasks"]))
            case _:
                self._apply_to_run(record, worker)

    def _apply_to_run(self, record: "records.OfAxis | records.OfRun", worker: str) -> None:
        match record["event"]:
            case "controller":
                self._controller(record)
            case "worker":
                self._worker(record, worker)
            case "block":
                self._block(record)
            case "scheduler":
                self.silent = record["message"]
            case "trouble":
                self.trouble = record["message"]
            case "adopted":
                self._adopted(record)
            case "exported":
                own = ("event", "output", "time")
                facts: Any = {key: value for key, value in record.items() if key not in own}
                self.exports[record["output"]] = facts
            case "end":
                self._end(record)
            case "handover":
                pass
            case _:
                self._apply_to_axis(record)

    def _apply_to_axis(self, record: "records.OfAxis") -> None:
        match record["event"]:
            case "axis":
                self.axis(record["axis"]).know(record["facts"])
            case "begin" | "trial" | "reported" | "judged" | "round":
                self.axis(record["axis"]).apply(record)
            case "stopped" | "closed" | "reopened" | "spared":
                self.axis(record["axis"]).apply(record)
        event: object = record["event"]
        if not isinstance(event, str):
            raise TypeError(event)

    def has_notes(self) -> bool:
        """Return whether there is more than tasks: stages held, asked first or joined, remarks, exports."""
        stages = self.stages.values()
        return bool(self.exports) or any(s.held or s.joined or s.remark or s.surrogate for s in stages)

    def is_doubted(self) -> bool:
        """Return whether audits speak against answers among the results."""
        return any(stage.suspect() for stage in self.stages.values())

    def has_suspects(self) -> bool:
        """Return whether there are suspect results, or results that stay though they read some."""
        return any(stage.suspect() or stage.stays() for stage in self.stages.values())

    def is_held(self) -> bool:
        """Return whether a stage was given up before all its tasks were tried."""
        return any(stage.held for stage in self.stages.values())

    def stage(self, name: str) -> StageHistory:
        stage = self.stages.get(name)
        if stage is None:  # `setdefault` would make one for each record
            stage = self.stages[name] = StageHistory("analysis", 0, bytearray())
        return stage

    def _controller(self, record: "records.ControllerRecord") -> None:
        self.epoch = max(self.epoch, record["epoch"])
        self.state, self.ended = RunState.RUNNING, None
        self.began = min(self.began or record["time"], record["time"])
        if record["epoch"] > 1:
            self._reopen(record["time"], record.get("idle", 0.0))

    def _reopen(self, now: float, idle: float) -> None:
        """Try again what the controller before gave up and others still need."""
        self.silent = self.trouble = ""
        stays = {(name, index) for name, stage in self.stages.items() for index in stage.tolerated}
        for axis in self.axes.values():
            stays.update(axis.reopen(self._is_cancelled, now, idle))
        stays = {task for task in stays if self.stage(task[0]).state(task[1]) == TaskState.FAILED}
        self.failures = {task: record for task, record in self.failures.items() if task in stays}
        for name, stage in self.stages.items():
            for index, attempt in stage.under_way.items():
                if attempt.state == TaskState.RUNNING:
                    self._leave(name, index, attempt)
            stage.let_go(verdicts=True)
        for name, index in stays:
            self.stage(name).set(index, TaskState.FAILED)

    def _is_cancelled(self, trial: Trial) -> bool:
        """Return whether any task that a trial lost was stopped by a user."""
        return any(self.stage(name).state(index) == TaskState.CANCELLED for name, index in trial.lost)

    def _leave(self, stage: str, index: int, attempt: Attempt) -> None:
        """Keep an attempt whose controller is gone, if its worker does not end with it."""
        if attempt.worker in self.workers and attempt.number >= self.stage(stage).attempts.get(index, 0):
            self.left[(stage, index)] = attempt

    def _forget_left(self, stage: str, index: int, number: int) -> None:
        attempt = self.left.get((stage, index))
        if attempt is not None and attempt.number <= number:
            del self.left[(stage, index)]

    def _worker(self, record: "records.WorkerRecord", worker: str) -> None:
        if record.get("block"):
            self.workers[worker] = {
                "block": record["block"],
                "node": record.get("node"),
                "host": record.get("host"),
                "pid": record.get("pid"),
            }

    def _block(self, record: "records.BlockRecord") -> None:
        self.blocks[record["block"]] = record
        if record["state"] == "running":
            self.trouble = ""

    def _adopted(self, record: "records.Adopted") -> None:
        for name, index, number, segment in record["tasks"]:
            stage = self.stage(name)
            if not stage.state(index).ended:
                stage.under_way[index] = Attempt(number, TaskState.RUNNING, record["time"], segment)
                stage.set(index, TaskState.RUNNING)

    def _stage(self, record: "records.StageRecord") -> None:
        stage = self.stage(record["stage"])
        stage.kind, stage.total = record["kind"], record["total"]
        if "void" not in record:  # an axis that was made again can be shorter
            del stage.states[stage.total :]
            del stage.left_out[stage.total :]
        stage.parts = record.get("parts", {})
        stage.void, stage.remark = record.get("void", ""), record.get("remark", "")
        stage.factors = record.get("factors", [])
        if "surrogate" in record:
            stage.surrogate = stage.surrogate or SurrogateHistory()
            stage.surrogate.know(record["surrogate"])

    def _queued(self, record: "records.Queued") -> None:
        tasks, attempts = record["tasks"], record.get("attempts") or [1] * len(record["tasks"])
        if len(attempts) != len(tasks):
            raise Contradiction(f"a record of `queued` has {len(tasks)} tasks and {len(attempts)} attempts")
        self.bundles = max(self.bundles, record.get("bundle", 0))
        for index, attempt in zip(tasks, attempts, strict=True):
            queued = Attempt(attempt, TaskState.QUEUED, record["time"], bundle=record.get("bundle", 0))
            self._advance(record["stage"], index, queued)
            if "resources" in record:
                self.stage(record["stage"]).resources[index] = record["resources"]

    def _take_step(self, record: "records.Start | records.Fail", state: TaskState, worker: str) -> None:
        name, index = record["stage"], record["index"]
        stage = self.stage(name)
        if worker and stage.is_fenced(index, record["attempt"]):
            return
        bundle = record.get("bundle")
        if bundle is None:  # older runs may not have it
            current = stage.under_way.get(index)
            bundle = 0 if current is None else current.bundle
        self._advance(name, index, Attempt(record["attempt"], state, record["time"], worker, bundle), worker)

    def _release(self, record: "records.Release", worker: str) -> None:
        stage = self.stage(record["stage"])
        for index in record["tasks"]:
            stage.count_attempt(index, record.get("taken", 0))
            if self._is_late(worker):
                continue
            entry = stage.under_way.get(index)
            if entry is not None and (entry.state, entry.bundle) == (TaskState.QUEUED, record["bundle"]):
                stage.under_way[index] = replace(entry, state=TaskState.READY)
                stage.set(index, TaskState.READY)

    def _advance(self, name: str, index: int, attempt: Attempt, worker: str = "") -> None:
        """Take a later attempt, or a later step of the same one; a verdict stays. Once its controller is
        gone, what a worker began and did not commit counts only as an attempt."""
        stage = self.stage(name)
        before = stage.attempts.get(index, 0)
        if attempt.state != TaskState.QUEUED:
            stage.count_attempt(index, attempt.number)
        if stage.is_good(index):
            return
        running = attempt.state == TaskState.RUNNING
        if running and attempt.number > before:
            self._forget_left(name, index, attempt.number - 1)
        elif attempt.state == TaskState.READY:
            self._forget_left(name, index, attempt.number)
        if stage.state(index).ended:
            return
        if self._is_late(worker):
            if running and self.ended is None:
                self._leave(name, index, attempt)
            return
        current = stage.under_way.get(index)
        if current is None or _order(attempt) >= _order(current):
            stage.under_way[index] = attempt
            stage.set(index, attempt.state)

    def _is_late(self, worker: str) -> bool:
        return bool(worker) and (epoch_of(worker) < self.epoch or self.ended is not None)

    def _done(self, record: "records.Done") -> None:
        stage = self.stage(record["stage"])
        index, attempt = record["index"], record["attempt"]
        if not stage.takes(record):
            self._forget_attempt(record["stage"], index, attempt)
            return
        stage.count_attempt(index, attempt)
        if attempt > 1:
            stage.committed[index] = max(attempt, stage.committed.get(index, 1))
        if not stage.is_good(index):
            stage.seconds += record["seconds"]
            stage.timed += 1
            if "usage" in record:
                _count_usage(stage.usage, record["usage"], record["seconds"])
        self._commit(stage, record, TaskState.DONE)

    def _cached(self, record: "records.Cached") -> None:
        stage = self.stage(record["stage"])
        if stage.is_gone(record["index"], 0):
            return
        if "same" in record:
            stage.shared.add(record["index"])
        else:
            self.uses.add(record["run"])
            self.origins[record.get("run_id") or record["run"]] = record["run"]
        if not stage.state(record["index"]).good:
            stage.cached_seconds += record.get("seconds", 0.0)
        self._commit(stage, record, TaskState.CACHED)

    def _commit(self, stage: StageHistory, record: "records.Result", state: TaskState) -> None:
        index = record["index"]
        if not stage.is_good(index):
            if "surrogate" in record:
                stage.surrogate = stage.surrogate or SurrogateHistory()
                stage.surrogate.count(index, record["surrogate"], record.get("seconds", 0.0))
            if stage.state(index).ended:
                failure = self.failures.get((record["stage"], index))
                stage.overruled[index] = [stage.state(index), [*stage.left_out[index : index + 1]], failure]
            stage.set(index, state)
        stage.under_way.pop(index, None)
        stage.tolerated.pop(index, None)
        stage.tolerated_in.pop(index, None)
        stage.resources.pop(index, None)
        if stage.attempts.get(index) == 1:
            del stage.attempts[index]
        self.left.pop((record["stage"], index), None)
        self.failures.pop((record["stage"], index), None)

    def _count_verdict(self, name: str, index: int) -> None:
        """Let a verdict count that was overruled by a result which is gone."""
        stage = self.stage(name)
        if index in stage.overruled and not stage.state(index).ended:
            state, left_out, failure = stage.overruled.pop(index)
            stage.set(index, TaskState(state))
            stage.left_out[index : index + 1] = bytes(left_out)
            if failure is not None:
                self.failures[(name, index)] = failure

    def _forget_attempt(self, name: str, index: int, attempt: int) -> None:
        """Drop an attempt that ended without a result that counts."""
        self._forget_left(name, index, attempt)
        stage = self.stage(name)
        current = stage.under_way.get(index)
        if current is not None and current.number <= attempt:
            del stage.under_way[index]
            stage.set(index, TaskState.WAITING)

    def _fenced(self, record: "records.Fenced") -> None:
        for index, attempt in record["tasks"]:
            self.stage(record["stage"]).fence(index, attempt)
            self._forget_attempt(record["stage"], index, attempt)

    def _verdict(self, record: "records.Failed | records.Skipped | records.Cancelled") -> None:
        stage = self.stage(record["stage"])
        state = _VERDICTS[record["event"]]
        for index in spread(record["tasks"]):
            if not stage.state(index).good:
                stage.set(index, state)
                stage.under_way.pop(index, None)
                stage.tolerated_in.pop(index, None)
                if record["event"] == "skipped":
                    stage.leave_out(index, record.get("reason", ""))
                    self.failures.pop((record["stage"], index), None)  # of a trial that was pruned after all
        first = record["tasks"][0][0]
        has_failed = stage.state(first) == TaskState.FAILED and len(self.failures) < MAX_FAILURES
        if record["event"] == "failed" and has_failed:
            self.failures[(record["stage"], first)] = record

    def _tolerated(self, record: "records.Tolerated") -> None:
        stage = self.stage(record["stage"])
        for index in spread(record["tasks"]):
            task = (record["stage"], index)
            stage.tolerated[index], stage.tolerated_in[index] = record["cause"], self.epoch
            if task in self.failures:
                self.failures[task] = {**self.failures[task], "tolerated": record["cause"]}

    def axis(self, label: str) -> AxisHistory:
        return self.axes.setdefault(label, AxisHistory())

    def _end(self, record: "records.End") -> None:
        self.state = RunState(record["state"])
        self.ended = record["time"]
        self.left.clear()
        for stage in self.stages.values():
            stage.let_go(verdicts=False)

    def packed(self, offsets: Mapping[str, int]) -> str:
        """Return a snapshot of the history, folded from segments up to these offsets."""
        document = {
            "version": VERSION,
            "offsets": offsets,
            **vars(self),
            "uses": sorted(self.uses),
            "failures": list(self.failures.values()),
            "left": [[name, index, attempt] for (name, index), attempt in self.left.items()],
            "axes": {
                label: {"facts": axis.facts, "courses": list(axis.courses.values())}
                for label, axis in self.axes.items()
            },
        }
        return json.dumps(document, default=_plain)


_STEP = {TaskState.QUEUED: 0, TaskState.RUNNING: 1, TaskState.READY: 2}


def _order(attempt: Attempt) -> tuple[int, int, int]:
    """Order later attempts higher: a number that no worker began is handed out again, in another bundle."""
    return attempt.number, attempt.bundle, _STEP[attempt.state]


_VERDICTS = {"failed": TaskState.FAILED, "skipped": TaskState.SKIPPED, "cancelled": TaskState.CANCELLED}


def _plain(value: Any) -> Any:
    """Write other types as JSON: an object by its fields, a set of tasks as ranges, bytes compressed."""
    if isinstance(value, bytearray):
        return base64.b64encode(zlib.compress(bytes(value), 1)).decode()
    if isinstance(value, set):
        return ranges(sorted(value))
    return {name.name: getattr(value, name.name) for name in fields(value)}


def _count_usage(totals: dict[str, float], usage: "UsageFacts", seconds: float) -> None:
    """Add one attempt: `tasks` counts measured ones, `seconds` their time, no peak of the worker's own."""
    totals["tasks"] = totals.get("tasks", 0) + 1
    totals["seconds"] = totals.get("seconds", 0.0) + seconds
    for key, number in cast("dict[str, float]", usage).items():
        if key in _SUMS:
            totals[key] = totals.get(key, 0) + number
        elif key in _PEAKS and not (key == "memory_bytes" and usage.get("memory_at_most")):
            totals[key] = max(totals.get(key, 0), number)


def _count_staging(
    nodes: "dict[str, NodeFacts]", counted: dict[str, float], record: "StagingRecord", worker: str
) -> None:
    """Add a record to its node, once: a worker's report repeats it. `counted`: each worker's last."""
    if counted.get(worker, 0.0) >= record["time"]:
        return
    counted[worker] = record["time"]
    none: NodeFacts = {"copied": 0, "bytes": 0, "folder": "", "warnings": 0, "warning": ""}
    node = nodes.setdefault(record["node"], none)
    node["copied"] += record["copied"]
    node["bytes"] += record["bytes"]
    node["folder"] = record["folder"] or node["folder"]
    if record["warning"]:
        node["warnings"] += 1
        node["warning"] = record["warning"]
