"""What a task made: which values are taken, which files, and what is refused."""

from __future__ import annotations

import collections
import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest

from diel.base.errors import ModuleError
from diel.store.artifacts import collect_files, collect_returned
from diel.workflow.models import Output
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
    [
        (object(), r"output 'result' is a object; expected a JSON value, .* name the outputs"),
        ({"good": 1, "bad": {"deep": 1j}}, r"output 'bad.deep' is a complex"),
        (lambda: 1, "output 'result' is a function"),
    ],
)
def test_what_cannot_be_kept_is_named(task_dir: Path, run_dir: Path, returned: Any, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        collect_returned(returned, task_dir, run_dir)


class Fit(NamedTuple):
    slope: float
    points: Any


@pytest.mark.parametrize(
    ("returned", "values"),
    [
        (3, {"result": 3}),
        ("text", {"result": "text"}),
        (False, {"result": False}),
        ([1, [2]], {"result": [1, [2]]}),
        ((1, 2.5), {"result": [1, 2.5]}),
        (numpy.float64(2.5), {"result": 2.5}),
        ({}, {}),
        ({"a b": 1}, {"result": {"a b": 1}}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        ({1: 2}, {"result": {"1": 2}}),
        (Fit(1.5, [1]), {"slope": 1.5, "points": [1]}),
        ({"a": {"deep": numpy.arange(2)}}, {"a": {"deep": [0, 1]}}),
    ],
)
def test_what_has_no_name_is_the_result(task_dir: Path, run_dir: Path, returned: Any, values: Any) -> None:
    assert collect_returned(returned, task_dir, run_dir) == (values, {})


def test_declared_outputs_name_what_has_no_name_and_leave_out_what_cannot_be_kept(
    task_dir: Path, run_dir: Path
) -> None:
    one, two = {"mean": Output()}, {"counts": Output(), "edges": Output()}
    assert collect_returned(4, task_dir, run_dir, one) == ({"mean": 4}, {})
    assert collect_returned((1, 2), task_dir, run_dir, one) == ({"mean": [1, 2]}, {})
    assert collect_returned((1, 2), task_dir, run_dir, two) == ({"counts": 1, "edges": 2}, {})
    assert collect_returned((1, 2, 3), task_dir, run_dir) == ({"result": [1, 2, 3]}, {})
    with pytest.raises(ModuleError, match="returned no 'counts', which it promises; it returned: result"):
        collect_returned((1, 2, 3), task_dir, run_dir, two)
    assert collect_returned({"mean": 1, "code": object()}, task_dir, run_dir, one) == ({"mean": 1}, {})


def test_a_tuple_of_arrays_has_a_file_for_each(task_dir: Path, run_dir: Path) -> None:
    values, artifacts = collect_returned((numpy.arange(2), 7), task_dir, run_dir)
    assert (values, artifacts["result_0"]["path"]) == ({"result_1": 7}, "tasks/s/0/result_0.npy")
    _, artifacts = collect_returned([numpy.arange(2), numpy.arange(3)], task_dir, run_dir)
    assert [one["path"] for one in artifacts["result"]["files"]] == [
        "tasks/s/0/result-0.npy",
        "tasks/s/0/result-1.npy",
    ]


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
