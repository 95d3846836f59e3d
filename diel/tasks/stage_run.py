"""A stage while it runs: its axes' points, its tasks, and those still to look at."""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diel.base.states import TaskState
from diel.base.units import Units
from diel.base.values import task_text
from diel.site.shape import Ask, Unplaceable
from diel.store.journal.stage_history import StageHistory
from diel.tasks.points.adaptive import Adaptive, PointState
from diel.tasks.points.domain import UNKNOWN, Domain
from diel.workflow.models import Resources, Stage
from diel.workflow.models.forms.axis import Points


@dataclass
class StageRun:
    """The changing state of a stage. `history` holds the states of its tasks."""

    name: str
    spec: Stage
    history: StageHistory
    depth: int
    domain: Domain = UNKNOWN
    points: dict[str, Points] = field(default_factory=dict)
    units_read: Callable[[Sequence[str]], Units | None] = lambda _: None
    """The units of what its expressions read by a dotted name."""
    adaptive: tuple[Adaptive, ...] = ()
    """The searches and loops among its axes."""
    void: bool = False
    """Whether an axis will never be known, because the stage that makes it failed."""
    ended: int = 0
    mean_seconds: float | None = None
    """Run time of its tasks, as measured so far."""
    _variance: float = 0.0
    failures: dict[tuple[int, str], int] = field(default_factory=dict)
    """Failed attempts by task and class; those that the stage's `retries` covers count as one class."""
    hasty: dict[int, int] = field(default_factory=dict)
    """Consecutive interruptions right after an attempt began, by task."""
    granted: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The resources of a task's next attempt, if they exceed its demand."""
    demand: Callable[[int, int], Ask] | None = None
    """The demand of a task at an attempt, if expressions say it; raises Misfit."""
    asks: dict[int, tuple[int, Ask]] = field(default_factory=dict)
    """By task that has not ended: the number and the demand of its latest attempt."""
    held: bool = False
    """Whether its tasks must not begin for now."""
    stopped: str = ""
    """The rule by which none of its tasks will be begun any more; empty if they are."""
    omitted: set[int] = field(default_factory=set)
    """Tasks that `when` left out: they have not failed."""
    _pending: deque[Iterator[int]] = field(default_factory=deque)
    _delayed: list[tuple[float, int]] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Whether all its axes are known, and so its tasks."""
        return self.domain is not UNKNOWN

    @property
    def size(self) -> int:
        """How many tasks there are; 0 until known."""
        return self.domain.size

    @property
    def at_once(self) -> int:
        """The most tasks that can be under way at once: searches and loops make their points bit by bit."""
        count = self.size
        for axis in self.adaptive:
            if axis.judged and axis.size:
                count = count // axis.size * axis.at_once
        return count

    @property
    def complete(self) -> bool:
        return self.void or (self.known and self.ended >= self.domain.size)

    @property
    def settled(self) -> bool:
        """Whether it is complete, and no trial may still be pruned whose results then count nowhere."""
        return self.complete and not (self.adaptive and any(map(self.is_undecided, range(self.size))))

    def has_result(self, coordinates: Mapping[str, int]) -> bool:
        """Return whether any of its tasks that agree with these coordinates has a result."""
        here = {axis: place for axis, place in coordinates.items() if axis in self.domain.axes}
        return any(self.history.state(index).good for index in self.domain.matching(here))

    def has_lost(self, index: int) -> bool:
        """Return whether an ended task lacks a result that was not left out."""
        return not self.history.state(index).good and index not in self.omitted

    def ask_of(self, index: int, attempt: int | None = None) -> Ask | None:
        """Return the demand of a task at this or its next attempt, by expressions. Raise Misfit."""
        if self.demand is None:
            return None
        number = attempt or self.history.attempts.get(index, 0) + 1
        cached = self.asks.get(index)
        if cached is None or cached[0] != number:
            cached = self.asks[index] = number, self.demand(index, number)
        return cached[1]

    def spec_of(self, index: int, attempt: int | None = None) -> Stage:
        """Return the stage with the demand of one of its tasks. Raise Misfit as `ask_of` does."""
        ask = self.ask_of(index, attempt)
        return self.spec if ask is None else ask.spec

    def ran_as(self, index: int, attempt: int) -> Stage:
        """Return the stage with the demand of an attempt that began; as written if that cannot be known."""
        try:
            return self.spec_of(index, attempt)
        except Unplaceable:
            return self.spec

    def resources_of(self, index: int, attempt: int | None = None) -> Resources:
        """Return the resources of a task at an attempt, or more after a failure. Raise Misfit as `ask_of`."""
        own = self.spec_of(index, attempt).resources
        granted = self.granted.get(index) or self.history.resources.get(index)
        return own if granted is None else own.at_least(granted)

    @property
    def escalated(self) -> bool:
        """Whether any task may ask for more than the stage says."""
        return bool(self.granted or self.history.resources)

    def count_failure(self, index: int, kind: str) -> int:
        """Count a failed attempt of a task; return the number of its class so far."""
        count = self.failures[(index, kind)] = self.failures.get((index, kind), 0) + 1
        return count

    def measure(self, seconds: float) -> None:
        """Add the run time of one task: recent ones count most."""
        if self.mean_seconds is None:
            self.mean_seconds = seconds
            return
        away = seconds - self.mean_seconds
        self.mean_seconds += 0.1 * away
        self._variance = 0.9 * (self._variance + 0.1 * away * away)

    @property
    def needed_seconds(self) -> float:
        """Return the seconds of nearly all tasks so far; 0 with a walltime, and if they can stop before."""
        if self.spec.resources.walltime or self.spec.checkpoint or self.spec.service is not None:
            return 0.0
        if self.mean_seconds is not None:
            return self.mean_seconds + 2.0 * math.sqrt(self._variance)
        return self.history.seconds / self.history.timed if self.history.timed else 0.0

    def point(self, index: int) -> dict[str, Any]:
        """Return the value of each axis parameter of a task."""
        values: dict[str, Any] = {}
        for axis, place in self.domain.coordinates(index).items():
            if (points := self.points.get(axis)) is None:
                values[axis] = place  # a replica's number
            else:
                values.update(zip(points.parameters, points.values(place), strict=True))
        return values

    def task(self, index: int) -> str:
        """Return a task for people: `simulate/33 (depth=2.5, seed=1)`."""
        return task_text(f"{self.name}/{index}", self.point(index))

    def shared_failures(self) -> str:
        """Return the common facts of its failed tasks: `all 4 with depth=2.5`; empty without any."""
        from diel.tasks.points.shared import shared  # only where tasks failed

        failed = [index for index, state in enumerate(self.history.states) if state == TaskState.FAILED]
        return shared(self.domain, self.points, failed) if failed else ""

    def standing(self, index: int) -> PointState:
        """Return whether the points of a task's searches and loops exist."""
        if not self.adaptive:
            return PointState.OPEN
        coordinates = self.domain.coordinates(index)
        kinds = {axis.standing(coordinates) for axis in self.adaptive}
        return next(
            kind for kind in (PointState.CLOSED, PointState.WAITING, PointState.OPEN) if kind in kinds
        )

    def is_undecided(self, index: int) -> bool:
        """Return whether a task's trial may still be pruned, so that its results count nowhere."""
        if not self.adaptive:
            return False
        coordinates = self.domain.coordinates(index)
        return any(axis.is_undecided(coordinates) for axis in self.adaptive)

    def searched(self, index: int) -> dict[str, Any]:
        """Return the hyperparameters that searches have set for a task, by name."""
        values: dict[str, Any] = {}
        if self.adaptive:
            coordinates = self.domain.coordinates(index)
            for axis in self.adaptive:
                values.update(axis.hyperparameters(coordinates))
        return values

    def look_at(self, indices: Iterable[int]) -> None:
        """Queue tasks to be looked at: some may be ready now."""
        self._pending.append(iter(indices))

    def look_at_all(self) -> None:
        """Queue all its known tasks."""
        if self.known:
            self.look_at(range(self.size))

    def later(self, index: int, when: float) -> None:
        """Queue a task for a moment (time.monotonic seconds)."""
        heapq.heappush(self._delayed, (when, index))

    def next_wake(self) -> float | None:
        return self._delayed[0][0] if self._delayed and not self.held else None

    def candidates(self, now: float) -> Iterator[int]:
        """Yield queued tasks that have not begun, one at a time."""
        while self._delayed and self._delayed[0][0] <= now:
            index = heapq.heappop(self._delayed)[1]
            if self.history.state(index) == TaskState.WAITING:
                yield index
        while self._pending:
            for index in self._pending[0]:
                if self.history.state(index) == TaskState.WAITING:
                    yield index
            self._pending.popleft()

    @property
    def has_pending(self) -> bool:
        return bool(self._pending) and not self.held

    @property
    def in_line(self) -> bool:
        return bool(self._pending or self._delayed) and not self.held
