"""The workflows that ship run as they are, and find what is known to be true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from diel.shipped import shipped

HERE = {name: value for name, value in os.environ.items() if not name.startswith("DIEL_")}


def run(name: str, folder: Path) -> tuple[float, str]:
    """Runs a shipped workflow in an empty directory; returns the seconds it took and what it said."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "diel", "run", str(shipped("workflows") / f"{name}.yaml")],
        cwd=folder,
        capture_output=True,
        text=True,
        env=HERE,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return time.monotonic() - began, done.stdout


def value(folder: Path, what: str) -> Any:
    """The value of a stage with one task, or the list of a stage's values."""
    done = subprocess.run(
        [sys.executable, "-m", "diel", "results", "last", what, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        env=HERE,
        check=True,
    )
    document = json.loads(done.stdout)
    rows = document["rows"] if isinstance(document, dict) else document
    found = [row[what] if what in row else row[what.partition(".")[2]] for row in rows]
    return found[0] if len(found) == 1 else found


def test_hello_is_over_in_a_moment(tmp_path: Path) -> None:
    seconds, said = run("hello", tmp_path)
    assert "succeeded" in said
    assert seconds < 10  # 3 on a machine that does nothing else


def test_the_sweep_finds_where_chaos_begins(tmp_path: Path) -> None:
    run("sweep", tmp_path)
    assert 3.56 < value(tmp_path, "table.onset") < 3.63  # 3.5699 and the grid's step of 0.03
    assert len(value(tmp_path, "iterate.exponent")) == 17 * 4


def test_the_ising_surrogate_agrees_with_onsager(tmp_path: Path) -> None:
    _, said = run("ising_surrogate", tmp_path)
    assert "succeeded" in said


def test_the_melt_surrogate_predicts_states_it_never_saw(tmp_path: Path) -> None:
    _, said = run("melt_surrogate", tmp_path)
    assert "mean_absolute_error" in said
    assert value(tmp_path, "report.states") >= 8
    assert value(tmp_path, "report.relative_error") < 0.05
    assert value(tmp_path, "screen.count") == 1_000_000
    pressures = value(tmp_path, "simulate.pressure")
    assert len(pressures) >= 48
    assert max(pressures) > min(pressures)


@pytest.mark.parametrize("name", ["hello", "sweep", "ising_surrogate", "melt_surrogate"])
def test_each_shipped_workflow_validates(name: str, tmp_path: Path) -> None:
    path = shipped("workflows") / f"{name}.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "diel", "validate", str(path)], cwd=tmp_path, env=HERE, check=False
    )
    assert done.returncode == 0
