"""Checks of demands: what the tasks at each known point ask for is valid, and fits a pool of the site.

Each expression is evaluated at the points of the axes that it reads, and no others. Where these are many, it
is compiled, and of sizes and durations the least and the most are placed in a pool: what fits with the most
fits with less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, compress, islice, product
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.check.launcher import words_of
from diel.errors import HintedError, Problem
from diel.expressions import Template, parse, parse_expression, parse_tree
from diel.expressions.compiled import Compiled, compiled
from diel.site import Ask, Misfit, Shape, Site
from diel.site.demand import Demand, plain_value
from diel.spec.demand import TOGETHER, Place
from diel.spec.forms.axis import Points
from diel.spec.forms.sample import Sample
from diel.values import format_size

if TYPE_CHECKING:
    from diel.check.workflow import Checked
    from diel.spec import Stage

FEW = 2_000
"""Points up to which the demand of each is worked out as its task will do it."""
LOOKED_AT = 1_000_000
"""The most points to look at for the one that is wrong."""
DRAWN = 20_000
"""The most points of a design that are drawn to look at them."""
CHUNK = 20_000
SOME = 8
"""Values to tell apart one after the other, which is quicker for so few."""
MOST_ASKS = 10_000
"""The most different demands to place; others are placed when their tasks could begin."""
_SHADES = ("memory", "walltime", "timeout", "backoff")
"""Keys of which less fits where more does."""
_WHEN: Place = ("when",)
_MADE = {
    "cores": (*TOGETHER, "cores_per_rank"),
    "gpus": (*TOGETHER, "gpus_per_rank"),
}
"""What follows from some keys."""

Axes = Mapping[str, tuple[str, ...]]
"""Parameters that are read, by axis; `task` stands for the index."""
Row = tuple[Any, ...]
Chosen = Callable[[Sequence[Any]], Iterator[Any]]


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
                for row in islice(known.rows(axes), MOST_ASKS):
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
    some = Range(spans, shown, narrowest, widest, None, None, bool(known.later) or known.grows, words)
    if "cores" in hidden:
        unknown = {program: ((program, "…"), (program, "…")) for program in words}
        some = some._replace(narrowest=None, widest=None, launchers=unknown)
    if not count or math.isinf(longest) or known.hides("walltime", "timeout"):
        return some
    each = spent / count if known.few else most
    return some._replace(seconds=longest, core_seconds=None if "cores" in hidden else each)


def _files(checked: Checked, stage: Stage) -> Iterator[tuple[str, Any]]:
    paths = {label: path for label, path in stage.files.items() if isinstance(path, str)}
    if paths:
        from diel.artifacts import File  # here: it takes a while, and few stages have files

        for label, path in paths.items():
            if (found := checked.document.path.parent / path).exists():
                yield label, File(found)


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

    def count(self, axes: Axes) -> int:
        return prod(len(self._points[label]) for label in axes if label != "task")

    def rows(self, axes: Axes) -> Iterator[Row]:
        """The values of the parameters that are read, at each combination of points."""
        points = {label: names for label, names in axes.items() if label != "task"}
        if len(points) == 1:
            found = next(self._rows_of(label, names) for label, names in points.items())
        elif all(len(names) == 1 for names in points.values()):
            found = product(*(self._column(label, name) for label, (name,) in points.items()))
        else:
            parts = product(*(self._rows_of(label, names) for label, names in points.items()))
            found = (tuple(chain.from_iterable(row)) for row in parts)
        return ((index, *row) for index, row in enumerate(found)) if "task" in axes else found

    def _rows_of(self, label: str, names: tuple[str, ...]) -> Iterator[Row]:
        return zip(*(self._column(label, name) for name in names), strict=True)

    def _column(self, label: str, name: str) -> Sequence[Any]:
        points = self._points[label]
        return points.columns[points.parameters.index(name)]

    def are_numbers(self, axes: Axes) -> bool:
        """Whether all that is read at the points are plain numbers."""
        columns = [self._column(label, name) for label, name in _read(axes) if label != "task"]
        return all(isinstance(one, range) or {*map(type, one)} <= {int, float} for one in columns)

    def scope(self, axes: Axes, row: Row) -> dict[str, Any]:
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
    def _parts(self) -> list[tuple[list[Place], dict[str, tuple[str, ...]]]]:
        """The expressions in parts that read no axis in common, with the axes."""
        parts: list[tuple[list[Place], dict[str, tuple[str, ...]]]] = []
        for key, template in self.templates.items():
            keys, axes = [key], dict(self.axes_of(template) or {})
            for other in [part for part in parts if part[1].keys() & axes.keys()]:
                parts.remove(other)
                keys = [*other[0], *keys]
                axes = {
                    label: tuple(sorted({*axes.get(label, ()), *other[1].get(label, ())}))
                    for label in ("task", *self.stage.over)
                    if label in axes or label in other[1]
                }
            parts.append((keys, axes))
        return parts

    @property
    def few(self) -> bool:
        """Whether the demand is worked out at each point."""
        return prod(self.count(axes) for _, axes in self._parts) <= FEW

    def asks(self) -> Iterator[Ask]:
        """The demands at all points. Raises Misfit for the first that is wrong."""
        if self.stage.when is False:
            return
        if self.few:
            yield from self._each()
            return
        try:
            yield from list(self._placed())
        except (HintedError, ArithmeticError, TypeError, ValueError) as error:
            if isinstance(error, Misfit) and error.place:
                raise
            # At which point? Or is none as bad as the extremes together?
            yield from islice(self._each(), LOOKED_AT)
            if prod(self.count(axes) for _, axes in self._parts) > LOOKED_AT:
                raise error if isinstance(error, Misfit) else self._unclear(error) from None

    def _unclear(self, error: Exception) -> Misfit:
        return Misfit(f"at some point: {error}", "", next(iter(self.demand.templates)))

    def _each(self) -> Iterator[Ask]:
        axes = {label: names for _, part in self._parts for label, names in part.items()}
        when = self.templates.get(_WHEN)
        for row in self.rows(axes):
            scope = self.scope(axes, row)
            if when is None or when.value(scope):
                yield self.demand.of(scope)

    def _placed(self) -> Iterator[Ask]:
        order = [key for keys, _ in self._parts for key in keys if key != _WHEN]
        places = [order.index(key) for key in self.demand.templates]
        axes = {label: names for _, part in self._parts for label, names in part.items()}
        found = [_different(self, keys, own) for keys, own in self._parts]
        every = ((one,) for one in found[0]) if len(found) == 1 else product(*found)
        for combination in islice(every, MOST_ASKS):
            flat = [value for values, _ in combination for value in values]
            try:
                yield self.demand.ask([flat[place] for place in places])
            except Misfit:
                self.demand.of(self.scope(axes, tuple(value for _, row in combination for value in row)))
                raise  # that point is not as bad as the extremes together


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


# --- many points ----------------------------------------------------------------------------------


def _different(known: _Known, keys: Sequence[Place], axes: Axes) -> Iterator[tuple[Row, Row]]:
    """The different values of some expressions, as a file would write them, each with a point that has them.

    Of shades the least and the most, which can be those of several points. Chunk by chunk, so that what is
    wrong at the first points is found soon.
    """
    functions = {key: _function(known, key, axes) for key in keys}
    wanted = functions.pop(_WHEN, None)
    shades = [key for key, made in functions.items() if key[-1] in _SHADES and made.unit is not None]
    others = [key for key in functions if key not in shades]
    found: dict[Row, list[tuple[Row, Row]]] = {}

    def written(kind: Row, corner: Row) -> Row:
        given = dict(zip([*others, *shades], [*kind, *corner], strict=True))
        return tuple(plain_value(key, made.whole(given[key])) for key, made in functions.items())

    rows = known.rows(axes)
    while chunk := list(islice(rows, CHUNK)):
        if wanted is not None and not (chunk := list(compress(chunk, wanted.function(chunk)))):
            continue
        columns = {key: made.function(chunk) for key, made in functions.items()}
        kinds = list(zip(*(columns[key] for key in others), strict=True)) or [()] * len(chunk)
        for kind, chosen in _grouped(kinds).items():
            corners = _corners([columns[key] for key in shades], chosen, chunk)
            if kind not in found:
                yield written(kind, corners[0][0]), corners[0][1]
            before = found.setdefault(kind, corners)
            found[kind] = [_further(*both) for both in zip((min, max), before, corners, strict=True)]
    for kind, corners in found.items() if shades else ():
        yield from ((written(kind, corner), row) for corner, row in corners)


def _grouped(kinds: Sequence[Row]) -> Mapping[Row, Chosen]:
    """By kind, what chooses its values of a column."""
    different = {*kinds}
    if len(different) == 1:
        return {kinds[0]: iter}
    if len(different) <= SOME:
        numbers = {one: number for number, one in enumerate(different)}
        numbered = bytes(map(numbers.__getitem__, kinds))
        marks = {one: bytes(each == number for each in range(256)) for one, number in numbers.items()}
        return {one: partial(_selected, numbered.translate(mark)) for one, mark in marks.items()}
    found: dict[Row, list[int]] = {}
    for place, kind in enumerate(kinds):
        found.setdefault(kind, []).append(place)
    return {kind: partial(_looked_up, places) for kind, places in found.items()}


def _selected(selectors: bytes, column: Sequence[Any]) -> Iterator[Any]:
    return compress(column, selectors)


def _looked_up(places: Sequence[int], column: Sequence[Any]) -> Iterator[Any]:
    return map(column.__getitem__, places)


def _corners(columns: Sequence[Sequence[Any]], chosen: Chosen, rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """The least and the most of chosen values of each column, each with a row that has that of the first."""
    parts = [[*chosen(column)] for column in columns]
    if any(math.isnan(sum(part)) for part in parts):  # which compares with nothing
        raise ValueError("a size or duration is no number")
    corners = [tuple(map(pick, parts)) for pick in (min, max)]
    places = [parts[0].index(corner[0]) if parts else 0 for corner in corners]
    return [
        (corner, next(islice(chosen(rows), at, None))) for corner, at in zip(corners, places, strict=True)
    ]


def _further(pick: Callable[..., Any], before: tuple[Row, Row], now: tuple[Row, Row]) -> tuple[Row, Row]:
    corner = tuple(map(pick, before[0], now[0]))
    return corner, before[1] if corner == before[0] else now[1]


def _function(known: _Known, key: Place, axes: Axes) -> Compiled:
    template = known.templates[key]
    if known.are_numbers(axes):
        named = {(label, name): f"x{at}" for at, (label, name) in enumerate(_read(axes))}
        made = compiled(
            template,
            named | {(one,): x for (label, one), x in named.items() if label != "task"},
            known.scope({}, ()),
        )
        if made is not None:
            return made
    return Compiled(lambda rows: [template.value(known.scope(axes, row)) for row in rows], None)


def _read(axes: Axes) -> Iterator[tuple[str, str]]:
    return ((label, name) for label, names in axes.items() for name in names)
