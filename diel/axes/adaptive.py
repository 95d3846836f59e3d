"""A search or loop of a run: which of its points there are, and which of them are picked.

What is known stands in the run's history, so that a controller, and whoever reads its run later, see the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import prod
from typing import Any

from diel.axes.points import Points
from diel.axes.trials import front, ranked
from diel.graph import Choice
from diel.graph.judge import judge_of
from diel.journal.axis_history import AxisFacts, AxisHistory, Context, Course, TrialState
from diel.journal.history import History
from diel.spec import Axis, Workflow


class Standing(Enum):
    """Whether there is such a point."""

    WAITING = "waiting"
    """Not yet."""
    OPEN = "open"
    CLOSED = "closed"
    """It will never be: the search or loop ended before, or the trial was pruned."""


class Counted(Points):
    """The points of a search or loop, which are numbers: all that there may be."""

    def __init__(self, label: str, size: int) -> None:
        self.parameters = (label,)
        self._size = size

    def __len__(self) -> int:
        return self._size

    def values(self, index: int) -> tuple[Any, ...]:
        return (index,)


class Adaptive:
    """One axis of a run whose points are made while the run goes on."""

    def __init__(self, label: str, workflow: Workflow, history: AxisHistory, size: int) -> None:
        self.label = label
        self.axis: Axis = workflow.axes[label]
        self.judge = judge_of(workflow, label)
        self.history = history
        self.size = size
        """The most points that there may be."""

    def context(self, coordinates: Mapping[str, int]) -> Context:
        """The course that a task belongs to, by the task's coordinates."""
        return tuple(coordinates[axis] for axis in self.judge.context)

    def course(self, coordinates: Mapping[str, int]) -> Course | None:
        """How far it has come; None where it has not begun."""
        return self.history.courses.get(self.context(coordinates))

    @property
    def judged(self) -> bool:
        """Whether anything decides on its points; a loop without `until` has all of its rounds."""
        return bool(self.judge.stages)

    @property
    def at_once(self) -> int:
        """The most points that may be under way together."""
        return 1 if self.axis.search is None else min(self.axis.search.parallel, self.size)

    @property
    def may_end_early(self) -> bool:
        """Whether fewer points may come than there are at most."""
        return may_end_early(self.axis)

    def standing(self, coordinates: Mapping[str, int]) -> Standing:
        """Whether the point of a task is there."""
        if not self.judged:
            return Standing.OPEN
        course = self.course(coordinates)
        if course is None:
            return Standing.WAITING
        place = coordinates[self.label]
        if self.axis.search is not None:
            if place < len(course.trials):
                pruned = course.trials[place].state is TrialState.PRUNED
                return Standing.CLOSED if pruned else Standing.OPEN
            return Standing.CLOSED if course.over else Standing.WAITING
        if course.points is not None:
            return Standing.OPEN if place < course.points else Standing.CLOSED
        return Standing.OPEN if place <= len(course.rounds) else Standing.WAITING

    def is_over(self, coordinates: Mapping[str, int]) -> bool:
        """Whether all its points are known, and judged."""
        if not self.judged:
            return True
        course = self.course(coordinates)
        return course is not None and course.over

    def rounds(self, coordinates: Mapping[str, int]) -> int:
        """How many rounds there are, once the loop is over."""
        course = self.course(coordinates)
        return self.size if course is None or course.points is None else course.points

    def has_failed(self, coordinates: Mapping[str, int]) -> bool:
        """Whether it is over and has no point to hand on."""
        course = self.course(coordinates)
        return course is not None and course.failed

    def is_lost(self, coordinates: Mapping[str, int]) -> bool:
        """Whether it is over and a point was nothing to it: a trial that failed or was pruned, a round at
        which a loop failed."""
        course = self.course(coordinates)
        if course is None or course.points is None:
            return False
        place = coordinates[self.label]
        if self.axis.search is None:
            return course.failed and place == course.points - 1
        failed = (TrialState.FAILED, TrialState.PRUNED)
        return place < len(course.trials) and course.trials[place].state in failed

    def went_on_without(self, coordinates: Mapping[str, int]) -> bool:
        """Whether it was decided without a point, for its trial failed or was pruned."""
        return self.is_lost(coordinates) and not self.has_failed(coordinates)

    def chosen(self, coordinates: Mapping[str, int], choice: Choice) -> tuple[int, ...]:
        """The trials that a choice picks, once the search is over: the best first, a front by number."""
        course = self.course(coordinates)
        if course is None or self.axis.search is None:
            return ()
        small = [small for _, small in self.axis.search.objectives]
        if choice.word == "pareto":
            return tuple(trial.number for trial in front(course.trials, small))
        return tuple(trial.number for trial in ranked(course.trials, small[0])[: choice.count])

    def hyperparameters(self, coordinates: Mapping[str, int]) -> Mapping[str, Any]:
        """What the search has set at a task's trial, by name; nothing for a loop."""
        course = self.course(coordinates)
        place = coordinates[self.label]
        if course is None or self.axis.search is None or place >= len(course.trials):
            return {}
        return course.trials[place].hp


def facts_of(axis: Adaptive, workflow: Workflow) -> AxisFacts:
    """What is written down of an axis for those who read a run without its workflow."""
    stages = [name for name, stage in workflow.stages.items() if axis.label in stage.over]
    judge = axis.judge
    common = (axis.size, list(judge.context), list(judge.stages), stages)
    search = axis.axis.search
    if search is None:
        assert axis.axis.loop is not None
        return AxisFacts("loop", *common, until=axis.axis.loop.until or "")
    return AxisFacts(
        "search",
        *common,
        until=search.until or "",
        sampler=search.sampler,
        parallel=search.parallel,
        pruner=search.pruner,
        objectives=[[reference, small] for reference, small in search.objectives],
        watched=search.watched,
    )


def may_end_early(axis: Axis) -> bool:
    """Whether a search or loop may end before all of its points were there, or leave some of them out."""
    if axis.search is None:
        return axis.loop is not None and axis.loop.until is not None
    search = axis.search
    stops = (search.until, search.timeout, search.core_hours)
    return search.pruner != "none" or any(stop is not None for stop in stops)


def is_adaptive(axis: Axis) -> bool:
    """Whether an axis is a search or a loop."""
    return axis.search is not None or axis.loop is not None


def size_of(axis: Axis, workflow: Workflow) -> int | None:
    """The most points of a search or loop; None for a grid over something that cannot be listed."""
    if axis.loop is not None:
        return axis.loop.max
    search = axis.search
    assert search is not None
    if search.sampler != "grid":
        return search.trials
    listed = [workflow.hyperparameters[name].listed for name in search.parameters]
    if any(values is None for values in listed):
        return None
    size = prod(len(values or ()) for values in listed)
    return min(size, search.trials or size)


def adaptive_axes(workflow: Workflow, history: History) -> dict[str, Adaptive]:
    """The searches and loops of a run that a stage runs over."""
    used = {label for stage in workflow.stages.values() for label in stage.over}
    return {
        label: Adaptive(label, workflow, history.axis(label), size_of(axis, workflow) or 0)
        for label, axis in workflow.axes.items()
        if label in used and is_adaptive(axis)
    }
