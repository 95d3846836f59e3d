"""A derived axis: its points are known once a stage has made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from diel.spec.forms.axis import Axis


@dataclass(frozen=True)
class Derived(Axis):
    """The points that a STAGE.OUTPUT holds."""

    word: ClassVar[str] = "from"
    kept: ClassVar[bool] = True

    output: str
    columns: tuple[str, ...] | None = None

    @property
    def gives(self) -> tuple[str, ...] | None:
        return self.columns

    @property
    def source(self) -> str:
        return self.output
