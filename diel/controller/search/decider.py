"""What makes the points of an axis during a run: in general, and for a loop, round by round."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from diel.base.errors import DielError
from diel.base.states import TaskState
from diel.store.journal.axis_history import Context, Course, Round
from diel.store.journal.records import CourseKey
from diel.store.project.requests import read_cancels
from diel.tasks.ledger import Ledger
from diel.tasks.points.adaptive import Adaptive, PointState
from diel.tasks.results import output_of, outputs_of
from diel.tasks.stage_run import StageRun
from diel.workflow.expressions import ExpressionError, parse_expression
from diel.workflow.models import Workflow

Earlier = Callable[[str], Iterable[tuple[int, float]]]
"""What a task reported of a metric in an earlier run: each value with its step."""


class DeciderContext(NamedTuple):
    """What all searches and loops of a run share."""

    stages: Mapping[str, StageRun]
    ledger: Ledger
    workflow: Workflow
    hyperparameters: Mapping[str, Any]
    wake: Callable[[str, Mapping[str, int]], None]
    """Looks again at the tasks of all stages over an axis that agree with some coordinates."""
    note_end: Callable[[StageRun, int], None]
    """Called for a task that a search counts as failed."""
    keep_pruned: Callable[[StageRun, int, str, Mapping[int, float]], None]
    """Keeps what a task reported of a metric before it was pruned, for later runs not to run it again."""
    leave_out: Callable[[StageRun, Iterable[int]], None]
    """Leaves out tasks of a pruned trial that had ended."""
    is_used: Callable[[str, Mapping[str, int]], bool]
    """Whether a task that picks among the points of an axis has a result at some coordinates."""


class UnjudgedPoint(DielError):
    """A point cannot be judged: a value is missing or wrong."""


class Decider(ABC):
    """Makes the points of one axis: in each of its contexts, when tasks that judge a point have ended."""

    def __init__(self, axis: Adaptive, outer: Iterable[Adaptive], run: DeciderContext) -> None:
        """`outer` has the searches and loops among the axes of its context."""
        self.axis, self.label = axis, axis.label
        self._run = run
        self._outer = tuple(outer)
        self._stages = run.stages
        self._ledger = run.ledger
        until = axis.axis.condition if axis.judged else None
        self._until = None if until is None else parse_expression(until)
        self._begun: set[Context] = set()

    def begin(self) -> None:
        """Begin in every context that exists and has not begun, or continues in a resumed run."""
        for context in self._contexts():
            coordinates = self._coordinates(context)
            there = all(axis.standing(coordinates) is PointState.OPEN for axis in self._outer)
            if there and context not in self._begun:
                self._begun.add(context)
                self._begin(context)

    def _contexts(self) -> Iterator[Context]:
        """Yield all contexts, in the order of their tasks, once the stages that judge are open."""
        judges = [self._stages[name] for name in self.axis.judge.stages]
        if not judges or any(not judge.known for judge in judges):
            return
        domain = judges[0].domain
        for index in domain.matching({self.label: 0}):
            yield self.axis.context(domain.coordinates(index))

    def _coordinates(self, context: Context, point: int | None = None) -> dict[str, int]:
        place = dict(zip(self.axis.judge.context, context, strict=True))
        return place if point is None else {**place, self.label: point}

    def _tasks(self, context: Context, point: int | None = None) -> Iterator[tuple[StageRun, int]]:
        coordinates = self._coordinates(context, point)
        for stage in self._stages.values():
            if self.label in stage.spec.over:
                for index in stage.domain.matching(coordinates):
                    yield stage, index

    def _at(self, context: Context) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for label, place in self._coordinates(context).items():
            points = self._stages[self.axis.judge.stages[0]].points[label]
            values.update(zip(points.parameters, points.values(place), strict=True))
        return values

    def _course(self, context: Context) -> Course:
        return self.axis.history.courses[context]

    @abstractmethod
    def _begin(self, context: Context) -> None:
        """Begin, or continues if the history has a part of it."""

    def note_end(self, stage: StageRun, index: int) -> None:
        """Note the end of a task of a stage over the axis."""
        coordinates = stage.domain.coordinates(index)
        context, point = self.axis.context(coordinates), coordinates[self.label]
        if context in self._begun:
            self._note(context, point, stage, index)

    @abstractmethod
    def _note(self, context: Context, point: int, stage: StageRun, index: int) -> None: ...

    def tend(self) -> None:  # noqa: B027 (most have nothing to do)
        """Do what is due now and then."""

    def listen(self) -> float:
        """Read what running tasks reported, if due; return when it is again, by time.monotonic."""
        return math.inf

    def recall(self, stage: StageRun, index: int, reported: Earlier) -> None:  # noqa: B027
        """Take what a task reported in an earlier run before it was pruned there."""

    def _judges(self, context: Context, point: int) -> list[tuple[StageRun, int]]:
        coordinates = self._coordinates(context, point)
        judges = []
        for name in self.axis.judge.stages:
            index = self._stages[name].domain.index(coordinates)
            assert index is not None
            judges.append((self._stages[name], index))
        return judges

    def _is_judged(self, context: Context, point: int) -> bool:
        """Return whether its judges have ended; what a cancelled run stopped is left to `resume`."""
        states = [stage.history.state(index) for stage, index in self._judges(context, point)]
        if not all(state.ended for state in states):
            return False
        cancels = () if all(state.good for state in states) else read_cancels(self._ledger.paths)
        return not any(cancel.everything for cancel in cancels)

    def _bad(self, context: Context, point: int) -> list[tuple[StageRun, int]]:
        judges = self._judges(context, point)
        return [(stage, index) for stage, index in judges if not stage.history.state(index).good]

    def _value(self, context: Context, point: int, reference: tuple[str, ...]) -> Any:
        stage, name = reference
        (index,) = [index for judge, index in self._judges(context, point) if judge.name == stage]
        record = self._ledger.results.record(stage, index)
        try:
            return output_of(record, name, self._ledger.paths.root)
        except KeyError:
            outputs = ", ".join(outputs_of(record)) or "nothing"
            raise UnjudgedPoint(f"{stage}.{name} is missing: {stage}/{index} made {outputs}") from None

    def _read_by_until(self, context: Context, point: int) -> dict[str, Any]:
        """Return the values that `until` reads at a point, by STAGE.VALUE. Raise Unjudged."""
        assert self._until is not None
        names = sorted(name for name in self._until.references if name[0] in self.axis.judge.stages)
        values = {".".join(name): self._value(context, point, name[:2]) for name in names}
        for name, value in values.items():
            if isinstance(value, float) and math.isnan(value):
                raise UnjudgedPoint(f"{name} is NaN")
        return values

    def _holds(self, context: Context, point: int, values: Mapping[str, Any]) -> bool:
        assert self._until is not None
        judge, index = self._judges(context, point)[0]
        paths = self._ledger.paths
        scope: dict[str, Any] = {
            **judge.point(index),
            "hp": {**self._run.hyperparameters, **judge.searched(index)},
            "run": {"id": paths.run_id, "dir": str(paths.root)},
        }
        for name, value in values.items():
            stage, _, output = name.rpartition(".")
            scope.setdefault(stage, {})[output] = value
        return self._until.truth(scope)

    def _open(self, context: Context, point: int) -> None:
        self._run.wake(self.label, self._coordinates(context, point))

    def _close(self, context: Context, points: int, reason: str, *, failed: bool = False) -> None:
        self._ledger.append(
            {"event": "closed", **self._key(context), "points": points, "reason": reason, "failed": failed}
        )
        self._run.wake(self.label, self._coordinates(context))

    def _begin_course(self, context: Context, seed: int = 0) -> None:
        """Record that it begins in a context; the seed is its sampler's."""
        at = self._at(context)
        self._ledger.append({"event": "begin", **self._key(context), "seed": seed, "at": at})

    def _key(self, context: Context) -> CourseKey:
        return {"axis": self.label, "context": list(context)}

    def _lost(self, context: Context, point: int) -> list[list[Any]]:
        return [
            [stage.name, index]
            for stage, index in self._tasks(context, point)
            if stage.history.state(index) in (TaskState.FAILED, TaskState.CANCELLED)
        ]


class LoopDecider(Decider):
    """Opens the next round once the values that `until` reads are there and it does not hold."""

    def _begin(self, context: Context) -> None:
        if context not in self.axis.history.courses:
            self._begin_course(context)
        course = self._course(context)
        if course.rounds and not course.over:
            self._go_on(context, course.rounds[-1])
        else:
            self._open(context, len(course.rounds))
        self._judge(context)

    def _note(self, context: Context, point: int, stage: StageRun, index: int) -> None:
        if stage.name in self.axis.judge.stages:
            self._judge(context)

    def _judge(self, context: Context) -> None:
        """Judge the present round if possible; in a resumed run, later ones too."""
        course = self._course(context)
        while not course.over and self._is_judged(context, len(course.rounds)):
            self._judge_round(context, len(course.rounds))

    def _judge_round(self, context: Context, number: int) -> None:
        bad = self._bad(context, number)
        lost = [stage.task(index) for stage, index in bad if index not in stage.omitted]
        if lost:
            why = f"{', '.join(lost)} has no result to judge round {number} by"
            self._close(context, number + 1, why, failed=True)
            return
        try:
            values = {} if bad else self._read_by_until(context, number)
            holds = not bad and self._holds(context, number, values)
        except (UnjudgedPoint, ExpressionError) as error:
            self._close(context, number + 1, f"`until` in round {number}: {error}", failed=True)
            return
        self._ledger.append(
            {"event": "round", **self._key(context), "number": number, "holds": holds, "values": values}
        )
        self._go_on(context, self._course(context).rounds[number])

    def _go_on(self, context: Context, judged: Round) -> None:
        """Begin what follows a round: another one, or the end, which a killed controller may have missed."""
        if judged.holds:
            self._close(context, judged.number + 1, "until")
        elif judged.number + 1 == self.axis.size:
            self._close(context, judged.number + 1, "max")
        else:
            self._open(context, judged.number + 1)
