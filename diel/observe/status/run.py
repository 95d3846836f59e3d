"""A run as its files show it: its controller, state, stages, failures, searches and loops."""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from diel.base.paths import RunPaths
from diel.base.states import RunState, TaskState
from diel.observe.status.axis import AxisStatus, axes_of
from diel.observe.status.stage import MissingPoints, StageStatus, failure_document, stages_in
from diel.store.journal.history import History
from diel.store.journal.segment import Reader, decode, read_segment
from diel.store.journal.snapshot import read_run, told_damage
from diel.store.project.lease import Lease, is_alive, is_being_taken, last_word, read_lease
from diel.store.project.submission import Submission, awaited, newest_submission, submission_of
from diel.streams.services.endpoint import endpoint_file, read_endpoint

if TYPE_CHECKING:
    from diel.store.journal.records import BlockFacts, BlockNow, Failed


class ReplicaStatus(NamedTuple):
    """One replica that was started at least once."""

    task: str
    state: str
    """`starting`, `ready`, `restarting`, `stopped` or `failed`; `gone` if its worker is."""
    url: str
    restarts: int
    """Within its latest attempt."""
    message: str


class ServiceStatus(NamedTuple):
    """One service, with its replicas in the order of their tasks."""

    name: str
    replicas: tuple[ReplicaStatus, ...]

    @property
    def restarts(self) -> int:
        return sum(replica.restarts for replica in self.replicas)

    def document(self) -> dict[str, Any]:
        return {
            "ready": sum(replica.state == "ready" for replica in self.replicas),
            "restarts": self.restarts,
            "replicas": [replica._asdict() for replica in self.replicas],
        }


def services_of(paths: RunPaths, *, driven: bool) -> tuple[ServiceStatus, ...]:
    """Return the services of a run that has a folder for them. Without a controller (`driven`) none is up."""
    names = sorted(entry.name for entry in os.scandir(paths.services) if entry.is_dir())
    return tuple(ServiceStatus(name, tuple(_replicas(paths, name, driven))) for name in names)


def _replicas(paths: RunPaths, name: str, driven: bool) -> Iterator[ReplicaStatus]:
    files = (paths.services / name).glob("*.json")
    for number in sorted(int(file.stem) for file in files if file.stem.isdecimal()):
        endpoint = read_endpoint(endpoint_file(paths, name, number))
        if endpoint is not None:
            is_gone = not driven and not endpoint.is_over
            state = "gone" if is_gone else endpoint.state
            url = endpoint.url if endpoint.is_ready and not is_gone else ""
            yield ReplicaStatus(f"{name}/{number}", state, url, endpoint.restarts, endpoint.message)


@dataclass(frozen=True)
class Status:
    """A run as its files show it."""

    run: str
    workflow: str
    state: RunState
    lease: Lease | None
    alive: bool
    heartbeat_age: float | None
    """Seconds since the controller's last heartbeat."""
    began: float | None
    ended: float | None
    """When the run ended, or its controller was last heard of; None while it runs."""
    now: float
    stages: tuple[StageStatus, ...]
    failures: "tuple[Failed, ...]"
    """The verdicts on failed tasks, in the order of their stages and indices."""
    uses: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    """The ids of these runs; their names, of records from before."""
    """Earlier runs whose results this one took."""
    submission: Submission | None = None
    """How its controller was requested; None if it was started in the foreground."""
    awaited: bool = False
    """Whether that controller is still to come."""
    blocks: "tuple[BlockNow, ...]" = ()
    """Allocations of a scheduler, the oldest first; none on one machine."""
    silent: str = ""
    """Why the scheduler does not answer; empty if it does, or is not asked."""
    silent_since: float | None = None
    trouble: str = ""
    refusals: tuple[str, ...] = ()
    """Replicas of services that went on with inputs which were not the newest."""
    """The last problem that was not a task's."""
    damaged: tuple[str, ...] = ()
    """What cannot be read of its journal, and where."""
    site: str = ""
    axes: tuple[AxisStatus, ...] = ()
    services: tuple[ServiceStatus, ...] = ()
    """Those that were started at least once."""
    streams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By channel, what is in it and how far it was read."""
    staging: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What was copied to the nodes' own disks, by node."""
    environments: Mapping[str, str] = field(default_factory=dict)
    energy: Mapping[str, Any] | None = None
    notices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What was copied out of the run, by STAGE.OUTPUT."""

    @property
    def elapsed(self) -> float:
        """Seconds from the beginning to the end, or to now."""
        end = self.now if self.ended is None else self.ended
        return 0.0 if self.began is None else max(0.0, end - self.began)

    def count(self, state: TaskState) -> int:
        """Return the number of tasks in a state, over all stages."""
        return sum(stage[state] for stage in self.stages)

    @property
    def joined(self) -> list[tuple[str, Mapping[int, MissingPoints]]]:
        """The stages with tasks that lack points of gathers that meet in them."""
        return [(stage.name, stage.joined) for stage in self.stages if stage.joined]

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

    @property
    def total_text(self) -> str:
        return "?" if self.total is None else f"{self.total:,}"

    @property
    def energy_text(self) -> str:
        """`1.2 kWh of whole machines (RAPL 1.0, NVML 0.2)`, or that nothing was measured."""
        joules = self.energy["joules"] if self.energy else {}
        sources = ", ".join(f"{source} {_amount(value)}" for source, value in joules.items())
        whole = f"{_amount(sum(joules.values()))} of whole machines ({sources})"
        return whole if self.energy else "not measured"

    def document(self) -> dict[str, Any]:
        """Return the status as JSON."""
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
            "refusals": list(self.refusals),
            "damaged": list(self.damaged),
            "staging": dict(self.staging),
            "energy": None if self.energy is None else dict(self.energy),
            **({"environments": dict(self.environments)} if self.environments else {}),
            **({"exports": dict(self.exports)} if self.exports else {}),
            **({"notices": dict(self.notices)} if self.notices else {}),
        }


def read_status(paths: RunPaths, reader: Reader | None = None) -> Status:
    """Return the status now, cheaply with an earlier call's reader. Raise UsageError for an unknown form."""
    if reader is None:
        return fold_status(paths, read_run(paths))
    reader.catch_up()
    return fold_status(paths, reader)


class RunDriver(NamedTuple):
    """A run's state, and who drives it."""

    held: tuple[Lease, float] | None
    """The lease and the age of its heartbeat in seconds."""
    alive: bool
    coming: Submission | None
    """The controller that was requested and has not started yet."""
    state: RunState


def standing(paths: RunPaths, history: History) -> RunDriver:
    """Return a run's state and its controller. Without one the run is interrupted, whatever it noted last."""
    # In the order in which a controller starts: one that passed the first look is seen by the next.
    expected = awaited(paths, history)
    taking = is_being_taken(paths)
    held = read_lease(paths)
    alive = history.ended is None and held is not None and is_alive(*held)
    if alive and held is not None and last_word(paths, held[0].epoch) == "handover":
        alive = False  # on another host its heartbeat is still young
    coming = None if alive else expected
    state = history.state
    if coming is not None or (taking and state is RunState.INTERRUPTED):
        state = RunState.PENDING
    elif state.live and not alive:
        submitted = held is not None or newest_submission(paths) is not None
        state = RunState.INTERRUPTED if submitted and not taking else RunState.PENDING
    return RunDriver(held, alive, coming, state)


def fold_status(paths: RunPaths, reader: Reader) -> Status:
    """Return the status that a reader's history gives."""
    history = reader.history
    driving = standing(paths, history)
    if driving.held is not None and driving.held[0].epoch > history.epoch:
        reader.catch_up()  # a controller came after these lines were read
        driving = standing(paths, history)
    return _status(paths, reader.history, driving, tuple(told_damage(reader)))


def ended_status(paths: RunPaths, history: History, state: RunState) -> Status:
    """Return the status of a run whose controller has just ended."""
    return _status(paths, history, RunDriver(None, False, None, state))


def _status(paths: RunPaths, history: History, driving: RunDriver, damaged: tuple[str, ...] = ()) -> Status:
    state = driving.state
    lease, age = driving.held or (None, None)
    driven = driving.alive and state is RunState.RUNNING
    now = time.time()
    heard = None if age is None else now - age
    document = _document(paths.run_file)  # unchecked: a run of another version of diel can be listed too
    workflow = document.get("workflow")
    order = {name: place for place, name in enumerate(history.stages)}
    verdicts = history.failures.values()
    return Status(
        run=paths.run_id,
        workflow=workflow if isinstance(workflow, str) else paths.run_id.rpartition("-")[0],
        state=state,
        lease=lease,
        alive=driving.alive and state.live,
        heartbeat_age=age,
        began=history.began or None,
        ended=None if state.live else heard if history.ended is None else history.ended,
        now=now,
        stages=tuple(stages_in(paths, history, state)),
        failures=tuple(sorted(verdicts, key=lambda v: (order.get(v["stage"], 0), v["tasks"][0][0]))),
        uses=tuple(sorted(history.uses)),
        origins=tuple(history.origins),
        submission=driving.coming or submission_of(paths, 0 if lease is None else lease.epoch),
        awaited=driving.coming is not None,
        blocks=tuple(blocks_of(history)) if history.blocks else (),
        silent=history.silent,
        silent_since=silent_since(paths, history) if history.silent else None,
        trouble=history.trouble,
        refusals=tuple(history.refusals.values()),
        damaged=damaged,
        site=str(document.get("site") or ""),
        staging=history.staging,
        environments=environments_in(paths) if paths.environments.exists() else {},
        exports=history.exports,
        energy=energy_of(paths) if paths.energy.exists() else None,
        notices=notices_of(paths) if paths.notices.exists() else {},
        axes=axes_of(paths, history, now, driven=driven) if history.axes else (),
        streams=streams_of(paths) if paths.streams.exists() else {},
        services=services_of(paths, driven=driven) if paths.services.exists() else (),
    )


def _document(path: Path) -> dict[str, Any]:
    """Return the mapping in a file, as it is; an empty one if there is none, or it cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def energy_of(paths: RunPaths) -> dict[str, Any] | None:
    """Return joules by counter (RAPL, NVML), of each block or controller too; None where none counted."""
    parts: dict[str, Any] = {}
    joules: dict[str, float] = {}
    for file in sorted(paths.energy.glob("*.json")):
        try:
            part = json.loads(file.read_text("utf-8"))
            for source, value in part["joules"].items():
                joules[source] = joules.get(source, 0.0) + value
            parts[file.stem] = part
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # damaged: the others tell
    return {"joules": joules, "parts": parts} if parts else None


def _amount(joules: float) -> str:
    if joules >= 3.6e6:
        return f"{joules / 3.6e6:.3g} kWh"
    return f"{joules / 1000:.3g} kJ" if joules >= 1000 else f"{joules:.3g} J"


NEVER = "can never run"
"""Shown instead of `pending` if the scheduler says that waiting is no use."""


def blocks_of(history: History) -> "list[BlockNow]":
    """Return the run's allocations, oldest first, each with the number of tasks known to run in it."""
    at = {
        (name, index): attempt.worker
        for name, stage in history.stages.items()
        for index, attempt in stage.under_way.items()
        if attempt.state == TaskState.RUNNING
    }
    at |= {task: attempt.worker for task, attempt in history.left.items()}
    running = Counter(history.workers[worker]["block"] for worker in at.values() if worker in history.workers)
    blocks = sorted(history.blocks.items(), key=lambda item: item[1]["asked"])
    facts = ({**block, "running": running[name]} for name, block in blocks)
    return [cast("BlockNow", {key: now[key] for key in now if key not in ("event", "time")}) for now in facts]


def silent_since(paths: RunPaths, history: History) -> float | None:
    """Return when the scheduler stopped answering, as the controller recorded it."""
    since = None
    with suppress(FileNotFoundError), open(paths.controller_segment(history.epoch), "rb") as file:
        for line in file:
            record = decode(line) if b'"event":"scheduler"' in line and line.endswith(b"\n") else None
            if record is not None and record["event"] == "scheduler":
                since = (since or record["time"]) if record["message"] else None
    return since


def is_live(block: "BlockFacts") -> bool:
    """Return whether a block has not ended, according to its controller."""
    return block["ended"] is None


def ended_badly(block: "BlockFacts") -> bool:
    """Return whether a block ended although diel did not ask it to."""
    return not is_live(block) and not block["ending"] and block["state"] != "completed"


def is_hopeless(block: "BlockFacts") -> bool:
    """Return whether a block waits in vain."""
    return block["state"] == "pending" and bool(block.get("hopeless"))


def reason_of(block: "BlockFacts") -> str:
    """Return the scheduler's own words, without those that diel adds."""
    reason = str(block["reason"]).strip()
    return re.sub(rf"^{NEVER}:?\s*", "", reason, flags=re.IGNORECASE) if is_hopeless(block) else reason


def notices_of(paths: RunPaths) -> dict[str, dict[str, Any]]:
    """Return notices by `ended-1.mail-1`: kind, way, state (sending, sent, failed), time, message."""
    notices = {}
    for file in sorted(paths.notices.glob("*.jsonl")):
        records: list[Any] = [record for _, _, record in read_segment(file) if record is not None]
        if records:
            last = records[-1]
            keys = ("kind", "way", "state", "time", "message")
            notices[file.stem] = {key: last[key] for key in keys if key in last}
    return notices


def environments_in(paths: RunPaths) -> dict[str, str]:
    """Return the environments of a run in a few words, by name."""
    from diel.worker.environments.prepared import read_prepared  # here: it loads what digests are made with

    return {name: prepared.text for name, prepared in read_prepared(paths.environments).items()}


def streams_of(paths: RunPaths) -> dict[str, Mapping[str, Any]]:
    """Return by channel: items, whether it is closed, and how far each group of readers has come."""
    return dict(sorted(_document(paths.stream_facts).items()))
