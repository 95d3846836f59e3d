"""Resource shapes: equal labels mean equal shapes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.site import Pool, Shape, shape_of
from diel.spec import Resources


def asked(**resources: Any) -> Resources:
    return Resources.model_validate(resources)


@st.composite
def wanted(draw: st.DrawFn) -> Resources:
    """Resources that are near each other, so that different ones may well be mistaken for one."""
    given: dict[str, Any] = {
        "cores_per_rank": draw(st.integers(1, 3)),
        "gpus_per_rank": draw(st.integers(0, 2)),
    }
    size, more = draw(st.sampled_from([None, 1, 1000, 2**20, 10**6, 10**9, 2**30])), draw(st.integers(0, 2))
    if size is not None:
        given["memory"] = f"{size + more}B"
    if (seconds := draw(st.sampled_from([None, 1, 9, 59, 60, 3599, 3600, 3601, 86400]))) is not None:
        given["walltime"] = f"{seconds}.{draw(st.sampled_from(['0', '04', '5', '999']))}s"
    if draw(st.booleans()):
        given["ranks"] = ranks = draw(st.integers(1, 4))
        if draw(st.booleans()):
            given["nodes"] = draw(st.integers(1, ranks))
    return asked(**given)


@given(st.lists(wanted(), min_size=2, max_size=40))
def test_equal_labels_mean_equal_shapes_and_equal_shapes_equal_labels(many: list[Resources]) -> None:
    shapes = {shape_of("p", each) for each in many}
    assert len({shape.label for shape in shapes}) == len(shapes)


@pytest.mark.parametrize(
    ("resources", "label"),
    [
        ({}, "p-1c"),
        (
            {"cores_per_rank": 2, "gpus_per_rank": 1, "memory": "4GiB", "walltime": "10m"},
            "p-2c-1g-4096MiB-10m00s",
        ),
        ({"memory": "60GB"}, "p-1c-60000MB"),
        ({"walltime": "2h"}, "p-1c-2h00m"),
        ({"walltime": "2h5s"}, "p-1c-2h00m05s"),
        ({"walltime": "30h"}, "p-1c-30h00m"),
        ({"walltime": "1500ms"}, "p-1c-2s"),
        ({"ranks": 4, "nodes": 2, "cores_per_rank": 8, "gpus_per_rank": 2}, "p-2n-4g"),
    ],
)
def test_a_label_tells_what_a_task_needs(resources: dict[str, Any], label: str) -> None:
    assert shape_of("p", asked(**resources)).label == label


def test_tasks_that_have_whole_nodes_share_them_whatever_their_cores() -> None:
    one, other = (shape_of("p", asked(nodes=2, ranks=2, cores_per_rank=cores)) for cores in (1, 8))
    assert one == other == Shape("p", 2, 1)


def test_a_fourth_of_a_nodes_memory_fits_four_times() -> None:
    pool = Pool.model_validate({"cores": 8, "memory": "240GB"})
    assert shape_of("p", asked(memory="60GB")).workers(pool) == 4
