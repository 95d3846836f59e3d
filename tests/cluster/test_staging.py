"""Inputs on the nodes' own disks, on a real Slurm: one copy a node, whatever the number of tasks.

The virtual nodes are one machine, so that each gets a directory named after it for its disk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.campaign import OnCluster
from tests.cluster.cluster import Cluster
from tests.throwaway import Run

MIB = 1024 * 1024
FLOW = """
    axes:
      i: {{range: 64}}
      k: {{range: 2}}
    stages:
      prepare:
        command: head -c {size} /dev/urandom > big.bin
        outputs: {{big: big.bin}}
        resources: {{pool: cpu}}
      read:
        over: [i]
        inputs: {{big: {{from: prepare.big, stage: node}}}}
        command: |                    # a task of each node waits for those of the others
          mkdir -p ${{{{ run.dir }}}}/nodes && touch ${{{{ run.dir }}}}/nodes/$SLURMD_NODENAME
          while [ $(ls ${{{{ run.dir }}}}/nodes | wc -l) -lt 4 ]; do sleep 0.1; done
          test -s ${{{{ inputs.big }}}}; echo ${{{{ inputs.big }}}}; sleep 0.2
        resources: {{pool: cpu}}
      again:
        over: [i]
        inputs: {{big: {{from: prepare.big, stage: node}}}}
        after: [read]
        command: echo ${{{{ inputs.big }}}}; sleep 0.2
        resources: {{pool: cpu}}
"""
WIDE = """
    stages:
      prepare:
        command: "mkdir parts; for n in 0 1 2 3 4; do echo $n > parts/$n; done; echo big > big"
        outputs: {parts: parts, big: big}
        resources: {pool: small}
      ranks:
        inputs:
          parts: {from: prepare.parts, stage: node, shard: {by: rank, seed: 5}}
          big: {from: prepare.big, stage: node}
        module: parts:ranks
        resources: {nodes: 2, ranks_per_node: 2, pool: cpu}
      command:
        inputs: {big: {from: prepare.big, stage: node}}
        command: "echo $SLURMD_NODENAME ${{ inputs.big }} $(cat ${{ inputs.big }})"
        resources: {nodes: 2, ranks_per_node: 2, pool: cpu}
"""
PARTS = """
    import os
    from pathlib import Path

    from mpi4py import MPI

    @diel.module(kind="analysis")
    def ranks(parts: Path, big: Path, context: diel.Context, comm: MPI.Intracomm) -> dict:
        mine = [(str(path), path.read_text().strip()) for path in context.shard("parts", epoch=2)]
        told = comm.gather((os.environ["SLURMD_NODENAME"], str(big), mine))
        return {"told": [list(one) for one in told or []]}
"""


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[OnCluster]:
    yield OnCluster(tmp_path, cluster)
    cluster.clear()


def disk(project: OnCluster) -> dict[str, str]:
    return {"dir": f"{project.folder}/disks/$SLURMD_NODENAME"}


def copies(run: Run, stage: str) -> dict[str, int]:
    """How many bytes the tasks of a stage copied, by node."""
    found: dict[str, int] = {}
    for record in run.records("staging", stage):
        assert not record["warning"]
        found[record["node"]] = found.get(record["node"], 0) + record["bytes"]
    return found


def check_copies(project: OnCluster, size: int) -> None:
    """64 tasks on four nodes copy an input once a node, and a second stage copies nothing."""
    project.site(local=disk(project)).workflow(FLOW.format(size=size))
    began = time.monotonic()
    run = project.run("--site", "mine", "--quiet")
    took = time.monotonic() - began
    copied = copies(run, "read")
    assert set(copied.values()) == {size}
    entries = list(project.folder.glob("disks/*/diel-*/entries/*/d/big.bin"))
    assert len(entries) == 4, "all four nodes had tasks"
    assert sum(record["copied"] for record in run.records("staging")) == len(copied)
    # Whoever is lost between its copy and the line that tells of it leaves the copy for the next attempt.
    again = [record for record in run.records("start", "read") if record["attempt"] > 1]
    assert len(copied) == 4 or again, run.records("staging")
    assert copies(run, "again") == {}
    for stage in ("read", "again"):
        done = run.results(stage)  # a task behind one that waits for the copy may be handed out again
        places = {run.stdout(stage, index, done[index]["attempt"]).strip() for index in range(64)}
        assert places == {str(path) for path in entries}
    seconds = [record["seconds"] for record in run.records("staging", "read")]
    print(
        f"\n64 + 64 tasks on 4 nodes: {len(seconds)} copies of {size // MIB} MiB, "
        f"{max(seconds):.2f} s the longest; {took:.1f} s in all"
    )


def test_64_tasks_on_four_nodes_copy_an_input_four_times(project: OnCluster) -> None:
    check_copies(project, 4 * MIB)


def test_ranks_on_several_nodes_read_their_own_nodes_copy(project: OnCluster) -> None:
    project.site(local=disk(project)).workflow(WIDE).module("parts", PARTS)
    run = project.run("--site", "mine", "--quiet")
    told = run.value("ranks", "told")
    assert len({node for node, _, _ in told}) == 2
    for node, big, mine in told:
        assert all(f"/disks/{node}/" in path for path in (big, *(path for path, _ in mine)))
    assert sorted(text for _, _, mine in told for _, text in mine) == list("01234")
    # A command line is one for all ranks, and these nodes have other directories: it reads the shared file.
    (record,) = run.records("staging", "command")
    assert "one command line cannot fit all" in record["warning"]
    lines = run.stdout("command").split("\n")
    assert (
        sorted(line.split()[1:] for line in lines if line)
        == [[str(run.artifact("prepare", "big")), "big"]] * 4
    )
