"""An input: where a stage takes a value or a file from, and along which edge rule."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from diel.spec.model import Json, Model, found, refuse


class Input(Model):
    """An edge of the graph; `STAGE.OUTPUT` alone is short for `{from: STAGE.OUTPUT}`."""

    source: str = Field(alias="from", min_length=1, description="STAGE.OUTPUT, or hp.NAME.")
    at: dict[str, Json] = Field(
        default_factory=dict,
        description="Picks a point of an axis instead of gathering: a value, `best` (search), "
        "`last` or `previous` (loop).",
    )
    min_success: float = Field(
        default=1.0, gt=0, le=1, description="Share of the gathered tasks that must succeed to go on."
    )
    initially: Json = Field(
        default=None, description="Value in the first round, with `at: {AXIS: previous}`."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"from": value}
        if not isinstance(value, dict | cls):
            raise refuse(f"expected STAGE.OUTPUT, found {found(value)}", "for instance `simulate.energy`")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Input:
        if "initially" in self.model_fields_set and "previous" not in self.at.values():
            hint = "add `at: {AXIS: previous}`, or drop `initially`"
            raise refuse("`initially` is the value before the first round of a loop", hint, "initially")
        return self
