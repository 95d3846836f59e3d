"""What is known about the tasks of one stage, with many tasks as a few pairs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress, count
from typing import TYPE_CHECKING, Any

from diel.base.states import TaskState
from diel.store.journal.surrogate import SurrogateHistory

if TYPE_CHECKING:
    from diel.store.journal.records import Result

_STATES = tuple(TaskState)
LEFT_BY_AXIS = 2
"""A task's point never came: the loop or search ended before it, or its trial was pruned."""
_LEFT = {"when": 1, "axis": LEFT_BY_AXIS, "service": 1}
"""Why a skipped task is no failure. `when`: its own or that of what it reads; `service`: nobody asked."""


def ranges(indices: Iterable[int]) -> list[list[int]]:
    """Ascending indices as [first, last] pairs: a million skipped tasks are one pair."""
    pairs: list[list[int]] = []
    for index in indices:
        if pairs and pairs[-1][1] == index - 1:
            pairs[-1][1] = index
        else:
            pairs.append([index, index])
    return pairs


def spread(pairs: Iterable[Iterable[int]]) -> Iterable[int]:
    """Yield the indices that `ranges` packed."""
    for first, last in pairs:
        yield from range(first, last + 1)


def covers(pairs: Iterable[Iterable[int]], index: int | None) -> bool:
    """Return whether an index is among those that `ranges` packed; None means any."""
    return index is None or any(first <= index <= last for first, last in pairs)


@dataclass(slots=True)
class Attempt:
    """A task that was handed out and has not ended: the known progress of its latest attempt."""

    number: int
    state: TaskState
    time: float = 0.0
    worker: str = ""
    bundle: int = 0


@dataclass(slots=True)
class StageHistory:
    """What is known about one stage's tasks: a byte each, and more only for those under way."""

    kind: str
    total: int
    states: bytearray
    parts: dict[str, str] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    """By which rule no more of its tasks are begun, and why; empty if they are."""
    void: str = ""
    """Why its tasks will never be known; empty if they are, or can be."""
    remark: str = ""
    under_way: dict[int, Attempt] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    """How many attempts began, for tasks that have no result or needed several."""
    committed: dict[int, int] = field(default_factory=dict)
    """The attempt that made a task's result, if not the first."""
    gone: dict[int, int] = field(default_factory=dict)
    """By task, the last attempt whose result lost its files or is outdated; 0 for one from the cache."""
    made: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """By task, the digests of the outputs that its readers had, for those that are made again."""
    made_in: dict[int, int] = field(default_factory=dict)
    """The epoch that said so: segments of controllers are folded before those of workers."""
    doubted: dict[int, int] = field(default_factory=dict)
    """By task, the attempt whose result stays though it read suspect answers, which were simulated since."""
    overruled: dict[int, list[Any]] = field(default_factory=dict)
    """By task, the verdict that a result overruled: it counts once that is gone, whatever is folded first."""
    fenced: dict[int, int] = field(default_factory=dict)
    """By task, the last attempt that was given up for lost: no result up to it counts."""
    resources: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What the latest attempt of a task without a result asked for beyond its stage."""
    tolerated: dict[int, str] = field(default_factory=dict)
    """The failed tasks that others went on without, and what allows that."""
    tolerated_in: dict[int, int] = field(default_factory=dict)
    """The epoch in which others last went on without a failed task."""
    seconds: float = 0.0
    """Time of all committed attempts together."""
    timed: int = 0
    shared: set[int] = field(default_factory=set)
    """The tasks that have the result of an equal one of the same run."""
    cached_seconds: float = 0.0
    """Time that it took to make the results that came from the cache."""
    usage: dict[str, float] = field(default_factory=dict)
    """What committed attempts used: sums and peaks, as far as it was measured."""
    surrogate: SurrogateHistory | None = None
    """What was answered and what simulated, if its tasks ask before they run."""
    factors: list[dict[str, Any]] = field(default_factory=list)
    """The factors of its domain, if it runs over a search or loop: axes, count, rows."""
    dropped: dict[str, set[int]] = field(default_factory=dict)
    """By output, the tasks whose artifact was deleted after use."""
    joined: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """By task, the points that it does not get of gathers that meet in it, by the edge that lacks them."""
    left_out: bytearray = field(default_factory=bytearray)
    """A byte for each task: a code of `_LEFT`, or 0; short or empty if the rest is 0."""

    @property
    def never(self) -> int:
        """Tasks at points that never came: a loop ended before its last round, a trial was pruned."""
        return self.left_out.count(LEFT_BY_AXIS)

    def never_came(self, index: int) -> bool:
        """Return whether a task's point never came."""
        return index < len(self.left_out) and self.left_out[index] == LEFT_BY_AXIS

    @property
    def hindered(self) -> int:
        """Tasks that were skipped because of a failure, not because they should be."""
        left_out = len(self.left_out) - self.left_out.count(0)
        return self.states.count(TaskState.SKIPPED) - left_out

    @property
    def expected(self) -> int:
        """Tasks that exist, or may still come."""
        return self.total - self.never

    def counts(self) -> dict[str, int]:
        """Count the tasks in each state; those at points that never came are left out."""
        counts = {state.label: self.states.count(state) for state in TaskState}
        counts["waiting"] += self.total - len(self.states)
        counts["skipped"] -= self.never
        return counts

    def state(self, index: int) -> TaskState:
        return _STATES[self.states[index]] if index < len(self.states) else TaskState.WAITING

    def is_good(self, index: int) -> bool:
        """Return whether a task has a result: `state(index).good`, at a third of its cost, for the fold."""
        return index < len(self.states) and self.states[index] in _GOOD

    def good(self) -> Iterator[int]:
        """Return the tasks with a result, of a million in an instant."""
        return compress(count(), self.states.translate(_IS_GOOD))

    def set(self, index: int, state: TaskState) -> None:
        if index >= len(self.states):
            self.states.extend(bytes(index + 1 - len(self.states)))
        self.states[index] = state
        if index < len(self.left_out):
            self.left_out[index] = 0

    def count_attempt(self, index: int, number: int) -> None:
        """Begin an attempt."""
        if number > self.attempts.get(index, 1 if self.is_good(index) else 0):
            self.attempts[index] = number

    def latest(self, index: int) -> int:
        """Return the number of a task's latest attempt, which may not have begun yet."""
        current = self.under_way.get(index)
        return current.number if current is not None else self.attempts.get(index, 1)

    def result_attempt(self, index: int) -> int:
        """Return the attempt that made a task's result; 0 for one from the cache."""
        return 0 if self.state(index) == TaskState.CACHED else self.committed.get(index, 1)

    def is_gone(self, index: int, attempt: int) -> bool:
        """Return whether the result of an attempt has lost its files."""
        return bool(self.gone) and attempt <= self.gone.get(index, -1)

    def is_fenced(self, index: int, attempt: int) -> bool:
        """Return whether an attempt was given up for lost."""
        return bool(self.fenced) and attempt <= self.fenced.get(index, 0)

    def takes(self, record: "Result") -> bool:
        """Return whether a result counts: not if its attempt was given up for lost, or lost its files."""
        if not (self.gone or self.fenced):
            return True
        index, attempt = record["index"], record["attempt"] if record["event"] == "done" else 0
        return not self.is_gone(index, attempt) and (attempt == 0 or not self.is_fenced(index, attempt))

    def fence(self, index: int, attempt: int) -> None:
        """No result of the attempts up to this one counts, whether it came before or comes later."""
        self.fenced[index] = max(attempt, self.fenced.get(index, 0))
        self.count_attempt(index, attempt)
        if self.state(index) == TaskState.DONE and self.result_attempt(index) <= attempt:
            self._unmake(index)

    def lose(self, index: int, attempt: int) -> None:
        """No result up to an attempt counts any longer: the task must run again, as a later attempt."""
        self.gone[index] = max(attempt, self.gone.get(index, 0))
        self.attempts[index] = max(attempt, self.attempts.get(index, 0))
        if self.state(index).good and self.result_attempt(index) <= attempt:
            self._unmake(index)
            for tasks in self.dropped.values():
                tasks.discard(index)

    def try_again(self, index: int, epoch: int) -> bool:
        """Drop a tolerated failure of that epoch or before; return whether there was one."""
        if self.tolerated_in.get(index, epoch + 1) > epoch:
            return False
        del self.tolerated_in[index]
        self.tolerated.pop(index, None)
        self.set(index, TaskState.WAITING)
        return True

    def hold_to(self, results: Mapping[int, Mapping[str, str]], epoch: int) -> None:
        """Note what readers had, or by now have, of results that are made again; the latest epoch knows."""
        for index, outputs in results.items():
            if epoch >= self.made_in.get(index, 0):
                self.made[index], self.made_in[index] = outputs, epoch

    def _unmake(self, index: int) -> None:
        self.shared.discard(index)
        self.set(index, TaskState.WAITING)
        if self.surrogate is not None and index < len(self.surrogate.answers):
            self.surrogate.answers[index] = 0  # its audit still counts

    def suspect(self) -> list[int]:
        """Return the tasks whose result is an answer that audits speak against."""
        return [] if self.surrogate is None else self.surrogate.suspect()

    def stays(self) -> list[int]:
        """Return the tasks whose result stays though it read suspect answers."""
        latest = self.result_attempt
        return sorted(i for i, attempt in self.doubted.items() if self.is_good(i) and latest(i) == attempt)

    def join(self, index: int, lacking: list[dict[str, Any]]) -> None:
        """Note what a task does not get of gathers that meet in it; empty if it gets all."""
        self.joined.pop(index, None)
        if lacking:
            self.joined[index] = lacking

    def leave_out(self, index: int, reason: str) -> None:
        """Note why a task was skipped, if that is not a failure."""
        if reason in _LEFT:
            self.left_out.extend(bytes(max(0, index + 1 - len(self.left_out))))
            self.left_out[index] = _LEFT[reason]

    def let_go(self, *, verdicts: bool) -> None:
        """Make handed-out tasks wait again, because their controller is gone; drop verdicts too if asked."""
        self.states = self.states.translate(_ANEW if verdicts else _LET_GO)
        self.under_way.clear()
        if verdicts:
            self.left_out.clear()
            self.overruled.clear()
            self.tolerated.clear()
            self.held = []


def _to_waiting(*gone: TaskState) -> bytes:
    return bytes(TaskState.WAITING if state in gone else state for state in range(256))


_GOOD = bytes(state for state in TaskState if state.good)
_IS_GOOD = bytes(state in _GOOD for state in range(256))
_LET_GO = _to_waiting(TaskState.READY, TaskState.QUEUED, TaskState.RUNNING)
_ANEW = _to_waiting(*(state for state in TaskState if not state.good))
