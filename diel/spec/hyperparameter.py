"""A hyperparameter: a typed, bounded value with a default, shared by all stages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from diel.spec.model import Items, Json, Model, Number


class Hyperparameter(Model):
    """One entry of the shared registry, read as `${{ hp.NAME }}`."""

    type: Literal["int", "float", "str", "bool", "choice"] = Field(
        description="Type of the value; `choice` takes one of `choices`."
    )
    default: Json = Field(None, description="Value where no search, file or --set gives one.")
    low: Number | None = Field(None, description="Smallest value allowed.")
    high: Number | None = Field(None, description="Largest value allowed.")
    log: bool = Field(False, description="Whether a search draws it on a logarithmic scale.")
    step: Number | None = Field(None, description="Distance between the values that a search draws.")
    choices: Items[Json] | None = Field(None, description="The values allowed.")
    description: str = Field("", description="What it means, for readers.")
