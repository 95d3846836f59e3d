"""A training for the broken workflows beside this folder."""

from __future__ import annotations

from typing import Annotated, TypedDict

from annotated_types import Ge, Le

import diel


class Scored(TypedDict):
    accuracy: float
    model: str


@diel.module(kind="training")
def fit(hidden: Annotated[int, Ge(1), Le(512)] = 8) -> Scored:
    return {"accuracy": hidden / 512, "model": "m"}
