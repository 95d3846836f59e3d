"""An edge while its stages run: which tasks wait for which, and whether they can run.

Tasks of the upstream stage that agree on the matched axes form a group; all tasks of the downstream
stage with these coordinates wait for that group. A group costs memory only if some of its tasks have ended.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from diel.base.states import TaskState
from diel.tasks.points.adaptive import Adaptive, PointState
from diel.tasks.points.domain import Group
from diel.tasks.stage_run import StageRun
from diel.workflow.graph import Edge


class Verdict(Enum):
    """The meaning of a group for the tasks that wait for it."""

    WAITING = "waiting"
    READY = "ready"
    FAILED = "failed"
    OMITTED = "omitted"


@dataclass
class _Count:
    ended: int = 0
    bad: int = 0
    omitted: int = 0


@dataclass
class Link:
    """One edge between two running stages."""

    way: ClassVar[str] = ""
    """The downstream tasks' use of the upstream ones, if not to read their results."""
    alongside: ClassVar[bool] = False
    """Whether both run at the same time, so neither waits for the end of the other."""
    is_counted: ClassVar[bool] = True
    """Whether the ends of gathered tasks are counted: what picks among them looks them up."""

    edge: Edge
    up: StageRun
    down: StageRun
    picked: dict[str, set[int]] | None = None
    """Point indices by picked axis, of a derived axis one for each point of its parents; None while the
    upstream axes are not known."""
    makers: tuple[StageRun, ...] = ()
    """The stages that made derived axes of the upstream one."""
    missing: str = ""
    """Why `at` names no point; empty if it does."""
    _counts: dict[Group, _Count] = field(default_factory=dict)

    def resolve(self) -> None:
        """Find the picked points, once the upstream stage's axes are known."""
        self.picked = {}
        for axis, point in self.edge.picked.items():
            places = {*self.up.points[axis].find(point)}
            factor = next(factor for factor in self.up.domain.factors if axis in factor.axes)
            rows = [dict(zip(factor.axes, row, strict=True)) for row in factor.rows or ()]
            parents = [tuple({**row, axis: 0}.values()) for row in rows if row[axis] in places]
            if len(places) == 1 or (parents and len({*parents}) == len(parents)):
                self.picked[axis] = places
            else:
                many = f"{len(places)} points" if places else "no point"
                self.missing = f"`at` picks {many} of axis '{axis}' of '{self.up.name}': {point!r}"

    def group_of_upstream(self, index: int) -> Group | None:
        """Return the group that an upstream task is in; None where `at` picks others."""
        assert self.picked is not None
        if self.picked and not self._is_picked(self.up.domain.coordinates(index)):
            return None
        return self.up.domain.group(index, self.edge.matched)

    def group_of_downstream(self, index: int) -> Group:
        return () if not self.edge.matched else self.down.domain.group(index, self.edge.matched)

    def members(self, group: Group) -> Iterable[int]:
        """Return the upstream tasks of a group, in axis order."""
        return self.tasks_at(self._fixed(group))

    def tasks_at(self, fixed: Mapping[str, int]) -> Iterable[int]:
        """Return the upstream tasks at some coordinates, but those that `at` leaves out."""
        tasks, domain = self.up.domain.matching(fixed), self.up.domain
        several = len(self.pinned) < len(self.picked or ())
        return (i for i in tasks if self._is_picked(domain.coordinates(i))) if several else tasks

    def _is_picked(self, row: Mapping[str, int]) -> bool:
        return all(row[axis] in places for axis, places in (self.picked or {}).items() if axis in row)

    @property
    def pinned(self) -> dict[str, int]:
        """The coordinates that `at` gives to all groups."""
        return {axis: min(some) for axis, some in (self.picked or {}).items() if len(some) == 1}

    def places(self, axis: str, index: int) -> list[int]:
        """Return the numbers of the points of an axis that a downstream task gathers along, in order."""
        factor = next(candidate for candidate in self.up.domain.factors if axis in candidate.axes)
        numbers = factor.matching(self._fixed(self.group_of_downstream(index)))
        rows = (dict(zip(factor.axes, factor.row(number), strict=True)) for number in numbers)
        return sorted({row[axis] for row in rows if self._is_picked(row)})

    def good_members(self, group: Group) -> Iterator[int]:
        state = self.up.history.state
        return (index for index in self.members(group) if state(index).good)

    def meant(self, group: Group) -> Iterator[int]:
        """Return the upstream tasks that a gather would list if nothing had failed."""
        if self.edge.outer:
            return (i for i in self.members(group) if self.up.standing(i) is not PointState.CLOSED)
        return (i for i in self.members(group) if i not in self.up.omitted)

    def place(self, index: int) -> Group:
        """Return the coordinates of an upstream task on the gathered axes."""
        return self.up.domain.group(index, self.edge.gathered)

    def listed(self, group: Group) -> list[tuple[Group, int]]:
        """Return the upstream tasks that a gather lists, by place in the order of axes, of a choice the best
        first. With `missing: null` those without a result too, unless their points never came."""
        members = self.meant(group) if self.edge.outer else self.good_members(group)
        turn = [n for n, axis in enumerate(self.edge.gathered) if axis not in self.edge.chosen]
        return sorted(
            ((self.place(index), index) for index in members), key=lambda entry: [entry[0][n] for n in turn]
        )

    def lacking(self, group: Group) -> int:
        """Return how many more tasks a group would have if no search or loop had failed."""
        return 0

    def dependents(self, group: Group) -> Iterable[int]:
        if (
            self.edge.matched == self.down.domain.axes
            and len(self.down.domain.factors) == 1
            and self.down.domain.factors[0].rows is None
        ):
            return group if group[0] < self.down.domain.size else ()
        return self.down.domain.matching(dict(zip(self.edge.matched, group, strict=True)))

    def count(self, index: int) -> None:
        group = self.group_of_upstream(index) if self.edge.gathered and self.is_counted else None
        if group is None:
            return
        count = self._counts.setdefault(group, _Count())
        count.ended += 1
        if not self.up.history.state(index).good:
            if index in self.up.omitted:
                count.omitted += 1
            else:
                count.bad += 1

    def leave_out(self, index: int) -> None:
        """Leave out a task that was counted. Call it before the task's state changes."""
        group = self.group_of_upstream(index) if self.edge.gathered and self.is_counted else None
        if group is not None and index not in self.up.omitted:
            count = self._counts[group]
            count.omitted += 1
            count.bad -= not self.up.history.state(index).good

    def woken_by(self, index: int) -> Iterable[int]:
        """Return the downstream tasks to look at once an upstream task has ended, and was counted."""
        group = self.group_of_upstream(index)
        return () if group is None or self.verdict(group) is Verdict.WAITING else self.dependents(group)

    def verdict(self, group: Group) -> Verdict:
        """Return whether the tasks that wait for a group can run."""
        if self.up.void or self.missing:
            return Verdict.FAILED
        if not self.up.known or (not self.alongside and self.is_undecided(group)):
            return Verdict.WAITING
        return self._weigh(group)

    def awaits(self, label: str) -> bool:
        """Return whether an edge's reading is known once a search or loop is over."""
        return label in self.edge.chosen or any(a.axis.prunes and a.label == label for a in self.leaves)

    @property
    def feeds(self) -> bool:
        """Say whether results go along it into results, which axes, channels and servers do not take."""
        edge = self.edge
        inside = edge.output is not None and edge.axis is None and not edge.stream
        return inside and self.down.spec.service is None

    @property
    def leaves(self) -> list[Adaptive]:
        """The searches and loops of which it reads several points, or one that `at` names, from outside."""
        return [axis for axis in self.up.adaptive if axis.label not in self.down.spec.over]

    def is_undecided(self, group: Group) -> bool:
        """Return whether a search may still prune tasks read from outside: their ends must decide nothing."""
        for axis in self.leaves:
            if axis.axis.prunes and axis.label not in self.edge.chosen:
                first = self.tasks_at({axis.label: 0} | self._fixed(group))
                if not all(axis.is_over(self.up.domain.coordinates(index)) for index in first):
                    return True
        return False

    def _weigh(self, group: Group) -> Verdict:
        if self.edge.gathered:
            return self._gathered(group)
        index = next(iter(self.members(group)), None)
        return Verdict.FAILED if index is None else self.verdict_of(index)

    def verdict_of(self, index: int) -> Verdict:
        """Return the meaning of one upstream task for its readers."""
        state = self.up.history.state(index)
        if state.good:
            return Verdict.READY
        if not state.ended:
            return Verdict.WAITING
        return Verdict.OMITTED if state == TaskState.SKIPPED and index in self.up.omitted else Verdict.FAILED

    def _gathered(self, group: Group) -> Verdict:
        size = self.size(group)
        count = self._counts.get(group, _Count())
        expected = size - count.omitted
        if expected - count.bad < math.ceil(self.edge.min_success * expected - 1e-9):
            return Verdict.FAILED
        if count.ended < size:
            return Verdict.WAITING
        if (size == 0 or self.edge.min_success == 1) and self._never_made(group):
            return Verdict.FAILED
        return Verdict.READY  # a group without tasks is an empty list

    def size(self, group: Group) -> int:
        """Return how many upstream tasks a group has before any choice."""
        fixed, several = self._fixed(group), len(self.pinned) < len(self.picked or ())
        return sum(1 for _ in self.tasks_at(fixed)) if several else self.up.domain.count(fixed)

    def _never_made(self, group: Group) -> bool:
        fixed = self._fixed(group)
        for maker in self.makers:
            here = {axis: place for axis, place in fixed.items() if axis in maker.domain.axes}
            if any(maker.has_lost(index) for index in maker.domain.matching(here)):
                return True
        return False

    def _fixed(self, group: Group) -> dict[str, int]:
        return dict(zip(self.edge.matched, group, strict=True)) | self.pinned
