"""What a task made: which values are taken, which files, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.artifacts import collect_files, collect_returned
from diel.errors import ModuleError
from tests.artifacts.conftest import Take

# --- values -------------------------------------------------------------------------------------


def test_nothing_returned_is_nothing_made(task_dir: Path, run_dir: Path) -> None:
    assert collect_returned(None, task_dir, run_dir) == ({}, {})


def test_a_dataclass_gives_one_output_a_field(task_dir: Path, run_dir: Path) -> None:
    @dataclasses.dataclass
    class Made:
        energy: float
        trace: Path

    (task_dir / "trace.csv").write_text("1\n")
    values, artifacts = collect_returned(Made(-1.5, task_dir / "trace.csv"), task_dir, run_dir)
    assert values == {"energy": -1.5}
    assert artifacts["trace"]["path"] == "tasks/s/0/trace.csv"


@pytest.mark.parametrize(
    ("returned", "message"),
    [(3, "returned a int"), ([1], "returned a list"), ({"a b": 1}, "named 'a b'"), ({1: 1}, "named 1")],
)
def test_only_named_outputs_are_taken(task_dir: Path, run_dir: Path, returned: Any, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        collect_returned(returned, task_dir, run_dir)


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array", [numpy.arange(6).reshape(2, 3), numpy.array(["a", "é"]), numpy.zeros(0), numpy.array([True])]
)
def test_an_array_becomes_a_file_that_numpy_reads(take: Take, run_dir: Path, array: Any) -> None:
    values, artifacts = take(field=array)
    assert values == {}
    path = run_dir / artifacts["field"]["path"]
    numpy.testing.assert_array_equal(numpy.load(path, allow_pickle=False), array)
    assert artifacts["field"]["size"] == path.stat().st_size


# --- files and directories ----------------------------------------------------------------------


def test_a_commands_declared_files_are_taken_or_missed(task_dir: Path, run_dir: Path) -> None:
    (task_dir / "a.csv").write_text("1")
    artifacts = collect_files({"a": "a.csv"}, task_dir, run_dir)
    assert artifacts["a"]["path"] == "tasks/s/0/a.csv"
    with pytest.raises(ModuleError, match=r"output 'b': no file 'b.csv'; the task wrote a.csv"):
        collect_files({"b": "b.csv"}, task_dir, run_dir)
