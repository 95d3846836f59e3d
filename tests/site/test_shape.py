"""Resource shapes: equal labels mean equal shapes; what a pool lacks for a task."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from diel.site.shape import Shape, cores_of, lacks, memory_of, nodes_that_fit, shape_of, shared_shape
from diel.site.site import Pool
from diel.workflow.models import Resources


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


# --- what a pool lacks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "missing"),
    [
        ({}, []),
        ({"cores_per_rank": 8}, []),
        ({"cores_per_rank": 9}, ["asks for 9 cores a node, and it has 8"]),
        ({"ranks": 8}, []),
        ({"ranks": 9}, ["asks for 9 cores a node, and it has 8"]),
        ({"ranks": 4, "cores_per_rank": 3}, ["asks for 12 cores a node, and it has 8"]),
        ({"nodes": 2, "ranks": 16}, []),
        ({"nodes": 2, "ranks": 17}, ["asks for 9 cores a node, and it has 8"]),
        ({"nodes": 3, "ranks": 3}, ["asks for 3 nodes, and it has 2"]),
        ({"nodes": 2, "ranks_per_node": 8}, []),
        ({"ranks": 16, "ranks_per_node": 8}, []),
        ({"ranks": 24, "ranks_per_node": 8}, ["asks for 3 nodes, and it has 2"]),
        ({"ranks_per_node": 9}, ["asks for 9 cores a node, and it has 8"]),
        ({"gpus_per_rank": 2}, []),
        ({"gpus_per_rank": 3}, ["asks for 3 GPUs a node, and it has 2"]),
        ({"memory": "16GiB"}, []),
        ({"memory": "17GiB"}, ["asks for 17.0 GiB of memory, and it has 16.0 GiB"]),
        (
            {"cores_per_rank": 9, "gpus_per_rank": 3, "memory": "17GiB"},
            ["asks for 9 cores a node", "asks for 3 GPUs a node", "asks for 17.0 GiB"],
        ),
    ],
)
def test_a_pool_lacks_what_is_asked_beyond_what_it_has(resources: dict[str, Any], missing: list[str]) -> None:
    pool = Pool.model_validate({"nodes": 2, "cores": 8, "gpus": 2, "memory": "16GiB"})
    told = lacks(pool, asked(**resources))
    assert len(told) == len(missing)
    assert all(line.startswith(start) for line, start in zip(told, missing, strict=True))


@given(wanted(), st.integers(1, 40), st.integers(1, 90_000))
def test_as_many_tasks_fit_a_node_in_the_shape_that_they_share_and_each_has_its_time(
    resources: Resources, memory: int, walltime: int
) -> None:
    pool = Pool.model_validate(
        {"nodes": 9, "cores": 8, "gpus": 4, "memory": "32GiB", "walltime": "2h", "max_walltime": "25h"}
    )
    own = shape_of("p", resources)._replace(memory=memory * 2**30, walltime=float(walltime))
    shape = shared_shape(own, pool)
    assert shape.workers(pool) == own.workers(pool)
    assert own.walltime <= shape.walltime <= pool.longest
    assert shared_shape(shape, pool) == shape


def test_a_thousand_different_demands_share_few_shapes() -> None:
    pool = Pool.model_validate({"cores": 16, "memory": "64GiB", "walltime": "4h"})
    demands = (Shape("p", 0, 4, 0, 2**20 * (64 + 64 * n), 61.0 + 11 * n) for n in range(1000))
    shapes = {shared_shape(shape, pool) for shape in demands}
    assert len({shape.memory for shape in shapes}) == 4, "none that counts, or 3, 2 or one task on a node"
    assert len({shape.walltime for shape in shapes}) == 14, "of two minutes to four hours"


def test_a_pool_that_does_not_say_has_this_machines_cores_and_memory() -> None:
    pool = Pool.model_validate({})
    assert cores_of(pool) == len(os.sched_getaffinity(0))
    assert memory_of(pool) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert lacks(pool, asked()) == []


@pytest.mark.parametrize(
    ("walltime", "missing"),
    [("1h", []), ("4h", []), ("5h", ["asks for 5h00m of walltime, and it has 4h00m"])],
)
def test_walltime_counts_where_a_scheduler_bounds_blocks(walltime: str, missing: list[str]) -> None:
    pool = Pool.model_validate({"cores": 8, "walltime": "2h", "max_walltime": "4h"})
    assert lacks(pool, asked(walltime=walltime), scheduled=True) == missing
    assert lacks(pool, asked(walltime=walltime)) == []


@pytest.mark.parametrize("keys", [{"nodes": 2, "block_nodes": 3}, {"walltime": "2h", "max_walltime": "1h"}])
def test_a_pool_that_contradicts_itself_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Pool.model_validate(keys)


@pytest.mark.parametrize(
    ("resources", "nodes"),
    [
        ({"ranks": 9}, 2),
        ({"ranks": 16}, 2),
        ({"ranks": 17}, None),
        ({"ranks": 8}, None),
        ({"ranks": 4, "cores_per_rank": 3}, 2),
        ({"ranks": 4, "gpus_per_rank": 1}, 2),
        ({"ranks": 4, "gpus_per_rank": 3}, None),
        ({"ranks": 9, "memory": "17GiB"}, None),
        ({"cores_per_rank": 9}, None),
        ({"ranks": 9, "ranks_per_node": 9}, None),
    ],
)
def test_ranks_that_are_too_many_for_a_node_may_fit_several(resources: dict[str, Any], nodes: int) -> None:
    pool = Pool.model_validate({"nodes": 2, "cores": 8, "gpus": 2, "memory": "16GiB"})
    assert nodes_that_fit(pool, asked(**resources)) == nodes
