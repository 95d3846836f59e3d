"""Hands out tasks in bundles, as many as the backend has room for."""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING

from diel.base.states import TaskState
from diel.planning.plan import Plan
from diel.site.shape import Shape, shape_of, shared_shape
from diel.store.journal.records import Fail, Queued
from diel.tasks.ledger import Ledger
from diel.tasks.stage_run import StageRun
from diel.worker.attempt.bundle import Bundle, Request, Work

if TYPE_CHECKING:
    from diel.backends.blocks.blocks import Blocks
    from diel.backends.blocks.local import ThisMachine

    Backend = ThisMachine | Blocks
    """Where bundles go, and what says how many more have room there."""

BUNDLE_SECONDS = 0.25
"""The run time to aim at for a bundle of short tasks."""
LEAST_SECONDS = 0.2
"""The shortest run time to which a bundle is split so that all workers get a share."""
MAX_BUNDLE = 2000
FIRST_BUNDLE = 16
"""Tasks in a stage's first bundles, before their run time is known."""
DRAINED = 4
"""Tasks in a bundle whose outputs are drained: a worker copies those of one while it runs the next."""
OVERHEAD = 2e-4
"""Seconds that a task costs a worker besides its own run time."""


@dataclass(slots=True)
class InFlight:
    """A task that was handed out."""

    bundle: int
    """0 if an earlier controller handed it out."""
    attempt: int

    @property
    def adopted(self) -> bool:
        return self.bundle == 0

    def is_told_by(self, record: Fail) -> bool:
        """Return whether a record of a worker is about this attempt."""
        return record["attempt"] == self.attempt and (self.adopted or record.get("bundle") == self.bundle)


@dataclass
class SentBundle:
    """A bundle that was handed to the backend."""

    stage: StageRun
    requests: tuple[Request, ...]
    since: float
    cores: int

    @property
    def indices(self) -> list[int]:
        return [request.index for request in self.requests]


@dataclass
class Dispatcher:
    """Knows what is in flight, and whether more fits."""

    _plan: Plan
    _ledger: Ledger
    _epoch: int
    backend: "Backend"
    in_flight: dict[tuple[str, int], InFlight] = field(default_factory=dict)
    sent: dict[int, SentBundle] = field(default_factory=dict)
    finished: SimpleQueue[tuple[int, Future[bytes]]] = field(default_factory=SimpleQueue)
    """Bundles that ended, put there by the threads of pipes or Parsl."""

    def shape(self, stage: StageRun, index: int | None = None) -> Shape:
        """Return what a task needs; without one, what the stage's tasks need at first, and at least."""
        if index is None:
            return self.shapes(stage)[0]
        ask = stage.ask_of(index)
        shape = self._plan.stages[stage.name].shape if ask is None else ask.shape
        if not stage.escalated:
            return shape
        grown = shape_of(shape.pool, stage.resources_of(index))
        return grown if ask is None else shared_shape(grown, self._plan.site.pools[shape.pool])

    def shapes(self, stage: StageRun) -> tuple[Shape, ...]:
        """Return what the stage's tasks need, as far as the plan shows it; the least first."""
        planned = self._plan.stages[stage.name]
        return (planned.demand.shapes if planned.demand else ()) or (planned.shape,)

    def cores(self, stage: StageRun, index: int | None = None) -> int:
        """Return the cores of a task; without one, the least that the stage's tasks need."""
        if stage.demand is None:
            return self._plan.stages[stage.name].cores
        ask = None if index is None else stage.ask_of(index)
        return self.shapes(stage)[0].cores if ask is None else ask.cores

    def alike(self, stage: StageRun, tasks: Sequence[Request]) -> Iterator[tuple[Shape, list[Request]]]:
        """Yield the tasks that can go in one bundle, those of the first one first: they ask for the same."""
        groups: dict[tuple[Shape, int], list[Request]] = {}
        for task in tasks:
            shape = self.shape(stage, task.index)
            groups.setdefault((shape, id(stage.ask_of(task.index))), []).append(task)
        for (shape, _), same in groups.items():
            yield shape, same if stage.demand is None else same[: self.bundle_size(stage, shape)]

    def has_room(self, stage: StageRun, shape: Shape, index: int | None = None) -> bool:
        """Return whether a task of a stage can be handed out."""
        return self.backend.has_room(shape, self.cores(stage, index))

    def has_room_for(self, tasks: Sequence[tuple[StageRun, int]]) -> bool:
        """Return whether all of these can run at the same time, beside running tasks."""
        return self.backend.has_room_for(self._with_cores(tasks))

    def could_hold(self, tasks: Sequence[tuple[StageRun, int]]) -> bool:
        """Tell whether all could run at once beside what stays up; if not, nobody waits for them."""
        return self.backend.could_hold(self._with_cores(tasks))

    def _with_cores(self, tasks: Sequence[tuple[StageRun, int]]) -> list[tuple[Shape, int]]:
        return [(self.shape(stage, index), self.cores(stage, index)) for stage, index in tasks]

    def bundle_size(self, stage: StageRun, shape: Shape) -> int:
        """Return how many tasks to hand out at once: a fraction of a second's work, and a fair share."""
        if stage.spec.service is not None or not self.backend.bundles(shape):
            return 1
        at_once = stage.at_once
        fair = max(1, min(stage.size - stage.ended, at_once) // (2 * self.backend.width(shape)))
        if any(output.drain for output in stage.spec.outputs.values()):
            return min(DRAINED, fair)
        if stage.mean_seconds is None:
            return min(FIRST_BUNDLE, fair)
        task_seconds = stage.mean_seconds + OVERHEAD
        # What comes bit by bit waits for results of running tasks, which a bundle reports at its end.
        most = fair if at_once < stage.size else max(fair, int(LEAST_SECONDS / task_seconds))
        return max(1, min(int(BUNDLE_SECONDS / task_seconds), most, MAX_BUNDLE))

    def send(self, stage: StageRun, shape: Shape, work: Work, tasks: list[Request]) -> None:
        """Record and hands out a bundle, each task as the attempt after those that began."""
        number = self._ledger.history.bundles + 1
        before = stage.history.attempts
        requests = tuple(task._replace(attempt=before.get(task.index, 0) + 1) for task in tasks)
        indices = [request.index for request in requests]
        record: Queued = {"event": "queued", "stage": stage.name, "bundle": number, "tasks": indices}
        if any(request.attempt > 1 for request in requests):
            record["attempts"] = [request.attempt for request in requests]
        ask = stage.ask_of(indices[0])
        if ask is not None:
            record["asked"] = ask.own
        if stage.escalated:
            resources = stage.resources_of(indices[0])  # all have the same: their shape shows it
            work = work.within(resources)
            if changed := resources.changes(stage.spec_of(indices[0]).resources):
                record["resources"] = changed
        self._ledger.append(record)
        for request in requests:
            self.in_flight[(stage.name, request.index)] = InFlight(number, request.attempt)
        cores = self.cores(stage, indices[0])
        self.sent[number] = SentBundle(stage, requests, time.monotonic(), cores)
        root = str(self._ledger.paths.root)
        bundle = Bundle(number, root, self._epoch, work, requests, 2 * BUNDLE_SECONDS, stage.needed_seconds)
        future = self.backend.submit(shape, cores, bundle)
        future.add_done_callback(lambda done: self.finished.put((number, done)))

    def adopt(self, stage: str, index: int, attempt: int) -> None:
        """Count a running task of an earlier controller as handed out."""
        self.in_flight[(stage, index)] = InFlight(0, attempt)

    def pop(self, number: int) -> SentBundle | None:
        """Return a bundle ended: its room is free."""
        sent = self.sent.pop(number, None)
        if sent is not None:
            self.backend.ended(number)
        return sent

    def is_out(self, stage: StageRun, index: int, bundle: int) -> bool:
        """Return whether a task of a bundle is still open, and has not gone out in another since."""
        task = self.in_flight.get((stage.name, index))
        return task is not None and task.bundle == bundle

    def take_back(self, stage: StageRun, bundle: int, indices: Iterable[int]) -> None:
        """Queue tasks again that a worker did not begin: its records were read before."""
        back = [index for index in indices if self.is_out(stage, index, bundle)]
        for index in back:
            del self.in_flight[(stage.name, index)]
            reset(stage, index)
        if back:
            stage.look_at(back)

    def drop_settled(self) -> None:
        """Forget bundles without a report whose tasks are all settled by workers' records."""
        out = {task.bundle for task in self.in_flight.values()}
        for number in [number for number in self.sent if number not in out]:
            self.pop(number)


def reset(stage: StageRun, index: int) -> None:
    """Put a task that was handed out back to waiting."""
    stage.history.under_way.pop(index, None)
    stage.history.set(index, TaskState.WAITING)
