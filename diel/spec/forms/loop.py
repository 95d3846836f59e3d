"""A loop: an axis whose points follow one another."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from diel.errors import counted
from diel.spec.condition import Condition
from diel.spec.forms.judged import Judged
from diel.spec.model import MAX_POINTS, Model


class Loop(Model, Judged):
    """Rounds, counted from 0."""

    word: ClassVar[str] = "loop"
    point: ClassVar[str] = "round"
    in_turn: ClassVar[bool] = True
    picks: ClassVar[tuple[str, ...]] = ("last", "previous")
    pick_hint: ClassVar[str] = "take `last`, or the number of a round"
    end_hint: ClassVar[str] = "`last` is the last one"
    bound: ClassVar[str] = "max"

    max: int = Field(ge=1, le=MAX_POINTS, description="Most rounds to run.")
    until: Condition | None = Field(
        default=None, description="Expression over values of the round: stop when it holds."
    )

    @property
    def condition(self) -> str | None:
        return self.until

    @property
    def may_end_early(self) -> bool:
        return self.until is not None

    @property
    def most(self) -> int:
        return self.max

    def describe(self, most: int | None) -> str:
        return f"{'up to ' if self.may_end_early else ''}{counted(self.max, 'round')}"

    def at_once(self, most: int | None) -> int:
        return 1

    def pick_flaws(self, label: str, point: object, inside: bool) -> Iterator[tuple[str, str]]:
        if point == "previous" and not inside:
            hint = f"add {label} to its `over`, or take `last`"
            yield f"`previous` is for stages that run over '{label}' themselves", hint
        elif point not in self.picks:
            yield from super().pick_flaws(label, point, inside)
