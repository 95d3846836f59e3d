"""The state of a check: problems, modules, the points of axes; and what expressions can read before a run."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product
from math import gcd, prod
from pathlib import Path
from typing import Any

from diel.base.errors import MAX_PROBLEMS, DielError, Problem, SpecError, first_problems
from diel.workflow.expressions.syntax import Chain
from diel.workflow.graph import Key, StageGraph
from diel.workflow.graph.build import strange_word
from diel.workflow.load import Document
from diel.workflow.models import MAX_POINTS, Axis, Workflow
from diel.workflow.models.forms.axis import Points, clashes
from diel.workflow.modules.catalogue import Module

_SEARCHED = 100_000
"""The most points to compare with a picked one here; longer axes are searched when they run."""
MOST = 100_000
"""The most different values of an axis to look at."""
_ROWS = 1_000_000
Counts = Mapping[str, int | None]
"""Points by axis; None if only a run will show them."""
Axes = Mapping[str, tuple[str, ...]]
"""Parameters that are read, by axis."""
Place = tuple[int, ...]
"""The number of a point of each of these axes."""
_MOST_STEPS = 20_000
"""Places up to which all are looked at; of more, as many and the corners."""
_GOLDEN = (5**0.5 - 1) / 2


@dataclass
class Check:
    """A document under examination."""

    document: Document
    folder: Path
    graph: StageGraph
    problems: list[Problem]
    kept: Callable[[str], Points | None] = lambda _: None
    """The points of an axis with a file that a run began with."""
    modules: dict[str, Module] = field(default_factory=dict)
    """Modules by stage; stages whose module was not found have none."""
    points: dict[str, Points] = field(default_factory=dict)
    """Listed and computed axes and files, by name; samples and derived axes are not drawn."""

    @property
    def workflow(self) -> Workflow:
        return self.document.spec

    @cached_property
    def stages(self) -> dict[str, tuple[str, ...] | None]:
        """The names of all stages, as names that allow any key after a dot."""
        return dict.fromkeys(self.workflow.stages)

    def lacks_module(self, stage: str) -> bool:
        """Return whether a stage's module was not found; another message says so."""
        return self.workflow.stages[stage].module is not None and stage not in self.modules

    def searched(self, stage: str) -> set[str]:
        """Return the hyperparameters that the searches of a stage set."""
        axes = self.workflow.axes
        return {
            name for label in self.workflow.stages[stage].over if label in axes for name in axes[label].sets
        }

    def set_later(self, stage: str) -> set[str]:
        """Return the hyperparameters of a stage that get their values during the run."""
        return {*self.graph.handed_to(stage), *self.searched(stage)}

    def add(self, key: Key, message: str, hint: str = "", offset: int | None = None) -> None:
        """Add a problem at a key, or inside its text. Raise SpecError once more are there than are shown."""
        self.problems.append(self.document.problem(key, message, hint, offset=offset))
        self.stop_at(MAX_PROBLEMS)

    def is_wrong(self, key: Key) -> bool:
        """Return whether there is a problem at a key or below it."""
        here = self.document.problem(key, "")
        return any(
            problem.file == here.file and (problem.key == here.key or problem.key.startswith(f"{here.key}."))
            for problem in self.problems
        )

    def stop_at(self, most: int) -> None:
        """Raise SpecError if there are more than `most` problems, with the first of each place."""
        if len(self.problems) > most:
            places = {problem[:3]: problem for problem in reversed(self.problems)}
            raise SpecError(first_problems(places.values()))


def check_axes(check: Check) -> dict[str, int | None]:
    """Check axes; return the points of each: None for derived ones, the most for loops and searches."""
    workflow = check.workflow
    counts = {label: _count(check, label, axis) for label, axis in workflow.axes.items()}
    for name, stage in workflow.stages.items():
        points = {label: check.points[label].parameters for label in stage.over if label in check.points}
        for label, message in clashes(points, workflow.stages):
            key: Key = ("stages", name, "over", stage.over.index(label))
            if not check.is_wrong(key) and not check.is_wrong(("axes", label)):
                check.add(key, message, "rename one of them; `columns` names those of a file to use")
        tasks = prod(counts.get(label) or 1 for label in stage.over)
        if tasks > MAX_POINTS:
            check.add(("stages", name, "over"), f"{tasks:,} tasks; expected at most {MAX_POINTS:,} a stage")
    for edge in check.graph.edges:
        for label, point in edge.picked.items():
            if label not in check.points:
                continue
            listed, strange = check.points[label], strange_word(label, workflow.axes[label], point)
            places = listed.find(point) if len(listed) <= _SEARCHED else [] if strange else [0]
            if len(places) != 1:
                many = f"{len(places)} points that are" if places else "no point"
                hint = f"{strange and f'{strange}; '}{_points_hint(listed, point, places)}"
                check.add((*edge.key, "at", label), f"axis '{label}' has {many} {point!r}", hint)
    return counts


def _count(check: Check, label: str, axis: Axis) -> int | None:
    try:
        points = check.kept(label) if axis.word == "file" else None
        points = points or axis.listed(label, check.folder)
    except DielError as error:
        check.add(("axes", label, axis.word), str(error).removeprefix(f"axis '{label}': "))
        return None
    count = axis.size(check.workflow.hyperparameters)
    if points is None:
        return count
    check.points[label] = points
    count = len(points) if count is None else count
    if count == 0:
        check.add(("axes", label), "no points", "a stage over an empty axis would have no tasks")
    return count


def _points_hint(points: Points, point: object, places: Sequence[int]) -> str:
    chosen = places or range(len(points))
    rows = [dict(zip(points.parameters, points.values(place), strict=True)) for place in chosen[:5]]
    values = ", ".join(
        json.dumps(row if len(row) > 1 else next(iter(row.values())), ensure_ascii=False) for row in rows
    )
    if places and any(len(points.find(row)) > 1 for row in rows):
        return f"nothing tells {values} apart: leave `at` out, which gathers them, or list the point once"
    hint = f"{'choose one of' if places else 'its points:'} {values}{', …' if len(chosen) > 5 else ''}"
    return f"its parameters: {', '.join(points.parameters)}; {hint}" if isinstance(point, dict) else hint


class KnownValues:
    """The known points of axes, of searches under `hp.NAME`, and the values of hyperparameters."""

    def __init__(self, points: Mapping[str, Points], hyperparameters: Mapping[str, Any]) -> None:
        self.points, self.hyperparameters = points, hyperparameters
        self._owners = {name: label for label, own in points.items() for name in own.parameters}

    @classmethod
    def of(cls, check: Check, name: str, values: Mapping[str, Any]) -> "KnownValues":
        """Return the known values of a stage; `values` are those of all hyperparameters."""
        over, later = check.workflow.stages[name].over, check.set_later(name)
        points = {label: check.points[label] for label in over if label in check.points}
        return cls(points, {label: value for label, value in values.items() if label not in later})

    def axes(self, references: Iterable[Chain]) -> Axes | None:
        """Return the axes that are read, with the parameters; None if only the run shows what is read."""
        columns: dict[str, set[str]] = {}
        for first, second in ((*read, "")[:2] for read in references):
            label = f"hp.{second}" if first == "hp" else self._owners.get(first, first)
            if label in self.points:
                names = self.points[label].parameters
                own = first if first in names else second
                columns.setdefault(label, set()).update({own} & {*names} or names)
            elif first != "hp" or second not in self.hyperparameters:
                return None
        return {label: tuple(sorted(columns[label])) for label in self.points if label in columns}

    def places(self, axes: Axes) -> Iterator[Place]:
        """Yield the places to look at: all, or of many the corners and others evenly spread."""
        return spread([len(self.points[label]) for label in axes])

    def unlike(self, axes: Axes) -> Iterator[Place]:
        """Yield a place for each combination of different values that are read."""
        return product(*(list(self.different(label, names)) for label, names in axes.items()))

    def different(self, label: str, names: Iterable[str]) -> Iterator[int]:
        """Yield the first point of an axis with each combination of values of some parameters."""
        columns = [self._column(label, name) for name in names]
        marks: set[str] = set()
        for index in range(min(len(self.points[label]), _ROWS)):
            if (mark := repr([column[index] for column in columns])) not in marks:
                marks.add(mark)
                yield index
                if len(marks) == MOST:
                    return

    def scope(self, axes: Axes, place: Place) -> dict[str, Any]:
        """Return the scope of an expression at a place."""
        scope: dict[str, Any] = {"hp": self.hyperparameters}
        for (label, names), index in zip(axes.items(), place, strict=True):
            own = {name: self._column(label, name)[index] for name in names}
            if label.startswith("hp."):
                scope["hp"] = {**scope["hp"], label.removeprefix("hp."): own[label]}
            scope |= {label: own, **own}
        return scope

    def _column(self, label: str, name: str) -> Sequence[Any]:
        points = self.points[label]
        return points.columns[points.parameters.index(name)]


def spread(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield places of a product of `sizes`: all, or its corners and `_MOST_STEPS` evenly spread, some perhaps
    twice; their stride shares no divisor with the product's size, so that each axis is covered."""
    total = prod(sizes)
    if total <= _MOST_STEPS:
        yield from product(*map(range, sizes))
        return
    yield from islice(product(*(sorted({0, size - 1}) for size in sizes)), _MOST_STEPS)
    step = round(total * _GOLDEN)
    while gcd(step, total) > 1:
        step += 1
    for number in range(_MOST_STEPS):
        yield _place(number * step % total, sizes)


def _place(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    place = []
    for size in reversed(sizes):
        number, point = divmod(number, size)
        place.append(point)
    return tuple(reversed(place))
