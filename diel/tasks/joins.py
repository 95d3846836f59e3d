"""Gathered values that meet in one task: a function or a command takes them joined by their points.

Those along equal axes keep the points that all have; others, such as a training set and a test set, stay as
they are. An aggregate is worked out before, of all that there is.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from diel.base.states import TaskState
from diel.base.values import point_text
from diel.tasks.link import Link
from diel.tasks.points.domain import Group
from diel.tasks.results import MissingInput
from diel.workflow.expressions.gathered import GatheredValues, ListText
from diel.workflow.graph import Edge

Along = tuple[tuple[str, ...], tuple[str, ...]]
"""The gathered axes, and what picks several points of them: the best five, or a slice, are not all."""
SHOWN = 20
"""The most points to name for an edge; the rest are counted."""


def picks_of(edge: Edge) -> tuple[str, ...]:
    """Return the axes and words by which an edge picks several points."""
    return tuple(f"{axis} {edge.chosen[axis]}" for axis in edge.gathered if axis in edge.chosen)


def _along(edge: Edge) -> Along:
    return edge.gathered, picks_of(edge)


class Join:
    """The gathered values that one task takes: first all are noted, then each is met at the common points."""

    def __init__(self, *, apart: Callable[[], bool]) -> None:
        """Begin without values. `apart` tells whether the stages that are read have left points out."""
        self._noted: dict[Along, list[GatheredValues]] = {}
        self._common: dict[Along, set[Group] | None] = {}
        self._apart = apart

    def note(self, value: Any) -> Any:
        """Return a value, or parameters by name, with all that is gathered in it noted."""
        return _changed(_with_tables(value), self._note)

    def meet(self, value: Any) -> Any:
        """Return a noted value without points: plain lists of what meets. Raise MissingInput."""
        return _changed(_with_tables(value), self._met)

    def _note(self, value: GatheredValues) -> GatheredValues:
        self._noted.setdefault((value.axes, value.picks), []).append(value)
        return value

    def _met(self, value: GatheredValues) -> list[Any]:
        key = value.axes, value.picks
        if key not in self._common:
            self._common[key] = self._points(self._noted.get(key, [value]))
        common = self._common[key]
        if common is None:
            return list(value)
        return [item for item, point in zip(value, value.points, strict=True) if point in common]

    def _points(self, values: list[GatheredValues]) -> set[Group] | None:
        """Return the points that all have; None where all have the same."""
        first = values[0].points
        if all(value.points is first or value.points == first for value in values):
            return None
        common = set(first).intersection(*(value.points for value in values))
        if not common and all(values) and not self._apart():
            names = ", ".join(values[0].axes)
            raise MissingInput(
                f"values gathered over {names} meet here, and no point is in all of them: hand on the whole "
                "list, and split it in the function"
            )
        return common


def _with_tables(value: Any) -> Any:
    """Return parameters with each mapping among them as a table of columns."""
    return {name: _as_table(item) for name, item in value.items()} if type(value) is dict else value


def _as_table(value: Any) -> Any:
    """Return a mapping of columns along the same axes with one set of picks: a row has one point."""
    if type(value) is not dict:
        return value
    columns = [item for item in value.values() if isinstance(item, GatheredValues)]
    table = {}
    for name, item in value.items():
        alike = [other for other in columns if isinstance(item, GatheredValues) and other.axes == item.axes]
        picks = tuple(sorted({pick for other in alike for pick in other.picks}))
        if any(other.picks != picks for other in alike):
            item = GatheredValues(item, item.axes, item.points, picks)
        table[name] = item if isinstance(item, GatheredValues) else _as_table(item)
    return table


def _changed(value: Any, change: Callable[[GatheredValues], Any]) -> Any:
    """Return a value with something else in place of what is gathered in it."""
    if isinstance(value, GatheredValues):
        return change(value)
    if isinstance(value, ListText):
        items = change(value.source)
        return value if items is value.source else value.write(items)
    if type(value) is dict:
        return {key: _changed(item, change) for key, item in value.items()}
    if type(value) is list and any(isinstance(part, list | dict | ListText) for part in value):
        return [_changed(item, change) for item in value]
    return value


class JoinRemainder(NamedTuple):
    """The points that some edges lack, so that others leave them out."""

    edges: list[str]
    of: list[str]
    """What has such points: inputs by their labels, and what expressions read."""
    number: int
    points: list[dict[str, Any]]
    """The first of them: their parameters by name."""


class Shortage(NamedTuple):
    """Too few common points of gathers that meet."""

    link: Link
    """The edge that has the fewest."""
    text: str


class GatherJoin:
    """The gathers of one stage that meet in each of its tasks."""

    def __init__(self, links: Iterable[Link]) -> None:
        sets: dict[tuple[str, Along], list[Link]] = {}
        for link in links:
            if link.edge.gathered and not (link.alongside or link.edge.branch):
                for place in dict.fromkeys(link.edge.meets):
                    sets.setdefault((place, _along(link.edge)), []).append(link)
        self._sets = [group for group in sets.values() if len(group) > 1]
        self._cache: dict[int, tuple[list[Group], _Met]] = {}

    def __bool__(self) -> bool:
        return bool(self._sets)

    def lacking(self, index: int) -> Shortage | None:
        """Say why a task gets too little of what meets: of the points that no `when` left out, the least
        `min_success` of the edges must be there. None where it gets enough."""
        for links in self._unlike():
            met = self._look(links, index)
            share = min(link.edge.min_success for link in links)
            least = math.ceil(share * len(met.expected) - 1e-9)
            if len(met.common) < least:
                link = min(zip(met.held, links, strict=True), key=lambda pair: len(pair[0]))[1]
                names = " and ".join(dict.fromkeys(_name(link.edge) for link in links))
                counts = f"{names} have {len(met.common)} of {len(met.expected)} points in common"
                return Shortage(link, f"{counts}, and `min_success` asks for {least}")
        return None

    def gaps(self, index: int) -> list[JoinRemainder]:
        """Return the points that a task does not get of some gathers, since others lack them."""
        gaps: dict[tuple[Along, tuple[Group, ...]], JoinRemainder] = {}
        for links in self._unlike():
            met = self._look(links, index)
            union = set[Group]().union(*met.held)
            every = union if all(held == union for held in met.held) else union | met.meant
            for link, held in zip(links, met.held, strict=True):
                lacks = sorted(every - held)
                points = [_parameters(link, place) for place in lacks[:SHOWN]]
                gap = gaps.setdefault(
                    (_along(link.edge), tuple(lacks)), JoinRemainder([], [], len(lacks), points)
                )
                gap.edges.extend({_name(link.edge)} - {*gap.edges})
                have = [link.edge for link, its in zip(links, met.held, strict=True) if its & {*lacks}]
                names = dict.fromkeys(f"inputs.{edge.name}" if edge.name else _name(edge) for edge in have)
                gap.of.extend(name for name in names if name not in gap.of)
        return [gap for gap in gaps.values() if gap.number]

    def _unlike(self) -> Iterable[list[Link]]:
        return (links for links in self._sets if not all(map(_is_whole, links)))

    def _look(self, links: list[Link], index: int) -> "_Met":
        groups = [link.group_of_downstream(index) for link in links]
        cached = self._cache.get(id(links))
        if cached is None or cached[0] != groups:
            cached = self._cache[id(links)] = groups, _met(links, groups)
        return cached[1]


class _Met(NamedTuple):
    held: list[set[Group]]
    """The points that each edge has."""
    common: set[Group]
    expected: set[Group]
    """The points that all would have if nothing had failed."""
    meant: set[Group]
    """The points that some edges would have."""


def _met(links: list[Link], groups: list[Group]) -> _Met:
    held, expected = [], []
    for link, group in zip(links, groups, strict=True):
        held.append({place for place, _ in link.listed(group)})
        expected.append({link.place(index) for index in link.meant(group)})
    return _Met(held, set.intersection(*held), set.intersection(*expected), set.union(*expected))


def _is_whole(link: Link) -> bool:
    """Return whether all tasks of the stage that is read have a result, so that no point is lacking."""
    states = link.up.history.states
    return (
        not link.edge.chosen and states.count(TaskState.DONE) + states.count(TaskState.CACHED) == link.up.size
    )


def _name(edge: Edge) -> str:
    read = f"{edge.upstream}.{edge.output}" if edge.hyperparameter is None else f"hp.{edge.hyperparameter}"
    return f"{read} at {point_text(edge.picked)}" if edge.picked else read


def _parameters(link: Link, place: Group) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for axis, number in zip(link.edge.gathered, place, strict=True):
        points = link.up.points[axis]
        values.update(zip(points.parameters, points.values(number), strict=True))
    return values


def points_read(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the points of gathered values that may meet, where these differ: they enter a key."""
    read = {name: value for name, value in values.items() if isinstance(value, GatheredValues)}
    points = {}
    for name, gathered in read.items():
        rest = (other for other in read.values() if not {*gathered.axes}.isdisjoint(other.axes))
        if any((other.axes, other.points) != (gathered.axes, gathered.points) for other in rest):
            points[f"points of {name}"] = [list(gathered.axes), list(map(list, gathered.points))]
    return points
