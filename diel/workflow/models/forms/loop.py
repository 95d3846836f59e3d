"""A loop, and its common part with a search: points that come during the run and are judged."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from diel.base.errors import counted, did_you_mean
from diel.workflow.models.forms.axis import Axis, Choice, Known, Points
from diel.workflow.models.hyperparameter import Condition
from diel.workflow.models.model import MAX_POINTS, SpecModel, optional, quote

_OTHER_WORDS = {
    "0": "first initial",
    "previous": "prev before",
    "last": "final latest",
    "best": "optimal optimum min max",
    "pareto": "front",
}
_MEANT = {other: word for word, synonyms in _OTHER_WORDS.items() for other in synonyms.split()}
"""Other words for picks."""


class NumberedAxis(Axis):
    """An axis whose points are numbers, counted from 0."""

    adaptive = True
    named = False
    end_hint: ClassVar[str]
    """The word for the point that is most often meant."""
    until: str | None

    @property
    def condition(self) -> str | None:
        return self.until

    @property
    def most(self) -> int | None:
        """The most points, if the file says."""
        most: int | None = getattr(self, self.bound)
        return most

    def size(self, registry: Known) -> int | None:
        return self.most

    def points_of(self, label: str, registry: Known, folder: Path) -> Points:
        return Points.counted(label, self.size(registry) or 0)

    def choice(self, point: object) -> Choice | None:
        if isinstance(point, Mapping):
            count: Any = point.get("top")
            return Choice("top", count) if is_count(count) and len(point) == 1 else None
        word: Any = point
        return Choice(word) if point in self.picks and point != "top" else None

    def pick_flaws(self, label: str, point: object, inside: bool) -> Iterator[tuple[str, str]]:
        """Yield the flaws of a pick: it must be a point's number, or one of the words."""
        if isinstance(point, dict) and set(point) == {label}:
            point = point[label]
        words = tuple("{top: N}" if word == "top" else word for word in self.picks)
        if not isinstance(point, int) or isinstance(point, bool):
            hint = did_you_mean(point, words) if isinstance(point, str) else ""
            meant = _MEANT.get(str(point).lower())
            hint = f"write {meant}" if meant in (*words, "0") else hint
            yield f"expected {', '.join(words)} or the number of a {self.point}, found {quote(point)}", hint
        elif point < 0 or (self.most is not None and point >= self.most):
            last = " or above" if self.most is None else f" to {self.most - 1}"
            yield f"expected the number of a {self.point}, 0{last}; found {point}", self.end_hint


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


class Loop(SpecModel, NumberedAxis):
    """Rounds, counted from 0."""

    word: ClassVar[str] = "loop"
    point: ClassVar[str] = "round"
    in_turn: ClassVar[bool] = True
    picks: ClassVar[tuple[str, ...]] = ("last", "previous")
    pick_hint: ClassVar[str] = "use `last`, or the number of a round"
    end_hint: ClassVar[str] = "`last` is the last one"
    bound: ClassVar[str] = "max"

    max: int = Field(ge=1, le=MAX_POINTS, description="Most rounds to run.")
    until: Condition | None = optional("Expression over values of the round: stop when it holds.")

    @property
    def may_end_early(self) -> bool:
        return self.until is not None

    def describe(self, most: int | None) -> str:
        return f"{'up to ' if self.may_end_early else ''}{counted(self.max, 'round')}"

    def at_once(self, most: int | None) -> int:
        return 1

    def pick_flaws(self, label: str, point: object, inside: bool) -> Iterator[tuple[str, str]]:
        if point == "previous" and not inside:
            hint = f"add {label} to its `over`, or use `last`"
            yield f"`previous` is for stages that run over '{label}' themselves", hint
        elif point not in self.picks:
            yield from super().pick_flaws(label, point, inside)
