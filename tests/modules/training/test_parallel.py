"""A network that is trained over a mesh of ranks is the one that a single rank trains."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="diel[torch] is not installed")
pytest.importorskip("mpi4py", reason="diel[mpi] is not installed")


def on_ranks(folder: Path, root: Path, ranks: int, what: str) -> subprocess.CompletedProcess[str]:
    """Calls a function of `meshes` on MPI ranks, with warnings as errors."""
    launcher = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert launcher, "mpiexec is not there: pip install 'diel[mpi]'"
    code = f"from tests.modules.training import meshes; meshes.{what}()"
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    words = [launcher, "-n", str(ranks), sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory, root: Path) -> dict[str, float]:
    """The largest difference of any weight from those of a single rank, by the case: all in one start of MPI."""
    done = on_ranks(tmp_path_factory.mktemp("meshes"), root, 4, "compare")
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("case", ["data 2", "data 4", "shards 2", "shards 4"])
def test_ranks_that_share_the_data_train_the_network_of_one(case: str, differences: dict[str, float]) -> None:
    assert differences[case] < 1e-12  # in fp64 after 20 steps with momentum


@pytest.mark.parametrize(
    "case", ["tensor", "gpipe", "data × tensor", "shards × pipeline", "pipeline × tensor"]
)
def test_the_gradients_of_split_layers_and_of_pipelines_are_those_of_one_rank(
    case: str, differences: dict[str, float]
) -> None:
    assert differences[case] < 1e-12


@pytest.mark.parametrize("model", ["cnn", "lstm", "transformer", "unet"])
def test_each_network_can_be_cut(model: str, differences: dict[str, float]) -> None:
    assert differences[model] < 1e-12


def test_another_mesh_goes_on_where_one_was_killed(tmp_path: Path, root: Path) -> None:
    assert on_ranks(tmp_path, root, 2, "killed").returncode != 0
    done = on_ranks(tmp_path, root, 2, "resumed")
    assert done.returncode == 0, done.stderr
    left, difference = json.loads(done.stdout.splitlines()[-1])
    assert left == ["step-10"]
    assert difference < 1e-12
