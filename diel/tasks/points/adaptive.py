"""A search or loop of a run: its points, and the picked ones."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from diel.base.states import TrialState
from diel.store.journal.axis_history import AxisFacts, AxisHistory, Context, Course, front, ranked
from diel.store.journal.history import History
from diel.workflow.graph.judge import judge_of
from diel.workflow.models import Axis, Choice, Loop, Search, Workflow


class PointState(Enum):
    """Whether a point exists."""

    WAITING = "waiting"
    """Not yet."""
    OPEN = "open"
    CLOSED = "closed"
    """It never will: the search or loop ended before it, or the trial was pruned."""


NOT_BEGUN = Course(())
"""How far a search or loop has come that has not begun."""


class Adaptive(ABC):
    """One axis of a run whose points are made during the run."""

    axis: Axis

    def __init__(self, label: str, workflow: Workflow, history: AxisHistory) -> None:
        self.label = label
        self.axis = workflow.axes[label]
        self.judge = judge_of(workflow, label)
        self.history = history
        self.size = self.axis.size(workflow.hyperparameters) or 0
        """The most points that there can be."""

    def context(self, coordinates: Mapping[str, int]) -> Context:
        """Return the course that a task belongs to, by the task's coordinates."""
        return tuple(coordinates[axis] for axis in self.judge.context)

    def course(self, coordinates: Mapping[str, int]) -> Course:
        """Return how far it has come; NOT_BEGUN if it has not begun."""
        return self.history.courses.get(self.context(coordinates), NOT_BEGUN)

    @property
    def judged(self) -> bool:
        """Whether anything decides on its points; a loop without `until` has all of its rounds."""
        return bool(self.judge.stages)

    @property
    def at_once(self) -> int:
        """The most points that can be under way at once."""
        return self.axis.at_once(self.size)

    def standing(self, coordinates: Mapping[str, int]) -> PointState:
        """Return whether the point of a task is there."""
        if not self.judged:
            return PointState.OPEN
        course = self.course(coordinates)
        return PointState.WAITING if course is NOT_BEGUN else self._standing(course, coordinates[self.label])

    @abstractmethod
    def _standing(self, course: Course, place: int) -> PointState: ...

    def is_over(self, coordinates: Mapping[str, int]) -> bool:
        """Return whether all its points are known, and judged."""
        return not self.judged or self.course(coordinates).over

    def has_failed(self, coordinates: Mapping[str, int]) -> bool:
        """Return whether it is over without a point to hand on."""
        return self.course(coordinates).failed

    def is_lost(self, coordinates: Mapping[str, int]) -> bool:
        """Say whether it is over and a point did not count, as a trial that failed or was pruned."""
        course = self.course(coordinates)
        return course.points is not None and self._is_lost(course, coordinates[self.label])

    @abstractmethod
    def _is_lost(self, course: Course, place: int) -> bool: ...

    def went_on_without(self, coordinates: Mapping[str, int]) -> bool:
        """Return whether it was decided without a point, because its trial failed or was pruned."""
        return self.is_lost(coordinates) and not self.has_failed(coordinates)

    def is_undecided(self, coordinates: Mapping[str, int]) -> bool:
        """Return whether a point may still be taken back, with all that its tasks have made."""
        return False

    @abstractmethod
    def chosen(self, coordinates: Mapping[str, int], choice: Choice) -> tuple[int, ...]:
        """Return the points that a choice picks, once it is over: the best first, a front by number."""

    @abstractmethod
    def before(self, coordinates: Mapping[str, int]) -> int:
        """Return the point that `previous` means at a task's point; -1 where there is none."""

    @abstractmethod
    def after(self, coordinates: Mapping[str, int]) -> list[int]:
        """Return the points at which `previous` means a task's point."""

    def hyperparameters(self, coordinates: Mapping[str, int]) -> Mapping[str, Any]:
        """Return its values at a task's point, by name."""
        return {}

    def facts(self, workflow: Workflow) -> AxisFacts:
        """Return its record for readers of a run without the workflow."""
        stages = [name for name, stage in workflow.stages.items() if self.label in stage.over]
        context, judges, until = list(self.judge.context), list(self.judge.stages), self.axis.condition or ""
        return AxisFacts(self.axis.word, self.size, context, judges, stages, until=until)


class SearchAxis(Adaptive):
    """A search of a run: its trials."""

    axis: Search

    def _standing(self, course: Course, place: int) -> PointState:
        if place < len(course.trials):
            pruned = course.trials[place].state is TrialState.PRUNED
            return PointState.CLOSED if pruned else PointState.OPEN
        return PointState.CLOSED if course.over else PointState.WAITING

    def _is_lost(self, course: Course, place: int) -> bool:
        failed = (TrialState.FAILED, TrialState.PRUNED)
        return place < len(course.trials) and course.trials[place].state in failed

    def is_undecided(self, coordinates: Mapping[str, int]) -> bool:
        trials, place = self.course(coordinates).trials, coordinates[self.label]
        return self.axis.prunes and place < len(trials) and trials[place].state is TrialState.RUNNING

    def is_extended(self, course: Course) -> bool:
        """Return whether it was over after its trials, and has been given more since."""
        return course.reason == "trials" and not course.failed and len(course.trials) < self.size

    def chosen(self, coordinates: Mapping[str, int], choice: Choice) -> tuple[int, ...]:
        trials, small = self.course(coordinates).trials, [small for _, small in self.axis.objectives]
        picked = front(trials, small) if choice.word == "pareto" else ranked(trials, small[0])[: choice.most]
        return tuple(trial.number for trial in picked)

    def before(self, coordinates: Mapping[str, int]) -> int:
        parent = self.course(coordinates).trials[coordinates[self.label]].parent
        return -1 if parent is None else parent

    def after(self, coordinates: Mapping[str, int]) -> list[int]:
        place = coordinates[self.label]
        return [trial.number for trial in self.course(coordinates).trials if trial.parent == place]

    def hyperparameters(self, coordinates: Mapping[str, int]) -> Mapping[str, Any]:
        trials, place = self.course(coordinates).trials, coordinates[self.label]
        return trials[place].hp if place < len(trials) else {}

    def facts(self, workflow: Workflow) -> AxisFacts:
        return replace(
            super().facts(workflow),
            sampler=self.axis.sampler.name,
            parallel=self.axis.parallel,
            pruner=self.axis.pruner.name,
            objectives=[[reference, small] for reference, small in self.axis.objectives],
            watched=self.axis.watched,
        )


class LoopAxis(Adaptive):
    """A loop of a run: its rounds."""

    axis: Loop

    def _standing(self, course: Course, place: int) -> PointState:
        if course.points is not None:
            return PointState.OPEN if place < course.points else PointState.CLOSED
        return PointState.OPEN if place <= len(course.rounds) else PointState.WAITING

    def _is_lost(self, course: Course, place: int) -> bool:
        return course.failed and place == (course.points or 0) - 1

    def chosen(self, coordinates: Mapping[str, int], choice: Choice) -> tuple[int, ...]:
        points = self.course(coordinates).points
        return ((self.size if points is None else points) - 1,)

    def before(self, coordinates: Mapping[str, int]) -> int:
        return coordinates[self.label] - 1

    def after(self, coordinates: Mapping[str, int]) -> list[int]:
        return [coordinates[self.label] + 1]


_KINDS: dict[str, type[Adaptive]] = {"search": SearchAxis, "loop": LoopAxis}


def adaptive_axes(workflow: Workflow, history: History) -> dict[str, Adaptive]:
    """Return the searches and loops of a run that a stage runs over."""
    used = {label for stage in workflow.stages.values() for label in stage.over}
    return {
        label: _KINDS[axis.word](label, workflow, history.axis(label))
        for label, axis in workflow.axes.items()
        if label in used and axis.adaptive
    }
