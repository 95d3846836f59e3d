"""Failures that are none of the run: those that a search or `min_success` tolerates.

A failed task is tolerated where everything that depends on it went on without it, because the workflow says
that it may. That is worked out when all tasks have ended.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from diel.adaptive import Adaptive
from diel.controller.link import Link, Verdict
from diel.controller.stage_run import StageRun
from diel.states import TaskState

Lost = tuple[StageRun, int]
"""A task without a result."""


class Tolerance:
    """Looks at the failures of a run whose tasks have all ended."""

    def __init__(self, axes: Mapping[str, Adaptive], out_of: Mapping[str, list[Link]]) -> None:
        self._axes = axes
        self._out_of = out_of
        self._known: dict[tuple[str, int], str] = {}
        self._whole: dict[str, bool] = {}

    def failures(self, stage: StageRun) -> dict[str, list[int]]:
        """The failed tasks of a stage that are tolerated, by what says so."""
        found: dict[str, list[int]] = {}
        for index in range(stage.size if stage.history.states.count(TaskState.FAILED) else 0):
            if stage.history.state(index) == TaskState.FAILED and (cause := self._cause(stage, index)):
                found.setdefault(cause, []).append(index)
        return found

    def of_course(self, axis: Adaptive, context: tuple[int, ...]) -> bool:
        """Whether a search or loop that failed did so in a trial of another one, which tolerates that."""
        coordinates = dict(zip(axis.judge.context, context, strict=True))
        outer = (self._axes[label] for label in axis.judge.context if label in self._axes)
        return any(other.went_on_without(coordinates) for other in outer)

    def _cause(self, stage: StageRun, index: int) -> str:
        """What tolerates that a task has no result; empty where nothing does.

        That rests on the tasks behind it. They are kept on a stack, for a chain of stages may be longer than
        Python lets functions call each other.
        """
        asked = [((stage.name, index), self._find(stage, index))]
        answer: str | None = None
        while asked:
            task, finding = asked[-1]
            try:
                behind, number = finding.send(answer)
            except StopIteration as found:
                self._known[task] = answer = found.value
                asked.pop()
            else:
                answer = self._known.get((behind.name, number))
                if answer is None:
                    asked.append(((behind.name, number), self._find(behind, number)))
        return self._known[stage.name, index]

    def _find(self, stage: StageRun, index: int) -> Generator[Lost, str | None, str]:
        """The same, asking for the causes of the tasks behind it."""
        assert stage.domain is not None
        coordinates = stage.domain.coordinates(index)
        for axis in stage.adaptive:
            if axis.went_on_without(coordinates):
                return f"search '{axis.label}'"
        causes = []
        for link in self._out_of[stage.name]:
            cause = yield from self._by(link, index)
            if cause is None:
                return ""
            causes.append(cause)
        return next(filter(None, causes), "")

    def _by(self, link: Link, index: int) -> Generator[Lost, str | None, str | None]:
        """What tolerates the loss along one edge: empty where none is met, None where it is not tolerated."""
        if link.down.domain is None:
            return None
        if link.edge.chosen:
            return "" if self._went_on(link.down) else None
        group = link.group_of_upstream(index)
        if group is None:
            return ""  # it reads others
        if link.edge.min_success < 1 and link.verdict(group) is Verdict.READY:
            return f"`min_success` of '{link.down.name}'"
        cause: str | None = ""
        for dependent in link.dependents(group):
            if link.down.has_lost(dependent):
                cause = yield link.down, dependent
                if not cause:
                    return None
        return cause

    def _went_on(self, stage: StageRun) -> bool:
        """Whether no task was lost of a stage that picks points."""
        if stage.name not in self._whole:
            self._whole[stage.name] = not any(stage.has_lost(index) for index in range(stage.size))
        return self._whole[stage.name]
