"""Checks of demands: at each known point they are valid, and fit a pool of the site.

Expressions are evaluated at the points of the axes that they read. Where these are many, at the corners of
their product and at others evenly spread; of the demands there, the first are placed in a pool, and those
with the least and the most of a size or duration. Other points are checked as their tasks begin.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from math import prod
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from diel.base.errors import Problem
from diel.base.values import format_size
from diel.planning.check.launcher import words_of
from diel.planning.check.violations import Axes, KnownValues, Place
from diel.planning.check.workflow import CheckedWorkflow
from diel.site.demand import Demand, Scope
from diel.site.shape import Ask, Shape, Unplaceable
from diel.site.site import Site
from diel.workflow.expressions import Template, parse, parse_expression, parse_tree
from diel.workflow.expressions.expression import Lazily
from diel.workflow.expressions.quantity import Quantity
from diel.workflow.expressions.syntax import Chain
from diel.workflow.models import Stage
from diel.workflow.models.forms.axis import Points
from diel.workflow.models.forms.sample import Sample
from diel.workflow.models.stage import TOGETHER
from diel.workflow.models.stage import Place as Key

PLACED = 2_000
"""Points up to which each demand is placed in a pool, in the order in which they are looked at."""
DRAWN = 20_000
"""The most points of a design that are drawn to look at them."""
_WHEN: Key = ("when",)
_MADE = {"cores": (*TOGETHER, "cores_per_rank"), "gpus": (*TOGETHER, "gpus_per_rank")}
"""Facts that follow from some keys."""

Words = Sequence[str]


class Range(NamedTuple):
    """The demands of a stage's tasks, as far as they are known before the run."""

    spans: Mapping[str, tuple[Any, Any]]
    """The least and the most by key."""
    shapes: tuple[Shape, ...]
    """Shapes, those with the fewest nodes and cores first."""
    widest: Ask | None
    """That with the most cores; None if only the run shows these."""
    seconds: float | None
    """The longest that a task may run; None without a bound."""
    core_seconds: float | None
    """Core seconds of a task: the mean, or of many points the most; None without a bound."""
    partial: bool
    """Whether the run will show further demands."""
    launchers: Mapping[str, tuple[Words, Words]] = MappingProxyType({})
    """The words that start ranks, by their program: for the fewest cores, and for the most."""

    def document(self) -> dict[str, Any]:
        """Return the least and the most of each key, as JSON."""
        spans = {key: {"least": least, "most": most} for key, (least, most) in self.spans.items()}
        return {**spans, "known": not self.partial}

    def words(self, key: str) -> str:
        """Return a key in words: `ranks 1–64`, `memory 2.0–16.0 GiB`; `ranks …` if only the run shows it."""
        least, most = self.spans.get(key, ("…", "…"))
        if key == "memory" and key in self.spans:
            least, most = format_size(least), format_size(most)
            least = least.removesuffix(most[-4:]) if least != most else least
        return f"{key} {most}" if least == most else f"{key} {least}–{most}"


def range_of(checked: CheckedWorkflow, site: Site, name: str) -> Range:
    """Return what a stage's tasks ask for at all known points. Raise Misfit, with the `others`."""
    wrong: dict[Key, Unplaceable] = {}
    while True:
        inquiry = _Asked(checked, site, name, wrong)
        try:
            for key, axes in inquiry.apart.items():
                for place in inquiry.places(axes):
                    inquiry.demand.check_alone(key, inquiry.scope(axes, place))
            extent = _folded(inquiry.asks(), inquiry)
        except Unplaceable as error:
            if error.key not in wrong and error.key in checked.workflow.stages[name].demand:
                wrong[error.key] = error
                continue
            wrong = wrong or {error.key: error}
        if not wrong:
            return extent
        first, *rest = wrong.values()
        first.rest = tuple(rest)
        raise first


def shared_room_flaws(checked: CheckedWorkflow, site: Site, names: Iterable[str]) -> Iterator[Problem]:
    """Yield stages that share their room with others whose demand only the run shows."""
    for name in names:
        if not checked.workflow.stages[name].demand:
            continue
        for key, template in _Asked(checked, site, name).shown_by_the_run.items():
            if key[0] == "resources":
                message = "others run beside these tasks: what they ask for must be known before the run"
                hint = "read axis parameters that are listed, hp.NAME or task.attempt"
                offset = template.expressions[0].offset
                yield checked.document.problem(("stages", name, *key), message, hint, offset=offset)


def _folded(asks: Iterable[Ask], inquiry: "_Asked") -> Range:
    """Return the range of demands at known points, without the keys that only the run shows."""
    hidden = {key[-1] for key in inquiry.later} | {entry for entry in _MADE if inquiry.hides(*_MADE[entry])}
    demands, cores = list(asks), attrgetter("cores")
    spans: dict[str, tuple[Any, Any]] = {}
    for ask in demands:
        for key, value in {**ask.own, "cores": ask.cores, "gpus": ask.spec.resources.gpus}.items():
            if isinstance(value, int | float) and key not in hidden:
                low, high = spans.get(key, (value, value))
                spans[key] = min(low, value), max(high, value)
    launchers: dict[str, tuple[Words, Words]] = {}
    for program in dict.fromkeys(program for ask in demands for program in ask.launcher[:1]):
        own = [ask for ask in demands if ask.launcher[:1] == (program,)]
        least, most = min(own, key=cores), max(own, key=cores)
        shown = (least.launcher, most.launcher) if "cores" not in hidden else ((program, "…"),) * 2
        launchers[program] = shown[0], shown[1]
    shapes = sorted({ask.shape for ask in demands}, key=lambda shape: (shape.nodes, shape.cores, *shape))
    seconds = [math.inf if ask.seconds is None else ask.seconds for ask in demands]
    longest = max(seconds, default=math.inf)
    bounded = not math.isinf(longest) and not inquiry.hides("walltime", "timeout")
    placed = demands if "cores" not in hidden else []
    spent = [ask.cores * entry for ask, entry in zip(placed, seconds, strict=False)] if bounded else []
    mean = sum(spent) / len(spent) if spent else None
    return Range(
        spans,
        () if inquiry.later else tuple(shapes),
        widest=max(placed, key=cores, default=None),
        seconds=longest if bounded else None,
        core_seconds=mean if inquiry.is_whole else max(spent, default=None),
        partial=bool(inquiry.later) or inquiry.grows or not inquiry.is_whole,
        launchers=launchers,
    )


def _files(checked: CheckedWorkflow, stage: Stage) -> Iterator[tuple[str, Any]]:
    paths = {label: path for label, path in stage.files.items() if isinstance(path, str)}
    if paths:
        from diel.store.artifacts import File  # here: the import is slow, and few stages have files

        for label, path in paths.items():
            if (file := checked.document.path.parent / path).exists():
                yield label, File(str(file))


def _points_of(checked: CheckedWorkflow, label: str) -> Points | None:
    """Return an axis's points, of a design a few. Raise DielError where the package that draws is missing."""
    axis = checked.workflow.axes[label]
    if label in checked.points or not isinstance(axis, Sample) or axis.points > DRAWN:
        return checked.points.get(label)
    return axis.points_of(label, checked.workflow.hyperparameters, checked.document.path.parent)


class _Asked(KnownValues):
    """The points of a stage's axes, as far as they are known, for its demand."""

    def __init__(self, checked: CheckedWorkflow, site: Site, name: str, wrong: Collection[Key] = ()) -> None:
        """Leave out the keys `wrong`, as if only the run showed them."""
        self.stage = checked.workflow.stages[name]
        over = ((label, _points_of(checked, label)) for label in self.stage.over)
        later = checked.graph.handed_to(name)
        later |= {item for label in self.stage.over for item in checked.workflow.axes[label].sets}
        values = checked.hyperparameters.plain()
        super().__init__(
            {label: points for label, points in over if points is not None},
            {label: value for label, value in values.items() if label not in later},
        )
        self._files = dict(_files(checked, self.stage))
        demand = {key: parse(text) for key, text in self.stage.demand.items()}
        self.shown_by_the_run = {key: item for key, item in demand.items() if self.axes_of(item) is None}
        self.later = {*self.shown_by_the_run, *wrong}
        if self.hides(*TOGETHER):
            self.later |= {key for key in demand if key[-1] in TOGETHER}
        reads = {key: self.axes_of(demand[key]) for key in self.later}
        self.apart = {key: axes for key, axes in reads.items() if axes is not None and key not in wrong}
        """The axes of what is known, but must agree with what is not."""
        self.demand = Demand(checked.document, site, name, words_of, self.later)
        self.templates = {**self.demand.templates}
        if isinstance(self.stage.when, str):
            when = parse_expression(self.stage.when)
            self.templates |= {_WHEN: when} if self.axes_of(when) is not None else {}
        self._reads_files = any(
            read[0] in ("files", "params") for item in self.templates.values() for read in item.references
        )

    def hides(self, *names: str) -> bool:
        """Return whether only the run shows one of these keys."""
        return any(key[-1] in names for key in self.later)

    @property
    def grows(self) -> bool:
        """Whether later attempts can ask for something else."""
        return any(("task", "attempt") in template.references for template in self.templates.values())

    def axes_of(self, *templates: Template) -> Axes | None:
        """Return the axes that templates read, all for the index; None if they read what only a run shows."""
        reads = {*self._names(reference for template in templates for reference in template.references)}
        every = len(self.points) == len(self.stage.over) and self.stage.replicas == 1
        numbered = every and ("task", "index") in reads  # by points that are all known
        whole = ((label,) for label in self.points) if numbered else ()
        reads -= {("task", "attempt"), ("task", "stage"), *([("task", "index")] if numbered else [])}
        return self.axes((*reads, *whole))

    def _names(self, references: Iterable[Chain]) -> Iterator[Chain]:
        """Yield the names that are read, without existing files; for `params` the names that those read."""
        for read in references:
            if read[0] == "files" and read[1:] and read[1] in self._files:
                continue
            if read[0] == "params" and read[1:] and read[1] in self.stage.params:
                yield from parse_tree(self.stage.params[read[1]]).references
            else:
                yield read

    def scope(self, axes: Axes, place: Place) -> dict[str, Any]:
        task: dict[str, Any] = {"attempt": 1, "stage": self.demand.name}
        scope = super().scope(axes, place) | {"task": task}
        if len(axes) == len(self.stage.over):
            task["index"] = 0
            for label, point in zip(axes, place, strict=True):
                task["index"] = task["index"] * len(self.points[label]) + point
        if self._reads_files:
            scope["params"] = Lazily(
                {n: partial(parse_tree(v).value, scope) for n, v in self.stage.params.items()}
            )
            scope["files"] = self._files
        return scope

    @cached_property
    def _axes(self) -> Axes:
        """The axes that the expressions read, with the parameters, in the order of the stage's."""
        return self.axes_of(*self.templates.values()) or {}

    @property
    def is_whole(self) -> bool:
        """Whether all points are looked at."""
        return prod(len(self.points[label]) for label in self._axes) <= PLACED

    def asks(self) -> Iterator[Ask]:
        """Yield the demands at the points to look at. Raise Misfit for the first that is wrong."""
        places = self.places(self._axes) if self.stage.when is not False else ()
        when = self.templates.get(_WHEN)
        every = (self.scope(self._axes, place) for place in places)
        scopes = (scope for scope in every if when is None or when.value(scope))
        yield from map(self.demand.of, islice(scopes, PLACED))
        yield from map(self.demand.of, self._telling(scopes))

    def _telling(self, scopes: Iterable[Scope]) -> Iterator[Scope]:
        """Yield a scope for each combination of values, and those with the least and most of an amount."""
        combinations = set()
        least: dict[Key, tuple[Quantity, Scope]] = {}
        most: dict[Key, tuple[Quantity, Scope]] = {}
        for scope in scopes:
            values = self.demand.values(scope)
            quantities = {key: value for key, value in values.items() if isinstance(value, Quantity)}
            amounts = {key: value for key, value in quantities.items() if not math.isnan(value.number)}
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
