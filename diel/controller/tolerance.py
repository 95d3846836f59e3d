"""Failures that do not fail the run: everything that depends on them went on without, as the workflow allows.

That is worked out when all tasks have ended.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice

from diel.axes.adaptive import Adaptive
from diel.axes.domain import Group
from diel.controller.stages import Stages
from diel.journal.axis_history import Context
from diel.journal.stage_history import ranges
from diel.states import TaskState
from diel.tasks.choosing import ChoosingLink
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link, Verdict
from diel.tasks.stage_run import StageRun

Lost = tuple[str, int | Context]
"""A loss: a task, by stage and index, or a search or loop, by axis and context."""

Finding = Generator[Lost, str | None, str]
"""Finds what tolerates a loss, empty if nothing does; asks the same about the losses behind it."""


def has_failed(stages: Stages, ledger: Ledger) -> bool:
    """Return whether any task, search or loop has failed and nothing tolerates it; record what does."""
    failed = False
    tolerance = _Tolerance(stages)
    for axis in stages.adaptive.values():
        for context, course in axis.history.courses.items():
            cause = tolerance.cause((axis.label, context)) if course.failed else ""
            failed |= course.failed and not cause
            if cause:
                ledger.append(
                    {"event": "spared", "axis": axis.label, "context": list(context), "cause": cause}
                )
    for stage in stages.runs.values():
        for cause, tasks in tolerance.failures(stage).items():
            ledger.append({"event": "tolerated", "stage": stage.name, "tasks": ranges(tasks), "cause": cause})
        failed |= stage.history.counts()["failed"] > len(stage.history.tolerated)
    return failed


class _Tolerance:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages.runs
        self._recipes = stages.recipes
        self._axes = stages.adaptive
        self._out_of = stages.out_of
        self._known: dict[Lost, str] = {}
        self._looked: dict[tuple[int, Group], tuple[Verdict, frozenset[int]]] = {}

    def failures(self, stage: StageRun) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for index in range(stage.size if stage.history.states.count(TaskState.FAILED) else 0):
            if stage.history.state(index) == TaskState.FAILED and (cause := self.cause((stage.name, index))):
                found.setdefault(cause, []).append(index)
        return found

    def cause(self, lost: Lost) -> str:
        """Return what tolerates a loss; empty if nothing does. That rests on the tasks behind it, which are
        kept on a stack: a chain of stages may be longer than Python lets functions call each other."""
        asked = {lost: self._find(*lost)}
        answer: str | None = None
        while asked:
            last, finding = next(reversed(asked.items()))
            try:
                behind = finding.send(answer)
            except StopIteration as found:
                self._known[last] = answer = found.value
                del asked[last]
            else:
                answer = "" if behind in asked else self._known.get(behind)  # what is renewed may read itself
                if answer is None:
                    asked[behind] = self._find(*behind)
        return self._known[lost]

    def _find(self, name: str, place: int | Context) -> Finding:
        if isinstance(place, int):
            stage = self._stages[name]
            reading = ((link, place) for link in self._out_of[name])
            return self._finding(stage.adaptive, stage.domain.coordinates(place), reading)
        axis = self._axes[name]
        coordinates = dict(zip(axis.judge.context, place, strict=True))
        outer = [self._axes[label] for label in coordinates if label in self._axes]
        return self._finding(outer, coordinates, self._choosing(axis, coordinates))

    def _finding(
        self, axes: Iterable[Adaptive], coordinates: Mapping[str, int], reading: Iterable[tuple[Link, int]]
    ) -> Finding:
        """What tolerates a loss at a point of some searches and loops, which is read along some edges."""
        by_readers = yield from self._by_readers(reading)
        if by_readers is None:
            return ""
        by_searches = yield from self._by_searches(axes, coordinates)
        return by_searches or by_readers

    def _choosing(self, axis: Adaptive, coordinates: Mapping[str, int]) -> Iterator[tuple[Link, int]]:
        """The edges that pick points of a search or loop from outside, with the tasks at its first point."""
        for link in (link for links in self._out_of.values() for link in links):
            inside = axis.label in link.down.spec.over
            if axis.label in link.edge.chosen and not inside and link.up.known:
                for index in link.up.domain.matching({**coordinates, axis.label: 0}):
                    yield link, index

    def _by_searches(self, axes: Iterable[Adaptive], coordinates: Mapping[str, int]) -> Finding:
        """The search that was decided without a point, or what tolerates that one failed with it."""
        for axis in axes:
            if axis.went_on_without(coordinates):
                return f"search '{axis.label}'"
            if axis.is_lost(coordinates):
                cause = yield axis.label, axis.context(coordinates)
                if cause:
                    return cause
        return ""

    def _by_readers(self, reading: Iterable[tuple[Link, int]]) -> Generator[Lost, str | None, str | None]:
        """What tolerates the loss along all edges: empty if none is met, None if one does not."""
        causes = []
        for link, index in reading:
            cause = yield from self._by(link, index)
            if cause is None:
                return None
            causes.append(cause)
        return next(filter(None, causes), "")

    def _by(self, link: Link, index: int) -> Generator[Lost, str | None, str | None]:
        """What tolerates the loss along one edge: empty if none is met, None if it is not tolerated."""
        if not link.down.known:
            return None
        if self._is_spared(link, index):
            return f"`min_success` of '{link.down.name}'"
        cause: str | None = ""
        for reader in self._met(link, index):
            if link.down.has_lost(reader):
                cause = yield link.down.name, reader
                if not cause:
                    return None
        return cause

    def _is_spared(self, link: Link, index: int) -> bool:
        """Whether those that read a task went on without it, by `min_success`."""
        if link.edge.min_success == 1:
            return False
        met, meeting = self._met(link, index), self._recipes[link.down.name].meeting
        several = link.edge.chosen or meeting
        readers = list(met if several else islice(met, 1))  # else all of them wait for one group
        if not all(self._look(link, reader)[0] is Verdict.READY for reader in readers):
            return False
        return bool(readers) and not (meeting and any(meeting.lacking(reader) for reader in readers))

    def _met(self, link: Link, index: int) -> Iterator[int]:
        all_of_them = not isinstance(link, ChoosingLink) or link.has_failed(index)
        for reader in link.woken_by(index):
            if all_of_them or index in self._look(link, reader)[1]:
                yield reader

    def _look(self, link: Link, reader: int) -> tuple[Verdict, frozenset[int]]:
        """Return what an edge meant for a task, and what it picked: once, because it can rank many trials."""
        group = link.group_of_downstream(reader)
        place = (id(link), group)
        if place not in self._looked:
            picked = frozenset(link.members(group)) if isinstance(link, ChoosingLink) else frozenset()
            self._looked[place] = (link.verdict(group), picked)
        return self._looked[place]
