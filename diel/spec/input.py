"""An input: where a stage takes a value or a file from, and along which edge rule."""

from __future__ import annotations

from pydantic import Field, model_validator
from typing import Any

from diel.spec.model import Json, Model


class Input(Model):
    """An edge of the graph; `STAGE.OUTPUT` alone is short for `{from: STAGE.OUTPUT}`."""

    source: str = Field(alias="from", description="STAGE.OUTPUT, or hp.NAME.")
    at: dict[str, Json] = Field(
        default_factory=dict,
        description="Picks a point of an axis instead of gathering: a value, `best` (search), "
        "`last` or `previous` (loop).",
    )
    min_success: float = Field(
        1.0, gt=0, le=1, description="Share of the gathered tasks that must succeed to go on."
    )
    initially: Json = Field(None, description="Value in the first round, with `at: {AXIS: previous}`.")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"from": value} if isinstance(value, str) else value
