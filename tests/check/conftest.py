"""A folder with modules, in which workflows are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

MODULES = """
from typing import TypedDict

import diel


class Melted(TypedDict):
    energy: float
    path: str


@diel.module(kind="simulation")
def melt(temperature: float, density: float = 0.8, steps: int = 100) -> Melted:
    return {"energy": temperature * density, "path": "x"}


@diel.module(kind="training")
def fit(runs: list, rate: float) -> dict:
    return {"loss": 0.0}


@diel.module(kind="analysis")
def free(**anything: object):
    return {name: value for name, value in anything.items()}
"""


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "modules").mkdir()
    (workspace / "modules" / "m.py").write_text(MODULES)
    return workspace
