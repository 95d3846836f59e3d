"""Checks of demands: what the tasks at each known point ask for is valid, and fits a pool of the site.

Each expression is evaluated at the points of the axes that it reads, and no others. Where these are many, it
is compiled, and of sizes and durations the least and the most are placed in a pool: what fits with the most
fits with less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.artifacts import File
from diel.check.launcher import words_of
from diel.expressions import ExpressionError, Template, parse_expression, parse_tree
from diel.expressions.compiled import Compiled, compiled
from diel.site import Ask, Misfit, Shape, Site
from diel.site.demand import Demand, plain_value
from diel.spec.demand import Place

if TYPE_CHECKING:
    from diel.check.workflow import Checked

FEW = 2_000
"""Points up to which the demand of each is worked out as its task will do it."""
LOOKED_AT = 1_000_000
"""The most points to look at for the one that is wrong."""
CHUNK = 20_000
MOST_ASKS = 10_000
"""The most different demands to place; others are placed when their tasks could begin."""
_SHADES = ("memory", "walltime", "timeout", "backoff")
"""Keys of which less fits where more does."""
_WHEN: Place = ("when",)

Axes = Mapping[str, tuple[str, ...]]
"""Parameters that are read, by axis; `task` stands for the index."""
Row = tuple[Any, ...]


class Range(NamedTuple):
    """What the tasks of a stage ask for, as far as it is known before the run."""

    spans: Mapping[str, tuple[Any, Any]]
    """The least and the most by key."""
    shapes: tuple[Shape, ...]
    """Those with the fewest nodes and cores first."""
    widest: Ask | None
    """That with the most cores; None if only the run shows any."""
    seconds: float | None
    """The longest that a task may run; None without a bound."""
    core_seconds: float | None
    """Of a task: the mean, or of many points the most; None without a bound."""
    partial: bool
    """Whether the run will show others."""


def range_of(checked: Checked, site: Site, name: str) -> Range:
    """What the tasks of a stage ask for at all known points. Raises Misfit for the first that is wrong."""
    known = _Known(checked, site, name)
    templates = known.demand.templates
    later = [key for key, template in templates.items() if known.axes_of(template) is None]
    if not later:
        return _folded(known.asks(), few=known.few, partial=known.grows)
    for key in templates:
        if key not in later:
            axes = known.axes_of(templates[key]) or {}
            for row in islice(known.rows(axes), MOST_ASKS):
                known.demand.check_alone(key, known.scope(axes, row))
    return _folded([], few=True, partial=True)


def _folded(asks: Iterable[Ask], *, few: bool, partial: bool) -> Range:
    spans: dict[str, tuple[Any, Any]] = {}
    shapes: dict[Shape, None] = {}
    widest: Ask | None = None
    longest, spent, most, count = 0.0, 0.0, 0.0, 0
    for ask in asks:
        count += 1
        for key, value in ask.own.items():
            if isinstance(value, int | float):
                low, high = spans.get(key, (value, value))
                spans[key] = min(low, value), max(high, value)
        shapes[ask.shape] = None
        widest = ask if widest is None or ask.cores > widest.cores else widest
        seconds = math.inf if ask.seconds is None else ask.seconds
        longest, spent, most = (
            max(longest, seconds),
            spent + ask.cores * seconds,
            max(most, ask.cores * seconds),
        )
    shapes = dict.fromkeys(sorted(shapes, key=lambda shape: (shape.nodes, shape.cores, *shape)))
    if not count or math.isinf(longest):
        return Range(spans, tuple(shapes), widest, None, None, partial)
    return Range(spans, tuple(shapes), widest, longest, spent / count if few else most, partial)


class _Known:
    """The points of a stage's axes, as far as they are known, for its demand."""

    def __init__(self, checked: Checked, site: Site, name: str) -> None:
        self.demand = Demand(checked.document, site, name, words_of)
        self.stage = checked.workflow.stages[name]
        self._points = {label: checked.points[label] for label in self.stage.over if label in checked.points}
        self._owners = {one: label for label, points in self._points.items() for one in points.parameters}
        folder = checked.document.path.parent
        paths = {label: folder / path for label, path in self.stage.files.items() if isinstance(path, str)}
        self._files = {label: File(path) for label, path in paths.items() if path.exists()}
        later = checked.graph.handed_to(name)
        later |= {one for label in self.stage.over for one in checked.workflow.axes[label].sets}
        given = checked.hyperparameters.plain()
        self._hp = {label: value for label, value in given.items() if label not in later}
        self.templates = {**self.demand.templates}
        if isinstance(self.stage.when, str):
            when = parse_expression(self.stage.when)
            self.templates |= {_WHEN: when} if self.axes_of(when) is not None else {}
        self._reads_files = any(
            chain[0] in ("files", "params") for one in self.templates.values() for chain in one.references
        )

    @property
    def grows(self) -> bool:
        """Whether later attempts can ask for something else."""
        return any(("task", "attempt") in template.references for template in self.templates.values())

    def axes_of(self, template: Template) -> dict[str, tuple[str, ...]] | None:
        """The axes that a template reads, with the parameters; None if it reads what only a run shows."""
        found: dict[str, set[str]] = {}
        for chain in self._chains(template.references):
            label = self._owners.get(chain[0], chain[0])
            if label in self._points:
                known = self._points[label].parameters
                own = chain[0] if chain[0] in known else chain[1] if len(chain) > 1 else ""
                found.setdefault(label, set()).update({own} & {*known} or known)
            elif chain[:2] == ("task", "index") and len(self._points) == len(self.stage.over):
                found["task"] = {"index"}
                for label, points in self._points.items():  # all, so that tasks are numbered
                    found[label] = {*points.parameters}
            elif chain[:2] not in (("task", "attempt"), ("task", "stage")) and (
                chain[0] != "hp" or len(chain) < 2 or chain[1] not in self._hp
            ):
                return None
        order = sorted(found, key=lambda label: label != "task" and 1 + self.stage.over.index(label))
        return {label: tuple(sorted(found[label])) for label in order}

    def _chains(self, references: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        """The names that are read, but those of files that are there; for `params` what these read."""
        for chain in references:
            if chain[0] == "files" and chain[1:] and chain[1] in self._files:
                continue
            if chain[0] == "params" and chain[1:] and chain[1] in self.stage.params:
                yield from parse_tree(self.stage.params[chain[1]]).references
            else:
                yield chain

    def count(self, axes: Axes) -> int:
        return prod(len(self._points[label]) for label in axes if label != "task")

    def rows(self, axes: Axes) -> Iterator[Row]:
        """The values of the parameters that are read, at each combination of points."""
        columns = [self._rows_of(label, names) for label, names in axes.items() if label != "task"]
        if len(columns) == 1 and "task" not in axes:
            yield from columns[0]
            return
        for index, parts in enumerate(product(*columns)):
            row = tuple(value for part in parts for value in part)
            yield (index, *row) if "task" in axes else row

    def _rows_of(self, label: str, names: tuple[str, ...]) -> Iterator[Row]:
        points = self._points[label]
        return zip(*(points.columns[points.parameters.index(name)] for name in names), strict=True)

    def are_numbers(self, axes: Axes) -> bool:
        """Whether all that is read at the points are plain numbers."""
        for label, names in axes.items():
            columns = (
                []
                if label == "task"
                else [
                    self._points[label].columns[self._points[label].parameters.index(name)] for name in names
                ]
            )
            if not all(
                isinstance(column, range) or {*map(type, column)} <= {int, float} for column in columns
            ):
                return False
        return True

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
        except (Misfit, ExpressionError, ArithmeticError, TypeError, ValueError) as error:
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
        found = [_different(self, keys, axes) for keys, axes in self._parts]
        every = ((one,) for one in found[0]) if len(found) == 1 else product(*found)
        for combination in islice(every, MOST_ASKS):
            flat = [value for values in combination for value in values]
            yield self.demand.ask([flat[place] for place in places])


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


def _different(known: _Known, keys: Sequence[Place], axes: Axes) -> Iterator[Row]:
    """The different values of some expressions, as a file would write them; of shades the least and the most.

    Chunk by chunk, so that what is wrong at the first points is found soon.
    """
    functions = {key: _function(known, key, axes) for key in keys}
    wanted = functions.pop(_WHEN, None)
    shades = [key for key, made in functions.items() if key[-1] in _SHADES and made.unit is not None]
    others = [key for key in functions if key not in shades]
    bounds: dict[Row, tuple[Row, Row]] = {}
    rows = known.rows(axes)

    def written(kind: Row, corner: Row) -> Row:
        given = dict(zip([*others, *shades], [*kind, *corner], strict=True))
        return tuple(plain_value(key, made.whole(given[key])) for key, made in functions.items())

    while chunk := list(islice(rows, CHUNK)):
        chunk = chunk if wanted is None else [row for row in chunk if wanted.function(*row)]
        columns = {key: [made.function(*row) for row in chunk] for key, made in functions.items()}
        kinds = list(zip(*(columns[key] for key in others), strict=True)) if others else [()] * len(chunk)
        for kind, alike in _grouped(kinds).items():
            parts = [
                columns[key] if len(alike) == len(chunk) else [columns[key][i] for i in alike]
                for key in shades
            ]
            least, most = tuple(map(min, parts)), tuple(map(max, parts))
            if kind not in bounds:
                yield written(kind, least)
            low, high = bounds.get(kind, (least, most))
            bounds[kind] = tuple(map(min, low, least)), tuple(map(max, high, most))
    for kind, corners in bounds.items() if shades else ():
        yield from (written(kind, corner) for corner in corners)


def _grouped(kinds: Sequence[Row]) -> dict[Row, Sequence[int]]:
    """The places of each kind."""
    if len({*kinds}) == 1:
        return {kinds[0]: range(len(kinds))}
    found: dict[Row, list[int]] = {}
    for place, kind in enumerate(kinds):
        found.setdefault(kind, []).append(place)
    return {**found}


def _function(known: _Known, key: Place, axes: Axes) -> Compiled:
    template = known.templates[key]
    names = [name for names in axes.values() for name in names]
    if known.are_numbers(axes) and "task" not in axes:
        made = compiled(template, names, known.scope({}, ()))
        if made is not None:
            return made
    return Compiled(lambda *row: template.value(known.scope(axes, row)), None)
