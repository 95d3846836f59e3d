"""A training over two nodes of a real Slurm, by `srun --mpi=pmi2`, is that of one rank.

Each of its ranks reads its own files of the samples, from its node's disk.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cluster.campaign import OnCluster
from tests.cluster.cluster import Cluster

pytest.importorskip("torch", reason="diel[torch] is not installed")

FLOW = """
    stages:
      prepare:
        module: samples:files
        resources: {pool: small}
      spread:
        inputs: {data: {from: prepare.files, stage: node, shard: {by: rank, seed: 5}}}
        module: training.parallel
        params: {mesh: {data: 2, tensor: 2}, HOW}
        resources: {nodes: 2, ranks_per_node: 2, pool: cpu}
      alone:
        inputs: {data: {from: prepare.files, stage: node, shard: {by: rank, seed: 5}}}
        module: training.parallel
        params: {HOW}
        resources: {ranks: 1, pool: small}
"""
HOW = """
    model: mlp, settings: {width: 8}, precision: fp64, optimizer: sgd, learning_rate: 0.1, batch: 4, steps: 20
"""
SAMPLES = """
    from pathlib import Path

    import numpy as np

    @diel.module(kind="simulation")
    def files(context: diel.Context) -> dict:
        rng, made = np.random.default_rng(0), []
        for number in range(12):
            made.append(context.task_dir / f"{number}.npz")
            np.savez(made[-1], inputs=rng.normal(size=(8, 5)), targets=rng.integers(0, 3, 8))
        return {"files": made}
"""


def test_four_ranks_on_two_nodes_train_the_network_of_one(tmp_path: Path, cluster: Cluster) -> None:
    project = OnCluster(tmp_path, cluster)
    try:
        project.site(local={"dir": f"{project.folder}/disks/$SLURMD_NODENAME"})
        project.module("samples", SAMPLES).workflow(FLOW.replace("HOW", HOW.strip() + ", outputs: 3"))
        project.diel("run", f"{project.name}.yaml", "--site", "mine", "--quiet", seconds=500)
        run = project.newest()
    finally:
        cluster.clear()
    # a loaded machine may lose a node, and the task is tried again
    folders = (run.task_dir(stage, attempt=run.attempts(stage)[-1]) for stage in ("spread", "alone"))
    spread, alone = (np.load(folder / "weights.npz") for folder in folders)
    assert spread.files == alone.files
    assert max(np.abs(spread[name] - alone[name]).max() for name in alone) < 1e-12
