"""What an explanation says of a task's attempts: how each went, where, with what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.observe.explain.attempts import explain_block, words
from diel.observe.explain.run import explain_run
from diel.observe.explain.task import explain_task
from diel.observe.results import RunReader
from diel.site.site import Site
from diel.store.project.submission import make_submission, queued
from tests.allocation import Node, block
from tests.explain.test_run import flow, of_task
from tests.handmade import Handmade
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
    first, second = explain_task(RunReader(run.paths), "sim", 0).document["attempts"]
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
    (attempt,) = explain_task(RunReader(run.paths), "sim", 0).document["attempts"]
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


FLOW = """
axes: {t: {range: 4}}
stages:
  sim: {over: [t], command: [x], resources: {memory: 1GiB, walltime: 10m}}
  mpi: {command: [x], resources: {ranks: 4, nodes: 2}}
"""
SIM = "cpu-1c-1024MiB-10m00s"
SITE: dict[str, Any] = {
    "name": "cluster",
    "scheduler": "slurm",
    "pools": {
        "tiny": {"cores": 1, "memory": "512MiB"},
        "cpu": {"cores": 8, "memory": "32GiB", "nodes": 2, "blocks": 2, "walltime": "1h"},
    },
}


def on_cluster(folder: Path, *, alive: bool = True) -> Handmade:
    """A run whose controller lives, with its site; `sim` has four tasks."""
    run = Handmade(folder, FLOW, alive=alive).stage("sim", 4).stage("mpi", 1)
    run.paths.site.write_text(Site.model_validate(SITE).model_dump_json())
    return run


def why(run: Handmade, stage: str, index: int) -> str:
    return str(explain_task(RunReader(run.paths), stage, index).document["why"][-1])


def text_of_task(run: Handmade, stage: str, index: int) -> str:
    return "\n".join(explain_task(RunReader(run.paths), stage, index).lines)


def text_of_run(run: Handmade) -> str:
    return "\n".join(explain_run(RunReader(run.paths)).lines)


def text_of_block(run: Handmade, name: str) -> str:
    return "\n".join(explain_block(RunReader(run.paths), name).lines)


# --- what is waited for ---------------------------------------------------------------------------


def test_a_queued_task_waits_for_the_pending_block_of_its_shape(tmp_path: Path) -> None:
    run = on_cluster(tmp_path).write("queued", stage="sim", bundle=1, tasks=[0])
    block(run, "1-0", "pending", shape="cpu-2n", reason="Resources")
    block(run, "1-1", "pending", shape=SIM, reason="Priority")
    expected = "it was handed out, and waits for a block: 1-1 (job 101) is pending: Priority"
    assert why(run, "sim", 0) == expected


def test_a_ready_task_waits_for_a_worker_of_the_block_that_runs(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", shape=SIM, nodes="n7")
    block(run, "1-1", "pending", shape=SIM)
    told = "all its inputs are there: it waits for a free worker in block 1-0 (job 100, n7)"
    assert why(run, "sim", 2) == told


def test_a_block_that_gets_no_more_tasks_is_not_waited_for(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", shape=SIM, ending=True)
    assert f"waits for a block of shape {SIM}, which the scheduler has not taken yet" in why(run, "sim", 0)


def test_a_block_of_the_last_controller_is_not_waited_for(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", shape=SIM)
    run.write("controller", epoch=2)
    block(run, "2-0", "pending", shape=SIM, reason="Priority")
    assert "waits for a block: 2-0 (job 100) is pending: Priority" in why(run, "sim", 0)


def test_a_pool_whose_blocks_are_all_of_other_shapes_is_told(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", shape="cpu-2n")
    block(run, "1-1", shape="cpu-2n")
    assert "pool 'cpu' may have 2 at a time, and all have other shapes" in why(run, "sim", 0)


def test_a_task_whose_retry_asks_for_more_waits_for_a_block_of_that(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    run.write("queued", stage="sim", bundle=1, tasks=[0], attempts=[2], resources={"memory": 2 * 2**30})
    block(run, "1-0", shape=SIM)
    block(run, "1-1", "pending", shape="cpu-1c-2048MiB-10m00s", reason="Resources")
    assert "1-1 (job 101) is pending: Resources" in why(run, "sim", 0)
    assert "block 1-0" in why(run, "sim", 1)


@pytest.mark.parametrize("reason", ["Can Never Run: Not enough of resource: ncpus", "PartitionTimeLimit"])
def test_a_block_that_can_never_run_leads_to_its_own_explanation(tmp_path: Path, reason: str) -> None:
    run = on_cluster(tmp_path).write("queued", stage="sim", bundle=1, tasks=[0])
    block(run, "1-0", "pending", shape=SIM, reason="Priority")
    block(run, "1-1", "pending", shape=SIM, reason=reason, hopeless=True)
    document = explain_task(RunReader(run.paths), "sim", 0).document
    told = reason.removeprefix("Can Never Run: ")
    assert f"1-1 (job 101) can never run: {told}, and 1 more" in document["why"][0]
    assert "ask for less in `resources`, or fix pool 'cpu' of site" in document["next"]
    assert document["next"].endswith("`diel explain w-1 --block 1-1` tells more")
    alone = explain_block(RunReader(run.paths), "1-1").document
    assert alone["why"] == f"it can never run: {told}"
    assert "ask for less in `resources`" in alone["next"]
    lines = text_of_run(run).splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("sim: "))
    assert "can never run" in lines[place]
    assert lines[place + 1] == f"    next: {document['next']}"


def test_a_run_whose_controller_is_queued_waits_for_its_job(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW)
    queued(run.paths, make_submission(run.paths, "job"), "84")
    said = text_of_run(run).splitlines()[0]
    assert said == "w-1 pending: waits for its controller, job 84"
    assert why(run, "sim", 0) == "the run waits for its controller, job 84"


def test_a_silent_scheduler_and_trouble_are_told_with_it(tmp_path: Path) -> None:
    run = (
        on_cluster(tmp_path)
        .write("scheduler", message="squeue: timed out")
        .write("trouble", message="refused")
    )
    told = why(run, "sim", 0)
    assert "trouble: refused" in told
    assert told.endswith("the scheduler does not answer: squeue: timed out")


def test_the_run_tells_what_all_ready_tasks_of_a_stage_wait_for(tmp_path: Path) -> None:
    run = on_cluster(tmp_path).write("queued", stage="sim", bundle=1, tasks=[0, 1])
    block(run, "1-0", "pending", shape=SIM, reason="Resources")
    said = text_of_run(run)
    assert "sim: 4 tasks waiting: waits for a block: 1-0 (job 100) is pending: Resources" in said
    assert "mpi: 1 task waiting: waits for a block of shape cpu-2n" in said


def test_on_one_machine_a_task_waits_for_a_worker(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    run.paths.site.write_text(Site.model_validate({**SITE, "scheduler": "local"}).model_dump_json())
    assert why(run, "sim", 0) == "all its inputs are there: it waits for a free worker"
    run.paths.site.unlink()  # as in runs of earlier versions
    assert why(run, "sim", 0) == "all its inputs are there: it waits for a free worker"


# --- where attempts ran ---------------------------------------------------------------------------


def test_a_running_task_is_told_with_its_place(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", shape=SIM)
    Node(run.paths, "1-0", "n3").start("sim", 0)
    assert why(run, "sim", 0) == "attempt 1 is running on node n3, block 1-0 (job 100)"
    assert "(node n3, block 1-0 (job 100))" in text_of_run(run)
    (running,) = explain_run(RunReader(run.paths)).document["running"]
    assert (running["block"], running["job"], running["node"]) == ("1-0", "100", "n3")


def test_a_task_may_go_on_in_its_block_when_its_controller_is_gone(tmp_path: Path) -> None:
    run = on_cluster(tmp_path, alive=False)
    block(run, "1-0", shape=SIM)
    Node(run.paths, "1-0", "n3").start("sim", 0)
    told = (
        "it was running when the controller went away, and may continue there: node n3, block 1-0 (job 100)"
    )
    assert why(run, "sim", 0) == told
    block(run, "1-0", "timeout", shape=SIM)
    assert why(run, "sim", 0) == "it was running when the controller went away"


# --- a block --------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["1-0", "4711.pbs.site", "4711"])
def test_a_block_is_found_by_its_name_and_by_its_job(tmp_path: Path, word: str) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", job="4711.pbs.site")
    block(run, "1-1")
    assert explain_block(RunReader(run.paths), word).document["block"] == "1-0"


def test_a_block_tells_what_ran_in_it_and_what_its_job_said(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", "timeout", shape=SIM, reason="TIMEOUT", stderr_tail="DUE TO TIME LIMIT\n")
    block(run, "1-1", shape=SIM)
    Node(run.paths, "1-0", "n1").done("sim", 0).fail("sim", 1).start("sim", 2)
    Node(run.paths, "1-1", "n2").done("sim", 1, attempt=2).start("sim", 3)
    run.write("fail", stage="sim", index=2, attempt=1, **{"class": "walltime", "message": "its block ended"})
    run.paths.blocks.mkdir(parents=True)
    for name in ("1-0.sh", "1-0.err", "1-1.sh"):
        (run.paths.blocks / name).touch()
    document = explain_block(RunReader(run.paths), "1-0").document
    assert document["attempts"] == {"done": 1, "failed": 1, "lost": 1}
    assert [(one["task"], one["state"]) for one in document["tasks"]] == [
        ("sim/1", "failed"),
        ("sim/2", "lost"),
    ]
    said = text_of_block(run, "1-0")
    assert said.startswith(
        "w-1 block 1-0 timeout\n    why: its walltime of 1h00m was over\n    next: give tasks"
    )
    assert "sim/2 attempt 1 lost on n1" in said
    assert "│ DUE TO TIME LIMIT" in said
    assert "1-0.err" in said
    assert "1-1" not in said
    assert explain_block(RunReader(run.paths), "1-1").document["attempts"] == {"done": 1, "running": 1}


def test_an_attempt_that_runs_again_elsewhere_was_lost(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", shape=SIM)
    block(run, "1-1", shape=SIM)
    Node(run.paths, "1-0", "n1").start("sim", 0)
    Node(run.paths, "1-1", "n2").start("sim", 0, attempt=2)
    assert explain_block(RunReader(run.paths), "1-0").document["attempts"] == {"lost": 1}
    assert explain_block(RunReader(run.paths), "1-1").document["attempts"] == {"running": 1}


@pytest.mark.parametrize(
    ("state", "more", "told"),
    [
        ("pending", {"reason": "Resources"}, "it waits in the queue: Resources"),
        ("running", {}, "it runs"),
        ("running", {"ending": True}, "diel has given it back, and the scheduler is about to end it"),
        (
            "cancelled",
            {"ending": True},
            "diel gave it back: there was nothing more to do in it, or the run ended",
        ),
        ("cancelled", {"reason": "CANCELLED by 0"}, "it was cancelled from outside diel"),
        ("preempted", {}, "the scheduler took its nodes away for other jobs"),
        ("gone", {}, "nothing says how it ended"),
        ("oom", {"reason": "OUT_OF_MEMORY"}, "more memory than it had: OUT_OF_MEMORY"),
    ],
)
def test_why_a_block_stands_as_it_does(tmp_path: Path, state: str, more: dict[str, Any], told: str) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", state, **more)
    assert told in explain_block(RunReader(run.paths), "1-0").document["why"]


def test_a_run_tells_the_blocks_that_ended_badly(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    block(run, "1-0", "failed", reason="NonZeroExitCode", stderr_tail="no module python\n")
    block(run, "1-1", "cancelled", ending=True)
    run.write("trouble", message="a block was refused: Invalid account")
    said = text_of_run(run)
    assert "block 1-0 (job 100) ended: failed: NonZeroExitCode\n    │ no module python\n" in said
    assert "next: `diel explain w-1 --block 1-0`" in said
    assert "trouble: a block was refused: Invalid account" in said
    assert "1-1" not in said


def test_a_block_that_there_is_not_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    run = on_cluster(tmp_path)
    with pytest.raises(UsageError, match="asked no scheduler for any"):
        explain_block(RunReader(run.paths), "1-0")
    block(run, "1-0")
    with pytest.raises(UsageError, match=r"no block '1-7'; blocks: 1-0 \(job 100\)"):
        explain_block(RunReader(run.paths), "1-7")


def test_what_was_asked_for_is_told_with_its_units() -> None:
    asked = {"ranks": 4, "memory": 2**31, "timeout": 600.0, "pool": None, "limit": 2}
    assert words(asked) == "ranks 4, memory 2.0 GiB, timeout 10m00s, retries 2"
