"""An edge that picks points of searches and loops: `best`, `pareto`, `top`, `last`, `previous`.

What it picks is known once the search or loop is over; `previous`, and `last` within it, depend on the round.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, product

from diel.tasks.link import Link, Verdict
from diel.tasks.points.adaptive import Adaptive, PointState
from diel.tasks.points.domain import Group


class SelectionPending(Exception):
    """A search or loop is not over, or a task of its last round has not ended."""


class SelectionLost(Exception):
    """The picked task failed, or there is nothing to pick from."""


@dataclass
class ChoosingLink(Link):
    """An edge with a choice. Its groups are the coordinates on the axes that both stages run over."""

    is_counted = False

    axes: Mapping[str, Adaptive] = field(default_factory=dict)
    """The axes that it chooses on, by label."""
    turn: Callable[[Group], int] | None = None
    """How many rounds a service may read for now, at its place; None for all that there are."""

    @property
    def _within(self) -> tuple[str, ...]:
        return tuple(label for label in self.edge.chosen if label in self.down.spec.over)

    @property
    def _shared(self) -> tuple[str, ...]:
        return (*self.edge.matched, *self._within)

    def group_of_downstream(self, index: int) -> Group:
        if not self._shared:
            return ()
        coordinates = self.down.domain.coordinates(index)
        return tuple(coordinates[axis] for axis in self._shared)

    def woken_by(self, index: int) -> Iterable[int]:
        """Return the tasks that may read this task, or skip it if its condition left it out."""
        coordinates = self.up.domain.coordinates(index)
        outside = (axis for label, axis in self.axes.items() if label not in self._within)
        if not self.edge.renewed and not all(axis.is_over(coordinates) for axis in outside):
            return ()  # the end of the search wakes the readers
        fixed = {axis: coordinates[axis] for axis in self.edge.matched}
        spread = [
            [(label, place) for place in self.axes[label].after(coordinates)]
            for label in self._within
            if self.edge.chosen[label].word == "previous" and index not in self.up.omitted
        ]
        rows = (fixed | dict(row) for row in product(*spread))
        return chain.from_iterable(map(self.down.domain.matching, rows))

    def members(self, group: Group) -> Iterable[int]:
        """Return the tasks to read; none in the first round, or while nothing is picked yet."""
        try:
            return [index for index in self._members(group)[0] if index is not None]
        except (SelectionPending, SelectionLost):
            return []

    def lacking(self, group: Group) -> int:
        try:
            return self._members(group)[1]
        except (SelectionPending, SelectionLost):
            return 0

    def good_members(self, group: Group) -> Iterator[int]:
        return (index for index in self.members(group) if self.verdict_of(index) is Verdict.READY)

    def has_failed(self, index: int) -> bool:
        """Return whether the search or loop that it picks from failed, at an upstream task's point."""
        place = self.up.domain.coordinates(index)
        return any(axis.has_failed(place) for label, axis in self.axes.items() if label not in self._within)

    def _weigh(self, group: Group) -> Verdict:
        try:
            members, lost = self._members(group)
        except SelectionPending:
            return Verdict.WAITING
        except SelectionLost:
            return Verdict.FAILED
        if self.edge.gathered and not members and not lost:
            fixed = group[: len(self.edge.matched)]
            empty = self.size(fixed) == 0 and not self._never_made(fixed)
            return Verdict.READY if empty else Verdict.FAILED
        verdicts = [Verdict.READY if member is None else self.verdict_of(member) for member in members]
        return self._judge(verdicts + [Verdict.FAILED] * lost)

    def _judge(self, verdicts: list[Verdict]) -> Verdict:
        if Verdict.WAITING in verdicts:
            return Verdict.WAITING
        if not self.edge.gathered:
            return verdicts[0] if verdicts else Verdict.FAILED
        considered = [verdict for verdict in verdicts if verdict is not Verdict.OMITTED]
        good = sum(verdict is Verdict.READY for verdict in considered)
        enough = good >= math.ceil(self.edge.min_success * len(considered) - 1e-9)
        return Verdict.READY if enough else Verdict.FAILED

    def _members(self, group: Group) -> tuple[list[int | None], int]:
        """Return the tasks that a group picks, None before the first round, and how many are lacking that
        `min_success` allows. Raise NotYet, and Lost where nothing allows for it."""
        shared = dict(zip(self._shared, group, strict=True))
        fixed = self._fixed(tuple(shared[axis] for axis in self.edge.matched))
        rest = [axis for axis in self.up.spec.over if axis not in self.edge.chosen]
        chosen: list[int | None] = []
        lost = 0
        unchosen = [axis for axis in self.up.adaptive if axis.label not in self.edge.chosen]
        first = {**fixed, **dict.fromkeys(self.edge.chosen, 0)}
        # One choice for each combination of the other axes: tasks at the first points represent them.
        for index in self.tasks_at(first):
            coordinates = self.up.domain.coordinates(index)
            if any(axis.standing(coordinates) is PointState.CLOSED for axis in unchosen):
                continue
            try:
                chosen += self._choose({axis: coordinates[axis] for axis in rest}, shared)
            except SelectionLost:
                if self.edge.min_success == 1:
                    raise
                lost += math.prod(choice.most for choice in self.edge.chosen.values())
        if self.edge.renewed and self.edge.gathered:
            chosen = self._of_one_round(chosen)
        return chosen, lost

    def _of_one_round(self, chosen: list[int | None]) -> list[int | None]:
        """Return the tasks of the latest round in which all have a result: gathered results go together."""
        places = [self.up.domain.coordinates(index) for index in chosen if index is not None]
        if len(places) < len(chosen):
            return [None]
        oldest = {label: min(place[label] for place in places) for label in self.edge.chosen}
        return [self.up.domain.index({**place, **oldest}) for place in places]

    def _choose(self, here: dict[str, int], shared: Mapping[str, int]) -> list[int | None]:
        """Return the tasks picked at one combination of the axes without a choice."""
        places: list[dict[str, int]] = [here]
        chosen = self.edge.chosen

        def rank(label: str) -> int:  # axes that are the context of another one choose first
            return sum(other in self.axes[label].judge.context for other in chosen)

        for label in sorted(chosen, key=rank):
            places = [
                {**place, label: point} for place in places for point in self._points(label, place, shared)
            ]
        return [self._find(place) for place in places]

    def _points(self, label: str, place: Mapping[str, int], shared: Mapping[str, int]) -> list[int]:
        axis, choice = self.axes[label], self.edge.chosen[label]
        if self.edge.renewed:
            return self._latest(label, place, axis)
        if label in shared:
            here = {**place, **shared}
            return [axis.before(here) if choice.word == "previous" else shared[label]]
        if not axis.is_over(place):
            raise SelectionPending
        if axis.has_failed(place):
            raise SelectionLost
        picked = axis.chosen(place, choice)
        if not picked:
            raise SelectionLost
        return list(picked)

    def _latest(self, label: str, place: Mapping[str, int], axis: Adaptive) -> list[int]:
        """Return the latest round with a result, or -1 if it begins with something. Raise NotYet, Lost."""
        group = tuple(place[matched] for matched in self.edge.matched)
        rounds = axis.size if self.turn is None else min(axis.size, self.turn(group))
        later = () if self.edge.begun else range(rounds, axis.size)  # it begins with the first that comes
        for number in (*reversed(range(rounds)), *later):
            index = self.up.domain.index({**place, label: number})
            if index is not None and self.verdict_of(index) is Verdict.READY:
                return [number]
        if self.edge.begun:
            return [-1]
        raise SelectionLost if axis.is_over(place) else SelectionPending

    def _find(self, place: dict[str, int]) -> int | None:
        """Return the task at a place; for a loop, the last round that was not left out."""
        loops = [label for label in self.edge.chosen if self.axes[label].axis.in_turn]
        index = None
        while all(place[label] >= 0 for label in self.edge.chosen):
            index = self.up.domain.index(place)
            if index is None:
                raise SelectionLost
            verdict = self.verdict_of(index)
            if verdict is Verdict.WAITING:
                raise SelectionPending
            if verdict is not Verdict.OMITTED or not loops:
                return index
            place = {**place, loops[-1]: place[loops[-1]] - 1}
        before = any(choice.word == "previous" for choice in self.edge.chosen.values())
        return None if before or self.edge.begun else index
