"""The models: what good workflows may say, and what their numbers mean."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from diel.spec import AxisForm, Flaws, Hyperparameter, Resources, Workflow
from diel.spec.data import path_flaw


@pytest.mark.parametrize(
    ("given", "processes", "cores", "gpus", "mpi"),
    [
        ({}, 1, 1, 0, False),
        ({"cores_per_rank": 4, "gpus_per_rank": 1}, 1, 4, 1, False),
        ({"ranks": 6, "cores_per_rank": 2, "gpus_per_rank": 1}, 6, 12, 6, True),
        ({"nodes": 2, "ranks_per_node": 3}, 6, 6, 0, True),
        ({"nodes": 2, "ranks_per_node": 3, "ranks": 6}, 6, 6, 0, True),
        ({"nodes": 2}, 1, 1, 0, False),
    ],
)
def test_a_task_has_the_processes_that_its_resources_ask_for(
    given: dict[str, int], processes: int, cores: int, gpus: int, mpi: bool
) -> None:
    asked = Resources.model_validate(given)
    assert (asked.processes, asked.cores, asked.gpus, asked.mpi) == (processes, cores, gpus, mpi)


@pytest.mark.parametrize(
    ("form", "count"),
    [
        ({"values": [1, None, "a"]}, 3),
        ({"linspace": [0, 1.5, 7]}, 7),
        ({"linspace": [3, 3, 1]}, 1),
        ({"logspace": [-3, 0, 4]}, 4),
        ({"range": 4}, 4),
        ({"range": [4]}, 4),
        ({"range": [2, 10, 3]}, 3),
        ({"range": [5, 0, -2]}, 3),
        ({"range": 10**9}, 10**9),
    ],
)
def test_an_axis_counts_its_points_without_listing_them(form: dict[str, Any], count: int) -> None:
    assert AxisForm.model_validate(form).axis.size({}) == count


@pytest.mark.parametrize("span", [[-5, -1, 5], [0, 3, 2], [0.5, 1.5, 3], [2, 2, 1]])
def test_logspace_with_exponents_is_taken(span: list[float]) -> None:
    assert AxisForm.model_validate({"logspace": span}).logspace == tuple(span)


def test_models_cannot_be_changed() -> None:
    resources = Resources(ranks=2)
    with pytest.raises(ValidationError):
        resources.ranks = 3


@pytest.mark.parametrize(
    ("given", "value", "kept"),
    [
        ({"type": "float"}, 1, 1.0),
        ({"type": "int", "low": 1}, 1, 1),
        ({"type": "bool"}, True, True),
        ({"type": "str"}, "1", "1"),
        ({"type": "choice", "choices": [1, "a", True]}, True, True),
    ],
)
def test_a_hyperparameter_keeps_a_value_of_its_type(given: dict[str, Any], value: Any, kept: Any) -> None:
    found = Hyperparameter.model_validate(given).accept(value)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"type": "int"}, 1.5),
        ({"type": "int"}, "1"),
        ({"type": "int"}, True),
        ({"type": "float", "high": 1}, 1.5),
        ({"type": "float", "low": 0}, float("nan")),
        ({"type": "str"}, 1),
        ({"type": "bool"}, 1),
        ({"type": "choice", "choices": [1, 2]}, True),
        ({"type": "choice", "choices": [[1], [2]]}, [3]),
    ],
)
def test_a_hyperparameter_refuses_what_does_not_fit(given: dict[str, Any], value: Any) -> None:
    with pytest.raises(Flaws):
        Hyperparameter.model_validate(given).accept(value)


@pytest.mark.parametrize("path", ["a", "a/b.csv", "./a", "..a", "a..b", "${{ x }}.csv", "a/", "-x", "a b"])
def test_a_path_in_the_task_directory_is_taken(path: str) -> None:
    assert path_flaw(path) == ""


@pytest.mark.parametrize("path", ["/a", "..", "../a", "a/../b", "~", "~me/a", "", ".", "./", "a\0b", "a/.."])
def test_a_path_that_may_leave_the_task_directory_is_refused(path: str) -> None:
    assert path_flaw(path)


def test_several_flaws_of_one_model_are_told_together() -> None:
    text = {
        "diel": 1,
        "name": "x",
        "axes": {"a": {"values": [1]}, "b": {"values": [1]}},
        "stages": {"a": {"command": ["x"]}, "b": {"command": ["x"]}},
    }
    with pytest.raises(ValidationError) as caught:
        Workflow.model_validate(text)
    (error,) = caught.value.errors()
    assert [flaw.key for flaw in error["ctx"]["error"].flaws] == [("axes", "a"), ("axes", "b")]
