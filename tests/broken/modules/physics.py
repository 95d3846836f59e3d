"""A module for the broken workflows to be wrong about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypedDict

from annotated_types import Ge, Gt, Le

import diel


class Result(TypedDict):
    """What `heat` returns."""

    energy: float


@diel.module(kind="simulation")
def heat(
    temperature: Annotated[float, Gt(0), Le(1000)],
    steps: Annotated[int, Ge(1)] = 10,
    method: Literal["metropolis", "wolff"] = "metropolis",
    data: Path | None = None,
) -> Result:
    """Warms something up."""
    return {"energy": temperature * steps}
