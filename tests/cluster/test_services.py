"""Services on a cluster: replicas in blocks of their own, found by their nodes' addresses, and again after a loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.campaign import OnCluster, kill_controller, placed
from tests.cluster.cluster import Cluster
from tests.test_services import MODULES, service_records
from tests.throwaway import wait_for

FLOW = """
    stages:
      serve:
        module: "tools:echo"
        service: {ready: {http: /health}}
        resources: {pool: small, cores_per_rank: 2}
      ask:
        module: "tools:until_it_moved"
        services: [serve]
        resources: {pool: small}
"""
MOVED = """
    @diel.module(kind="analysis")
    def until_it_moved(context: diel.Context):
        client = context.service("serve")
        first = client.get("/")["pid"]
        (context.run_dir / "asked").touch()
        end = time.time() + 100
        while (last := client.get("/")["pid"]) == first and time.time() < end:
            time.sleep(0.1)
        return {"first": first, "last": last, "url": environment()["DIEL_SERVICE_SERVE_URL"]}
"""


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[OnCluster]:
    yield OnCluster(tmp_path, cluster)
    cluster.clear()


@pytest.mark.campaign
def test_a_service_whose_block_is_gone_comes_back_in_another_and_is_found(project: OnCluster) -> None:
    project.module("tools", MODULES + MOVED).workflow(FLOW)
    process = project.start("run", "flow.yaml", "--site", "mine", "--quiet")
    asked = project.folder / "runs" / "flow-1" / "asked"
    wait_for(lambda: asked.exists() or process.poll() is not None, 90)
    assert process.poll() is None, process.communicate()
    run = project.newest()
    (job,) = {block["job"] for block in run.records("block") if block["shape"] == "small-2c" and block["job"]}
    project.cluster.scancel(str(job))
    project.end(process, seconds=200)
    assert run.value("ask", "first") != run.value("ask", "last")
    assert run.counts("serve") == {"done": 1}
    assert len(service_records(run, "ready")) == 2


def test_consumers_on_other_nodes_reach_a_service_by_its_nodes_address(project: OnCluster) -> None:
    project.module("tools", MODULES).workflow(
        """
        axes: {n: {range: 4}}
        stages:
          serve:
            module: "tools:echo"
            service: {ready: {http: /health}}
            resources: {pool: small, cores_per_rank: 2}
          ask: {over: [n], module: "tools:ask", services: [serve], resources: {pool: small}}
          refused: {module: "tools:refused", services: [serve], resources: {pool: small}}
        """
    )
    run = project.run("--site", "mine", "--quiet")
    nodes = {one: {start["worker"]["node"] for start in placed(run, one)} for one in ("serve", "ask")}
    assert len(nodes["serve"]) == 1
    assert not nodes["serve"] & nodes["ask"]
    assert not any("//127." in url for url in run.values("ask", "url"))
    assert len({pid for pids in run.values("ask", "pids") for pid in pids}) == 1
    assert run.value("refused", "code") == 401


ROUNDS = """
    axes: {round: {loop: {max: 3}}, n: {range: 2}}
    stages:
      serve:
        module: "tools:echo"
        inputs: {greeting: {from: learn.name, at: {round: last}, initially: nobody}}
        service: {ready: {http: /health}, reload: true}
        resources: {pool: small}
      learn:
        over: [round]
        command: 'echo "{\\"name\\": \\"${{ round }}\\"}" > "$DIEL_RESULT"'
        outputs: {name: {value: str}}
        resources: {pool: small}
      ask:
        over: [round, n]
        module: "tools:asks_on"
        params: {waits: "${{ round == 1 }}"}
        services: [serve]
        resources: {pool: small}
"""
ASKS_ON = """
    @diel.module(kind="analysis")
    def asks_on(context: diel.Context, waits: bool):
        client = context.service("serve")
        first = client.get("/")["greeting"]
        (context.task_dir / "asked").touch()
        while waits and not (context.run_dir / "go").exists():
            time.sleep(0.05)
        return {"first": first, "last": client.get("/")["greeting"]}
"""


@pytest.mark.parametrize("ended", [pytest.param(True, marks=pytest.mark.campaign), False])
def test_who_asks_while_a_run_is_taken_over_is_answered_by_the_model_of_its_round(
    project: OnCluster, ended: bool
) -> None:
    """All models are there by then. Those who ask end before the next controller comes, or after."""
    project.module("tools", MODULES + ASKS_ON).workflow(ROUNDS)
    run = project.submit()
    waiting = [run.root / "tasks" / "ask" / str(index) / "asked" for index in (2, 3)]
    wait_for(lambda: all(path.exists() for path in waiting) and len(run.results("learn")) == 3, 90)
    kill_controller(project)
    if ended:
        (run.root / "go").touch()
    project.diel("resume")
    wait_for(lambda: ended or len(list((run.root / "journal").glob("controller-*"))) == 2, 30)
    (run.root / "go").touch()
    project.wait_for_end(120)
    answers = ["nobody", "nobody", "0", "0", "1", "1"]
    assert (run.values("ask", "first"), run.values("ask", "last")) == (answers, answers)
    assert [run.attempts("ask", index) for index in range(6)] == [[1]] * 6
    assert all(record["key"] for record in run.results("ask").values()), "one model answered"
    project.assert_nothing_is_left()
