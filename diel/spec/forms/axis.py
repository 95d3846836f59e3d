"""An axis: an ordered sequence of points, each giving one or more parameters a value.

Each form of it is a class. What others ask of an axis stands here; what a form answers in its own way stands
in the form's file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from diel.errors import counted
from diel.spec.forms.points import Points
from diel.spec.hyperparameter import Hyperparameter
from diel.spec.model import Flaw

Known = Mapping[str, Hyperparameter]
"""The shared registry, by name."""


@dataclass(frozen=True)
class Choice:
    """What `at` says of a search (`best`, `pareto`, `{top: N}`) or a loop (`last`, `previous`)."""

    word: Literal["best", "pareto", "top", "last", "previous"]
    count: int = 1
    """How many points `top` takes."""

    @property
    def several(self) -> bool:
        """Whether it gathers."""
        return self.word in ("pareto", "top")


class Axis:
    """What repeats, in one of its forms."""

    word: ClassVar[str] = "values"
    """The key by which a file gives this form."""
    point: ClassVar[str] = "point"
    """What one of its points is called."""
    adaptive: ClassVar[bool] = False
    """Whether its points come while the run goes on, as those before are judged."""
    in_turn: ClassVar[bool] = False
    """Whether its points come one after the other, each after the end of the one before."""
    kept: ClassVar[bool] = False
    """Whether a run keeps its points in a file of its own, as what they come from may change."""
    picks: ClassVar[tuple[str, ...]] = ()
    """The words by which `at` picks points of it."""
    pick_hint: ClassVar[str] = "name a point of it"
    bound: ClassVar[str] = ""
    """The key below `word` that says how many points there are at most."""

    @property
    def gives(self) -> tuple[str, ...] | None:
        """Its parameters: none where its own name is the only one, None where only its points tell."""
        return ()

    @property
    def source(self) -> str | None:
        """The STAGE.OUTPUT that makes its points."""
        return None

    @property
    def maker(self) -> str | None:
        """The stage that makes its points."""
        return None if self.source is None else self.source.partition(".")[0]

    @property
    def sets(self) -> tuple[str, ...]:
        """The hyperparameters that each of its points sets."""
        return ()

    @property
    def objectives(self) -> tuple[tuple[str, bool], ...]:
        """Each STAGE.VALUE by which its points are better and worse, and whether it is to be made small."""
        return ()

    @property
    def condition(self) -> str | None:
        """The expression that ends it once it holds."""
        return None

    @property
    def may_end_early(self) -> bool:
        """Whether there may be fewer points in the end than are counted."""
        return False

    @property
    def needs(self) -> tuple[str, ...]:
        """The packages without which its points cannot be made."""
        return ()

    @property
    def needed_by(self) -> str:
        """What it does with them: `searches with gp`."""
        return ""

    def parameters_of(self, label: str) -> tuple[str, ...] | None:
        """The parameters that an axis of this name gives, or None where only its points tell."""
        return self.gives if self.gives is None else self.gives or (label,)

    def judged_by(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Each STAGE.VALUE by which its points are judged, with its key; those of the condition aside."""
        yield from ()

    def size(self, known: Known) -> int | None:
        """How many points it has, or may have; None where only the run, or a file, tells."""
        return None

    def at_once(self, most: int | None) -> int:
        """The most of its points that may be under way together, where there are `most` of them."""
        return most or 1

    def describe(self, most: int | None) -> str:
        """How many points it may have, in words: `up to 16 trials, 4 at a time`."""
        return counted(most or 0, self.point)

    def listed(self, label: str, folder: Path) -> Points | None:
        """Its points, where the workflow file or one beside it lists them. `folder` is the workflow file's.

        Raises UsageError where they cannot be read.
        """
        return None

    def points_of(self, label: str, known: Known, folder: Path) -> Points:
        """Its points; those of a derived axis only a run has. Raises UsageError as `listed` does."""
        points = self.listed(label, folder)
        assert points is not None, "the results of a stage make them"
        return points

    def choice(self, point: object) -> Choice | None:
        """What a pick of `at` chooses while the run goes on; None where it names a point."""
        return None

    def pick_flaws(self, label: str, point: object, inside: bool) -> Iterator[tuple[str, str]]:
        """What is wrong with a pick: message and hint. `inside`: whether the reader runs over the axis."""
        yield from ()

    def refusal(self, label: str, word: object) -> str | None:
        """Why one of the words cannot pick among the points of this axis; None where it can."""
        return None

    def registry_flaws(self, known: Known) -> Iterator[Flaw]:
        """Hyperparameters that it names and that are not there, or cannot be drawn."""
        yield from ()

    def space_flaws(self, known: Known) -> Iterator[Flaw]:
        """Hyperparameters that are there, and that it cannot draw in its own way."""
        yield from ()
