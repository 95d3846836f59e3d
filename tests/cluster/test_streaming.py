"""Streams on a cluster: producer and reader on two nodes, the broker beside the controller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.streams.protocol import read_contact
from tests.cluster.campaign import OnCluster, placed
from tests.cluster.cluster import Cluster
from tests.test_streaming import LEARN, MAKE
from tests.test_streaming_mpi import MODULES
from tests.throwaway import Run, wait_for

FLOW = """
    stages:
      make:
        module: make
        params: {count: 300, pause: 0.02}
        outputs: {samples: {stream: {buffer: 20}}}
        resources: {pool: small, cores_per_rank: 2}
      learn:
        module: learn
        inputs: {samples: make.samples}
        resources: {pool: small}
"""
ALL = [[0, number, float(number)] for number in range(300)]
"""What the reader got: the numbers of producer and item, and a number of the array."""


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[OnCluster]:
    made = OnCluster(tmp_path, cluster)
    made.module("make", MAKE).module("learn", LEARN).workflow(FLOW)
    yield made
    cluster.clear()


@pytest.mark.campaign
def test_ranks_on_two_nodes_put_what_a_third_node_reads(project: OnCluster) -> None:
    project.site(pools={"cpu": {"block_nodes": 2}}).module("ends", MODULES).workflow(
        """
        stages:
          make:
            module: "ends:make"
            outputs: {samples: {stream: {buffer: 5}}}
            resources: {nodes: 2, ranks_per_node: 1, pool: cpu}
          use:
            command: 'diel stream get samples > got.txt'
            inputs: {samples: make.samples}
            outputs: {got: got.txt}
            resources: {pool: small}
        """
    )
    run = project.run("--site", "mine", "--quiet")
    got = [json.loads(line) for line in run.artifact("use", "got").read_text().splitlines()]
    assert sorted(got) == [[rank, number] for rank in range(2) for number in range(30)]


def begin(project: OnCluster) -> tuple[subprocess.Popen[str], Run]:
    """Starts a run; both of its tasks are at work."""
    process = project.start("run", "flow.yaml", "--site", "mine", "--quiet")
    tasks = project.folder / "runs" / "flow-1" / "tasks"
    wait_for(lambda: all((tasks / name / "0" / "pid").exists() for name in ("make", "learn")), 90)
    return process, project.newest()


def test_a_node_that_dies_in_the_middle_of_a_stream_loses_no_item(project: OnCluster) -> None:
    process, run = begin(project)
    nodes = {name: {one["worker"]["node"] for one in placed(run, name)} for name in ("make", "learn")}
    assert not nodes["make"] & nodes["learn"], "each on a node of its own"
    (node,) = nodes["make"]
    project.cluster.kill_node(node)
    try:
        project.end(process, seconds=200)
    finally:
        project.cluster.start_slurmd(node)
    assert run.value("learn", "got") == ALL
    assert len(run.attempts("make")) > 1


@pytest.mark.campaign
def test_tasks_in_blocks_go_on_with_the_streams_of_the_next_controller(project: OnCluster) -> None:
    """The host of controller and broker is gone; both tasks run on, and wait for the next broker."""
    process, run = begin(project)
    contact = read_contact(run.root / "streams")
    assert contact is not None
    process.kill()
    process.communicate()
    os.kill(contact.pid, signal.SIGKILL)
    project.diel("resume", "--quiet", seconds=200)
    assert run.value("learn", "got") == ALL
    assert (run.attempts("make"), run.attempts("learn")) == ([1], [1])
