"""Functions over arrays and files, for the broken workflows to be wrong about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypedDict

import numpy as np
import pandas
from numpy.typing import NDArray
from pydantic import Field as Bounds

import diel


class Field(TypedDict):
    """What `make` returns."""

    x: NDArray[np.float32]
    report: Path
    loss: float


@diel.module(kind="simulation")
def make(n: int = 3) -> Field:
    return {"x": np.zeros(n, dtype=np.float32), "report": Path("report.txt"), "loss": 0.0}


@diel.module(kind="analysis")
def mean(x: np.ndarray) -> dict:
    return {"mean": float(x.mean())}


@diel.module(kind="analysis")
def count(files: list[Path]) -> dict:
    return {"n": len(files)}


@diel.module(kind="analysis")
def scale(factor: float) -> dict:
    return {"scaled": 2 * factor}


def of_array(t: np.ndarray, path: str = "") -> dict: ...


def of_path(path: Path) -> dict: ...


def of_rows(rows: list[dict]) -> dict: ...


def of_table(table: pandas.DataFrame) -> dict: ...


def average(x: list[float]) -> float: ...


def _hidden(): ...


def of_steps(steps: int) -> dict: ...


def of_lists(steps: list[int]) -> dict: ...


def of_many(steps: Annotated[int, Bounds(ge=8)]) -> dict: ...


def of_some(steps: list[Annotated[int, Bounds(ge=8)]] | None) -> dict: ...


def of_choices(steps: Literal[8, 16]) -> dict: ...


def of_energy(steps: Annotated[float, Bounds(ge=8)]) -> dict: ...
