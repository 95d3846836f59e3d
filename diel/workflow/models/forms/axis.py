"""An axis: an ordered sequence of points, each giving one or more parameters a value."""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from diel.base.errors import counted
from diel.base.files import replacing
from diel.workflow.models.hyperparameter import Hyperparameter
from diel.workflow.models.model import Violation


@dataclass(frozen=True)
class Points:
    """An ordered sequence of points: a column for each parameter, all of the same length."""

    parameters: tuple[str, ...]
    columns: tuple[Sequence[Any], ...]
    lost: Mapping[str, tuple[str, Any]] = field(default_factory=dict, compare=False)
    """Parameters of which a number is not written as in its file: as 1.1 for `1.10`."""
    cells: bool = field(default=False, compare=False)
    """Whether a file had them as texts, so that their types were inferred."""

    @classmethod
    def of_rows(cls, parameters: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> "Points":
        """Make points of rows: each row has the values of one point."""
        return cls(parameters, tuple([row[place] for row in rows] for place in range(len(parameters))))

    @classmethod
    def counted(cls, label: str, size: int) -> "Points":
        """Make points that are numbers from 0 on: of a search or a loop, and replicas."""
        return cls((bare(label),), (range(size),))

    def __len__(self) -> int:
        return len(self.columns[0])

    def values(self, index: int) -> tuple[Any, ...]:
        """Return the values of a point, in the order of `parameters`."""
        return tuple(column[index] for column in self.columns)

    def find(self, point: Any) -> list[int]:
        """Return the indices of the points with this value: a value, or a mapping of parameters."""
        single = len(self.parameters) == 1
        if not isinstance(point, Mapping) or (single and self.parameters[0] not in point):
            point = {self.parameters[0]: point} if single else None
        if point is None or not set(point) <= set(self.parameters):
            return []
        places = [self.places(name, value) for name, value in point.items()]
        matches = sorted(set(places[0]).intersection(*places[1:])) if places else [*range(len(self))]
        columns = [(self.columns[self.parameters.index(name)], value) for name, value in point.items()]
        return [n for n in matches if all(alike(column[n], value) for column, value in columns)] or matches

    def places(self, name: str, value: Any) -> list[int]:
        """Return the indices of the points with a parameter's value; floats agree to nine digits."""
        column = self.columns[self.parameters.index(name)]
        return [index for index in near(column, value) if same(column[index], value)]


def near(column: Sequence[Any], value: Any) -> Sequence[int]:
    """Return possible indices of a value: computed for evenly spaced numbers, else looked for."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if isinstance(column, range) and number:
        place = (value - column.start) / column.step
    elif hasattr(column, "place_of"):
        place = column.place_of(value) if number else math.inf
    else:
        return [index for index, item in enumerate(column) if _is(item, value)] or range(len(column))
    middle = int(min(max(place, 0), len(column) - 1))
    return range(max(middle - 1, 0), min(middle + 3, len(column)))


def bare(label: str) -> str:
    """Return the parameter of an axis that names none: its label, without the prefix of an include."""
    return label.rpartition(".")[2]


def clashes(brought: Mapping[str, Sequence[str]], stages: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each axis with a parameter of a taken name, and a message; `brought` has parameters by axis."""
    owners: dict[str, str] = {}
    for label, names in brought.items():
        for name in names if tuple(names) == (bare(label),) else (*names, label):
            if name in stages and name != label:
                yield label, f"axis '{label}' gives a parameter '{name}', and '{name}' is a stage"
            elif owners.setdefault(name, label) != label:
                yield label, f"axes '{owners[name]}' and '{label}' both give the parameter '{name}'"


def _is(value: Any, other: Any) -> bool:
    """Return whether values are equal; a truth value is no number."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def same(value: Any, other: Any) -> bool:
    """Return whether values of a point are equal: floats to nine digits; not-a-number equals itself.
    What is no finite number may be spelled by `other`, as `NaN`."""
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    if type(value) is int and type(other) is int:
        return value == other
    numbers = () if isinstance(value, bool) or isinstance(other, bool) else (int, float)
    if isinstance(value, numbers) and isinstance(other, numbers):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=0.0) or str(value) == str(other)
    spelled = isinstance(value, float) and isinstance(other, str) and _SPELLED.fullmatch(other.lower())
    return str(value) == (spelled[1] or "") + spelled[2] if spelled else _is(value, other)


_SPELLED = re.compile(r"\+?(-?)\.?(nan|inf)(?:inity)?")
"""What is no finite number, as messages, tables and JSON spell it."""


def alike(value: Any, other: Any) -> bool:
    """Return whether values of a point are equal, and written with the same types (1 and 1.0 are not) and
    the same order of keys."""
    return json.dumps(value) == json.dumps(other)


def keep(points: Points, path: Path) -> None:
    """Write points as JSON lines: the parameters first, then one line for each point."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(json.dumps(points.parameters).encode() + b"\n")
        file.writelines(json.dumps(points.values(index)).encode() + b"\n" for index in range(len(points)))


def read_kept(path: Path) -> Points | None:
    """Return the points that `keep` wrote, or None."""
    try:
        with open(path, encoding="utf-8") as file:
            parameters = tuple(json.loads(file.readline()))
            return Points.of_rows(parameters, [json.loads(line) for line in file])
    except FileNotFoundError:
        return None


Known = Mapping[str, Hyperparameter]
"""The shared registry, by name."""


class Choice(NamedTuple):
    """What `at` says of a search (`best`, `pareto`, `{top: N}`), a loop (`last`), or both (`previous`)."""

    word: Literal["best", "pareto", "top", "last", "previous"]
    most: int = 1
    """How many points `top` takes."""

    @property
    def several(self) -> bool:
        """Whether it gathers."""
        return self.word in ("pareto", "top")


class Axis:
    """Something that repeats, in one of its forms."""

    word: ClassVar[str] = "values"
    """The key by which a file gives this form."""
    point: ClassVar[str] = "point"
    """The word for its points."""
    adaptive: ClassVar[bool] = False
    """Whether its points come during the run, as earlier ones are judged."""
    in_turn: ClassVar[bool] = False
    """Whether each of its points begins after the end of the one before."""
    named: ClassVar[bool] = True
    """Whether a point can be a text; those that are drawn or counted are numbers."""
    is_kept: ClassVar[bool] = False
    """Whether a run keeps its points in a file of its own, because their source can change."""
    picks: ClassVar[tuple[str, ...]] = ()
    """The words by which `at` picks points of it."""
    pick_hint: ClassVar[str] = "name a point of it"
    bound: ClassVar[str] = ""
    """The key below `word` for the largest number of points."""

    @property
    def gives(self) -> tuple[str, ...] | None:
        """Its parameters: none if its own name is the only one, None if only its points show them."""
        return ()

    @property
    def source(self) -> str | None:
        """The STAGE.OUTPUT that makes its points."""
        return None

    @property
    def maker(self) -> str | None:
        """The stage that makes its points."""
        return None if self.source is None else self.source.rpartition(".")[0]

    @property
    def sets(self) -> tuple[str, ...]:
        """The hyperparameters that each of its points sets."""
        return ()

    @property
    def objectives(self) -> tuple[tuple[str, bool], ...]:
        """Each STAGE.VALUE that ranks its points, and whether it is minimized."""
        return ()

    @property
    def condition(self) -> str | None:
        """The expression that ends the axis once it holds."""
        return None

    @property
    def may_end_early(self) -> bool:
        """Whether there can be fewer points in the end than counted."""
        return False

    @property
    def prunes(self) -> bool:
        """Whether points can be taken back before their end."""
        return False

    def parameters_of(self, label: str) -> tuple[str, ...] | None:
        """Return the parameters that an axis of this name gives, or None if only its points show them."""
        return self.gives if self.gives is None else self.gives or (bare(label),)

    def judged_by(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield each STAGE.VALUE that judges its points, with its key, except those of the condition."""
        yield from ()

    def size(self, registry: Known) -> int | None:
        """Return the number of points that it has, or can have; None if only the run or a file shows it."""
        return None

    def at_once(self, most: int | None) -> int:
        """Return the most points of `most` that can be under way at once."""
        return most or 1

    def describe(self, most: int | None) -> str:
        """Return its largest number of points in words: `up to 16 trials, 4 at a time`."""
        return counted(most or 0, self.point)

    def listed(self, label: str, folder: Path) -> Points | None:
        """Return its points if a file lists them, in or beside the workflow's `folder`. Raise UsageError."""
        return None

    def points_of(self, label: str, registry: Known, folder: Path) -> Points:
        """Return its points; those of a derived axis exist only in a run. Raise UsageError."""
        points = self.listed(label, folder)
        assert points is not None, "the results of a stage make them"
        return points

    def choice(self, point: object) -> Choice | None:
        """Return the choice that a pick of `at` makes during the run; None if it names a point."""
        return None

    def pick_flaws(self, label: str, point: object, inside: bool) -> Iterator[tuple[str, str]]:
        """Yield the flaws of a pick: message and hint. `inside`: whether the reader runs over the axis."""
        yield from ()

    def refusal(self, label: str, word: object) -> str | None:
        """Return the reason why a word cannot pick among the points of this axis; None if it can."""
        return None

    def registry_flaws(self, registry: Known) -> Iterator[Violation]:
        """Yield hyperparameters that it names but that do not exist, or cannot be drawn."""
        yield from ()

    def space_flaws(self, registry: Known) -> Iterator[Violation]:
        """Yield hyperparameters that exist but that it cannot draw in its own way."""
        yield from ()
