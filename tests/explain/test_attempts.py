"""What an explanation says of a task's attempts: how each went, where, with what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.explain import explain_task
from diel.results import Recorded
from tests.allocation import Node, block
from tests.explain.test_block import SIM
from tests.explain.test_block import flow as on_cluster
from tests.explain.test_run import flow, of_task, text_of_task
from tests.written import APP


def test_a_failed_task_tells_its_attempts(tmp_path: Path) -> None:
    run = flow(tmp_path)
    run.work("start", "sim", 1).work("fail", "sim", 1, seconds=3.0, **APP, message="first")
    run.work("start", "sim", 1, 2).work("fail", "sim", 1, 2, seconds=1.0, **APP, message="then")
    run.write("failed", stage="sim", tasks=[[1, 1]], message="then", attempt=2, **{"class": "app"})
    told = of_task(run, "sim", 1)
    assert told["why"] == ["failed at attempt 2 (app): then"]
    assert [(one["attempt"], one["state"], one["message"]) for one in told["attempts"]] == [
        (1, "failed", "first"),
        (2, "failed", "then"),
    ]
    assert told["attempts"][1]["dir"].endswith("tasks/sim/1.2")
    assert told["attempts"][0]["worker"] == "worker-0001-node-7-abc"
    assert "    attempt 1: failed after 3.0s (app): first" in text_of_task(run, "sim", 1)


def test_an_attempt_is_told_with_its_node_block_job_and_resources(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", shape=SIM)
    Node(run.paths, "1-0", "n3").fail("sim", 0, kind="oom").done("sim", 0, attempt=2)
    run.write("queued", stage="sim", bundle=1, tasks=[0, 1])
    run.write("queued", stage="sim", bundle=2, tasks=[1, 0], attempts=[1, 2], resources={"memory": 2 * 2**30})
    first, second = explain_task(Recorded(run.paths), "sim", 0).document["attempts"]
    assert (first["block"], first["job"], first["node"], first["class"]) == ("1-0", "100", "n3", "oom")
    assert first["resources"] == {"memory": 2**30, "walltime": 600.0}
    assert second["resources"] == {"memory": 2**31, "walltime": 600.0}
    said = text_of_task(run, "sim", 0)
    assert "node n3, block 1-0 (job 100), 1.0 GiB, 10m00s of walltime\n" in said
    assert "node n3, block 1-0 (job 100), 2.0 GiB, 10m00s of walltime\n" in said


def test_a_task_lost_with_its_block_has_the_blocks_reason_and_stderr(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    tail = "slurmstepd: error: *** JOB 100 CANCELLED DUE TO NODE FAILURE ***\n"
    block(run, "1-0", "node_failed", shape=SIM, reason="NODE_FAIL: n3", stderr_tail=tail)
    Node(run.paths, "1-0", "n3").start("sim", 0)
    lost = {"class": "node", "message": "its block 1-0 (job 100) ended: node_failed"}
    run.write("fail", stage="sim", index=0, attempt=1, **lost)
    said = text_of_task(run, "sim", 0)
    assert "attempt 1: failed (node): its block 1-0 (job 100) ended: node_failed" in said
    assert "its block ended: node_failed: NODE_FAIL: n3" in said
    assert "│ slurmstepd: error: *** JOB 100 CANCELLED DUE TO NODE FAILURE ***" in said


def test_an_attempt_that_failed_by_itself_is_not_blamed_on_its_block(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", "timeout", shape=SIM)
    Node(run.paths, "1-0", "n3").fail("sim", 0)
    assert "its block ended" not in text_of_task(run, "sim", 0)


def test_what_is_lost_without_a_word_has_the_end_of_its_block(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", "preempted", shape=SIM)
    Node(run.paths, "1-0", "n3").start("sim", 0)
    (attempt,) = explain_task(Recorded(run.paths), "sim", 0).document["attempts"]
    assert (attempt["state"], attempt["block_end"]["state"]) == ("lost", "preempted")


def test_what_was_brought_to_the_nodes_disk_is_said_with_its_attempt(tmp_path: Path) -> None:
    run = flow(tmp_path).work("start", "sim", 0)
    brought: dict[str, Any] = {
        "node": "n3",
        "copied": 2,
        "bytes": 2**20,
        "found": 1,
        "seconds": 2.0,
        "folder": "/local",
    }
    run.work("staging", "sim", 0, **brought, warning="")
    run.work("staging", "sim", 0, **brought, warning="no room on /local")
    said = text_of_task(run, "sim", 0)
    assert "brought 2 artifacts (1.0 MiB) to the disk of n3 in 2.0s; found 1 there" in said
    assert "used the shared file system: no room on /local" in said
    assert of_task(run, "sim", 0)["attempts"][0]["staging"][0]["copied"] == 2
