"""What schedulers say of queues and nodes, and how that differs from a site file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from diel.doctor.nodes import (
    NodeKind,
    Queue,
    differences,
    parse_pbsnodes,
    parse_pbsnodes_json,
    parse_qstat,
    parse_server,
    parse_sinfo,
)
from diel.site import Pool

SINFO = """\
regular*|3072|2:64:2|512000|(null)|2-00:00:00
gpu|1536|1:64:2|245000|gpu:a100:4(S:0-3)|1-00:00:00
debug|8|2:64:2|512000|(null)|30:00
free|4+|1:4:1|8000+|gpu:v100:2,gpu:a100:1,lustre:1|infinite
"""


def test_partitions_and_their_nodes_are_read_from_sinfo() -> None:
    queues, kinds = parse_sinfo(SINFO)
    assert queues == [
        Queue("regular", 2 * 86400.0, default=True), Queue("gpu", 86400.0), Queue("debug", 1800.0), Queue("free"),
    ]  # fmt: skip
    assert kinds[0] == NodeKind("regular", 3072, 128, 256, 512000 * 2**20, 0)
    assert kinds[1] == NodeKind("gpu", 1536, 64, 128, 245000 * 2**20, 4)
    assert kinds[3] == NodeKind("free", 4, 4, 4, 8000 * 2**20, 3)


@pytest.mark.parametrize("text", ["", "\n", "sinfo: error\n", "a|b\n"])
def test_an_answer_that_is_none_gives_no_partitions(text: str) -> None:
    assert parse_sinfo(text) == ([], [])


def test_queues_are_read_from_qstat_in_full() -> None:
    text = (
        "Queue: workq\n    queue_type = Execution\n    enabled = True\n\n"
        "Queue: a-queue-with-a-long-name\n    resources_max.walltime = 24:00:00\n"
    )
    assert parse_qstat(text) == [Queue("workq"), Queue("a-queue-with-a-long-name", 86400.0)]


def test_queues_are_read_from_the_table_that_some_qstats_print() -> None:
    text = (
        "Queue              Max   Tot Ena Str   Que   Run\n"
        "---------------- ----- ----- --- --- ----- -----\n"
        "main                 0     0 yes yes     0     0\n"
        "spot                 0     0 yes yes     0     0\n"
    )
    assert [queue.name for queue in parse_qstat(text)] == ["main", "spot"]
    assert parse_qstat("nothing") == []


def test_nodes_of_pbs_are_counted_by_their_shape() -> None:
    small = {"resources_available": {"ncpus": 64, "mem": "527672492kb", "ngpus": 4}}
    answer = json.dumps({"nodes": {"a": small, "b": small, "c": {"resources_available": {"ncpus": 8}}}})
    assert parse_pbsnodes_json(answer) == [
        NodeKind("", 2, 64, 64, 527672492 * 1024, 4),
        NodeKind("", 1, 8, 8, 0, 0),
    ]
    assert parse_pbsnodes_json("not JSON") == parse_pbsnodes_json("[]") == []


def test_vnodes_of_one_host_do_not_add_their_cores() -> None:
    has = {"resources_available": {"ncpus": 4, "host": "one"}, "pcpus": 2}
    kinds = parse_pbsnodes_json(json.dumps({"nodes": dict.fromkeys("abcd", has)}))
    assert kinds == [NodeKind("", 4, 4, 4, 0, 0, physical=2, sharing=4)]
    assert list(differences("p", Pool(cores=4), kinds, [])) == [
        "p: cores: 4, but the host has 2, and 4 nodes of the scheduler share one"
    ]
    assert list(differences("p", Pool(cores=2), kinds, [])) == ["p: cores: 2, a node has 4"]


def test_nodes_of_torque_are_counted_by_their_shape() -> None:
    text = (
        "n1\n     state = free\n     np = 16\n     gpus = 2\n     status = physmem=65000000kb,ncpus=32\n\n"
        "n2\n     state = free\n     np = 16\n     gpus = 2\n     status = physmem=65000000kb,ncpus=32\n\n"
        "n3\n     state = down\n"
    )
    assert parse_pbsnodes(text) == [NodeKind("", 2, 16, 16, 65000000 * 1024, 2)]


def told(**keys: Any) -> list[str]:
    queues, kinds = parse_sinfo(SINFO)
    return list(differences("p", Pool.model_validate(keys), kinds, queues))


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


def test_the_default_queue_of_pbs_is_the_servers() -> None:
    queues = [Queue("workq", 60.0), Queue("long")]
    text = "Server: head\n    server_state = Active\n    default_queue = workq\n"
    assert parse_server(text, queues) == [Queue("workq", 60.0, default=True), Queue("long")]
    assert parse_server("head 0 0", queues) == queues
