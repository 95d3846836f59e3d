"""How what schedulers say of queues and nodes differs from a site file."""

from __future__ import annotations

from typing import Any

from diel.doctor.nodes import differences
from diel.scheduler import NodeKind, Offer, scheduler_named
from diel.scheduler.slurm import parse_sinfo
from diel.site import Pool
from tests.scheduler.test_slurm import SINFO


def told(**keys: Any) -> list[str]:
    pool, slurm = Pool.model_validate(keys), scheduler_named("slurm")
    return list(differences("p", pool, parse_sinfo(SINFO), slurm.elsewhere))


def test_a_pool_as_its_nodes_are_gives_no_advice() -> None:
    assert told(queue="regular", cores=128, memory="480GiB", max_walltime="48h") == []
    assert told(queue="gpu", cores=64, gpus=4) == []


def test_what_no_node_of_the_queue_has_is_told() -> None:
    assert told(queue="gpu", cores=128, gpus=8, memory="480GiB", max_walltime="48h") == [
        "p: cores: 128, a node has 64 (128 hardware threads)",
        "p: memory: 480.0 GiB, jobs get 239.3 GiB of a node",
        "p: gpus: 8, the scheduler knows 4 of a node",
        "p: blocks of up to 2d00h, but queue 'gpu' allows 1d00h",
    ]


def test_a_pool_without_a_queue_is_held_against_the_nearest_nodes() -> None:
    assert told(cores=64, gpus=4) == []
    assert told(cores=128) == []
    assert told(cores=4) == ["p: cores: 4, a node has 128 (256 hardware threads)"]


def test_a_pool_without_a_queue_is_held_against_the_walltime_of_the_default_one() -> None:
    assert told(cores=128, max_walltime="49h") == [
        "p: blocks of up to 2d01h, but the default queue 'regular' allows 2d00h"
    ]
    assert told(cores=128, max_walltime="48h") == []
    assert told(cores=128, max_walltime="49h", options=["--qos=long"]) == []


def test_hosts_with_fewer_cores_than_a_pool_says_are_told_with_what_shares_them() -> None:
    offer = Offer((), [NodeKind("", 4, 4, 4, 0, 0, physical=2, sharing=4)])
    assert list(differences("p", Pool(cores=4), offer)) == [
        "p: cores: 4, but the host has 2, and 4 nodes of the scheduler share one"
    ]
    assert list(differences("p", Pool(cores=2), offer)) == ["p: cores: 2, a node has 4"]
