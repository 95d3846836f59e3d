"""A pool: what it lacks for a task."""

from __future__ import annotations

import os
from typing import Any

import pytest
from pydantic import ValidationError

from diel.site import Pool, cores_of, lacks, memory_of, nodes_that_fit
from diel.spec import Resources


def asked(**resources: Any) -> Resources:
    return Resources.model_validate(resources)


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
