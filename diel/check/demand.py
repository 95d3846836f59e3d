"""Checks of demands: what the tasks at each known point ask for is valid, and fits a pool of the site.

Expressions are evaluated at the points of the axes that they read. Where these are many, at the corners of
their product and at others evenly spread; of the demands there, the first are placed in a pool, and those
with the least and the most of a size or duration. Other points are checked as their tasks begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.axes.spread import spread
from diel.check.launcher import words_of
from diel.errors import Problem
from diel.expressions import Template, parse, parse_expression, parse_tree
from diel.expressions.quantity import Quantity
from diel.site import Ask, Misfit, Shape, Site
from diel.site.demand import Demand, Scope
from diel.spec.demand import TOGETHER, Place
from diel.spec.forms.axis import Points
from diel.spec.forms.sample import Sample
from diel.values import format_size

if TYPE_CHECKING:
    from diel.check.workflow import Checked
    from diel.spec import Stage

PLACED = 2_000
"""Points up to which each demand is placed in a pool, in the order in which they are looked at."""
DRAWN = 20_000
"""The most points of a design that are drawn to look at them."""
_WHEN: Place = ("when",)
_MADE = {
    "cores": (*TOGETHER, "cores_per_rank"),
    "gpus": (*TOGETHER, "gpus_per_rank"),
}
"""What follows from some keys."""

Axes = Mapping[str, tuple[str, ...]]
"""Parameters that are read, by axis; `task` stands for the index."""
Row = tuple[Any, ...]


class Range(NamedTuple):
    """What the tasks of a stage ask for, as far as it is known before the run."""

    spans: Mapping[str, tuple[Any, Any]]
    """The least and the most by key."""
    shapes: tuple[Shape, ...]
    """Those with the fewest nodes and cores first."""
    narrowest: Ask | None
    """That with the fewest cores; None if only the run shows these."""
    widest: Ask | None
    """That with the most."""
    seconds: float | None
    """The longest that a task may run; None without a bound."""
    core_seconds: float | None
    """Of a task: the mean, or of many points the most; None without a bound."""
    partial: bool
    """Whether the run will show others."""
    launchers: Mapping[str, tuple[Row, Row]] = MappingProxyType({})
    """The words that start ranks, by their program: for the fewest cores, and for the most."""

    def document(self) -> dict[str, Any]:
        """The least and the most of each key, as JSON."""
        spans = {key: {"least": least, "most": most} for key, (least, most) in self.spans.items()}
        return {**spans, "known": not self.partial}

    def words(self, key: str) -> str:
        """A key in words: `ranks 1–64`, `memory 2.0–16.0 GiB`; `ranks …` if only the run shows it."""
        least, most = self.spans.get(key, ("…", "…"))
        if key == "memory" and key in self.spans:
            least, most = format_size(least), format_size(most)
            least = least.removesuffix(most[-4:]) if least != most else least
        return f"{key} {most}" if least == most else f"{key} {least}–{most}"


def range_of(checked: Checked, site: Site, name: str) -> Range:
    """What the tasks of a stage ask for at all known points.

    Raises Misfit for the first key that is wrong, with the `others`: each is found without those before it.
    """
    wrong: dict[Place, Misfit] = {}
    while True:
        known = _Known(checked, site, name, wrong)
        try:
            for key, axes in known.apart.items():
                for row in known.rows(axes):
                    known.demand.check_alone(key, known.scope(axes, row))
            found = _folded(known.asks(), known)
        except Misfit as error:
            if error.key not in wrong and error.key in checked.workflow.stages[name].demand:
                wrong[error.key] = error
                continue
            wrong = wrong or {error.key: error}
        if not wrong:
            return found
        first, *others = wrong.values()
        first.others = tuple(others)
        raise first


def shared_room_flaws(checked: Checked, site: Site, names: Iterable[str]) -> Iterator[Problem]:
    """Stages whose room others share, but only the run shows what they ask for."""
    for name in names:
        if not checked.workflow.stages[name].demand:
            continue
        for key, template in _Known(checked, site, name).shown_by_the_run.items():
            if key[0] == "resources":
                message = "others run beside these tasks: what they ask for must be known before the run"
                hint = "read axis parameters that are listed, hp.NAME or task.attempt"
                offset = template.expressions[0].offset
                yield checked.document.problem(("stages", name, *key), message, hint, offset=offset)


def _folded(asks: Iterable[Ask], known: _Known) -> Range:
    """What is asked for at the points that are known, without the keys that the run will show."""
    hidden = {key[-1] for key in known.later} | {one for one in _MADE if known.hides(*_MADE[one])}
    spans: dict[str, tuple[Any, Any]] = {}
    shapes: dict[Shape, None] = {}
    narrowest: Ask | None = None
    widest: Ask | None = None
    launchers: dict[str, tuple[Ask, Ask]] = {}
    longest, spent, most, count = 0.0, 0.0, 0.0, 0
    for ask in asks:
        count += 1
        for key, value in {**ask.own, "cores": ask.cores, "gpus": ask.spec.resources.gpus}.items():
            if isinstance(value, int | float) and key not in hidden:
                low, high = spans.get(key, (value, value))
                spans[key] = min(low, value), max(high, value)
        shapes[ask.shape] = None
        narrowest = ask if narrowest is None or ask.cores < narrowest.cores else narrowest
        widest = ask if widest is None or ask.cores > widest.cores else widest
        for program in ask.launcher[:1]:
            least, greatest = launchers.get(program, (ask, ask))
            launchers[program] = (
                ask if ask.cores < least.cores else least,
                ask if ask.cores > greatest.cores else greatest,
            )
        seconds = math.inf if ask.seconds is None else ask.seconds
        longest, spent, most = (
            max(longest, seconds),
            spent + ask.cores * seconds,
            max(most, ask.cores * seconds),
        )
    shapes = dict.fromkeys(sorted(shapes, key=lambda shape: (shape.nodes, shape.cores, *shape)))
    shown = () if known.later else tuple(shapes)
    words = {program: (least.launcher, most.launcher) for program, (least, most) in launchers.items()}
    some = Range(
        spans,
        shown,
        narrowest,
        widest,
        None,
        None,
        bool(known.later) or known.grows or not known.is_whole,
        words,
    )
    if "cores" in hidden:
        unknown = {program: ((program, "…"), (program, "…")) for program in words}
        some = some._replace(narrowest=None, widest=None, launchers=unknown)
    if not count or math.isinf(longest) or known.hides("walltime", "timeout"):
        return some
    each = spent / count if known.is_whole else most
    return some._replace(seconds=longest, core_seconds=None if "cores" in hidden else each)


def _files(checked: Checked, stage: Stage) -> Iterator[tuple[str, Any]]:
    paths = {label: path for label, path in stage.files.items() if isinstance(path, str)}
    if paths:
        from diel.artifacts import File  # here: it takes a while, and few stages have files

        for label, path in paths.items():
            if (found := checked.document.path.parent / path).exists():
                yield label, File(str(found))


def _points_of(checked: Checked, label: str) -> Points | None:
    """The points of an axis. Those of a design are not listed: as few as a glance takes are drawn for it.

    Raises DielError where the package that draws them is missing.
    """
    axis = checked.workflow.axes[label]
    if label in checked.points or not isinstance(axis, Sample) or axis.points > DRAWN:
        return checked.points.get(label)
    return axis.points_of(label, checked.workflow.hyperparameters, checked.document.path.parent)


class _Known:
    """The points of a stage's axes, as far as they are known, for its demand."""

    def __init__(self, checked: Checked, site: Site, name: str, wrong: Collection[Place] = ()) -> None:
        """The keys `wrong` are left out, as those that only the run shows."""
        self.stage = checked.workflow.stages[name]
        found = ((label, _points_of(checked, label)) for label in self.stage.over)
        self._points = {label: points for label, points in found if points is not None}
        self._owners = {one: label for label, points in self._points.items() for one in points.parameters}
        self._files = dict(_files(checked, self.stage))
        later = checked.graph.handed_to(name)
        later |= {one for label in self.stage.over for one in checked.workflow.axes[label].sets}
        given = checked.hyperparameters.plain()
        self._hp = {label: value for label, value in given.items() if label not in later}
        demand = {key: parse(text) for key, text in self.stage.demand.items()}
        self.shown_by_the_run = {key: one for key, one in demand.items() if self.axes_of(one) is None}
        self.later = {*self.shown_by_the_run, *wrong}
        if self.hides(*TOGETHER):
            self.later |= {key for key in demand if key[-1] in TOGETHER}
        known = {key: self.axes_of(demand[key]) for key in self.later}
        self.apart = {key: axes for key, axes in known.items() if axes is not None and key not in wrong}
        """The axes of what is known, but must agree with what is not."""
        self.demand = Demand(checked.document, site, name, words_of, self.later)
        self.templates = {**self.demand.templates}
        if isinstance(self.stage.when, str):
            when = parse_expression(self.stage.when)
            self.templates |= {_WHEN: when} if self.axes_of(when) is not None else {}
        self._reads_files = any(
            read[0] in ("files", "params") for one in self.templates.values() for read in one.references
        )

    def hides(self, *names: str) -> bool:
        """Whether only the run shows one of these keys."""
        return any(key[-1] in names for key in self.later)

    @property
    def grows(self) -> bool:
        """Whether later attempts can ask for something else."""
        return any(("task", "attempt") in template.references for template in self.templates.values())

    def axes_of(self, template: Template) -> dict[str, tuple[str, ...]] | None:
        """The axes that a template reads, with the parameters; None if it reads what only a run shows."""
        found: dict[str, set[str]] = {}
        for read in self._names(template.references):
            label = self._owners.get(read[0], read[0])
            if label in self._points:
                known = self._points[label].parameters
                own = read[0] if read[0] in known else read[1] if len(read) > 1 else ""
                found.setdefault(label, set()).update({own} & {*known} or known)
            elif read[:2] == ("task", "index") and self._is_numbered:
                found["task"] = {"index"}
                for label, points in self._points.items():  # all, so that tasks are numbered
                    found[label] = {*points.parameters}
            elif read[:2] not in (("task", "attempt"), ("task", "stage")) and (
                read[0] != "hp" or len(read) < 2 or read[1] not in self._hp
            ):
                return None
        order = sorted(found, key=lambda label: label != "task" and 1 + self.stage.over.index(label))
        return {label: tuple(sorted(found[label])) for label in order}

    @property
    def _is_numbered(self) -> bool:
        """Whether the points are known that give tasks their numbers."""
        return len(self._points) == len(self.stage.over) and self.stage.replicas == 1

    def _names(self, references: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        """The names that are read, but those of files that are there; for `params` what these read."""
        for read in references:
            if read[0] == "files" and read[1:] and read[1] in self._files:
                continue
            if read[0] == "params" and read[1:] and read[1] in self.stage.params:
                yield from parse_tree(self.stage.params[read[1]]).references
            else:
                yield read

    def rows(self, axes: Axes) -> Iterator[Row]:
        """The values of the parameters that are read, at the points to look at."""
        sizes = [len(self._points[label]) for label in axes if label != "task"]
        columns = [
            [self._column(label, name) for name in names] for label, names in axes.items() if label != "task"
        ]
        for place in spread(sizes):
            row = tuple(column[at] for at, own in zip(place, columns, strict=True) for column in own)
            yield (_number(place, sizes), *row) if "task" in axes else row

    def _column(self, label: str, name: str) -> Sequence[Any]:
        points = self._points[label]
        return points.columns[points.parameters.index(name)]

    def scope(self, axes: Axes, row: Row) -> Scope:
        """What an expression can read at a point."""
        scope: dict[str, Any] = {"hp": self._hp, "task": {"attempt": 1, "stage": self.demand.name}}
        values = iter(row)
        for label, names in axes.items():
            given = {name: next(values) for name in names}
            if label == "task":
                scope["task"] |= given
            else:
                scope |= {label: given, **given}
        if self._reads_files:
            scope["params"] = _Lazily(
                {n: partial(parse_tree(v).value, scope) for n, v in self.stage.params.items()}
            )
            scope["files"] = self._files
        return scope

    # --- all demands ------------------------------------------------------------------------------

    @cached_property
    def _axes(self) -> Axes:
        """The axes that the expressions read, with the parameters, in the order of the stage's."""
        read = [self.axes_of(template) or {} for template in self.templates.values()]
        names = {
            label: {name for axes in read for name in axes.get(label, ())}
            for label in ("task", *self.stage.over)
        }
        return {label: tuple(sorted(own)) for label, own in names.items() if own}

    @property
    def is_whole(self) -> bool:
        """Whether all points are looked at."""
        return prod(len(self._points[label]) for label in self._axes if label != "task") <= PLACED

    def asks(self) -> Iterator[Ask]:
        """The demands at the points to look at. Raises Misfit for the first that is wrong."""
        rows = self.rows(self._axes) if self.stage.when is not False else ()
        scopes = self._wanted(self.scope(self._axes, row) for row in rows)
        yield from map(self.demand.of, islice(scopes, PLACED))
        yield from map(self.demand.of, self._telling(scopes))

    def _wanted(self, scopes: Iterable[Scope]) -> Iterator[Scope]:
        when = self.templates.get(_WHEN)
        return (scope for scope in scopes if when is None or when.value(scope))

    def _telling(self, scopes: Iterable[Scope]) -> Iterator[Scope]:
        """Yield a scope for each combination of values, and those with the least and most of an amount."""
        combinations = set()
        least: dict[Place, tuple[Quantity, Scope]] = {}
        most: dict[Place, tuple[Quantity, Scope]] = {}
        for scope in scopes:
            values = self.demand.values(scope)
            amounts = {key: value for key, value in values.items() if _is_amount(value)}
            combination = tuple(repr(value) for key, value in values.items() if key not in amounts)
            if combination not in combinations:
                combinations.add(combination)
                yield scope
            for key, value in amounts.items():
                if key not in least or value < least[key][0]:
                    least[key] = value, scope
                if key not in most or most[key][0] < value:
                    most[key] = value, scope
        yield from (scope for extremes in (least, most) for _, scope in extremes.values())


def _is_amount(value: Any) -> bool:
    """Whether a value is a size or duration of which the least and the most tell enough."""
    return isinstance(value, Quantity) and not math.isnan(value.number)


def _number(place: Sequence[int], sizes: Sequence[int]) -> int:
    """The index of the task at a place."""
    number = 0
    for point, size in zip(place, sizes, strict=True):
        number = number * size + point
    return number


class _Lazily(Mapping[str, Any]):
    """Values that are worked out when they are read."""

    def __init__(self, made: Mapping[str, Callable[[], Any]]) -> None:
        self._made = made

    def __getitem__(self, name: str) -> Any:
        return self._made[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
