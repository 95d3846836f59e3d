"""What waits for what: the tasks upstream that are not done, or never will be."""

from __future__ import annotations

from pathlib import Path

from tests.explain.test_run import flow, of_run, of_task


def test_a_skipped_task_names_the_tasks_that_it_lacks_and_where_it_began(tmp_path: Path) -> None:
    run = flow(tmp_path).done("sim", 0, e=1).failed("sim", 1).done("sim", 2, e=3)
    run.skipped("fit", 0, 1, cause="sim").skipped("score", *range(6), cause="fit")
    run.skipped("last", 0, cause="score").skipped("pick", 0, cause="fit")
    run.end("failed")
    skips = {skip["stage"]: skip for skip in of_run(run)["skipped"]}
    assert (skips["fit"]["count"], skips["fit"]["cause"], skips["fit"]["roots"]) == (2, "sim", ["sim/1"])
    assert skips["last"]["roots"] == ["sim/1"], "the chain is followed to the task that failed"
    assert of_task(run, "fit", 1)["why"] == ["what it reads has no result: sim/1 (t=20) failed"]
    assert of_task(run, "last", 0)["why"] == [
        "what it reads has no result: score/0 (r=a, t=10) skipped, score/1 (r=a, t=20) skipped, "
        "score/2 (r=a, t=30) skipped, score/3 (r=b, t=10) skipped, score/4 (r=b, t=20) skipped and 1 more",
        "it began with sim/1 (t=20): `diel explain w-1 sim/1`",
    ]


def test_a_waiting_stage_names_the_stages_and_tasks_that_it_waits_for(tmp_path: Path) -> None:
    run = flow(tmp_path, alive=True).done("sim", 0, e=1)
    run.write("queued", stage="sim", bundle=1, tasks=[1, 2]).work("start", "sim", 1)
    waits = {wait["stage"]: wait for wait in of_run(run)["waiting"]}
    assert waits["fit"]["count"] == 2
    (one,) = waits["fit"]["for"]
    assert (one["stage"], one["open"], one["total"]) == ("sim", 2, 3)
    assert one["states"] == {"running": 1, "queued": 1}
    assert one["tasks"] == ("sim/1", "sim/2")
    assert waits["end"]["text"] == "axis 'found' is known when 'pick' is done"
    assert waits["end"]["count"] is None
    (running,) = of_run(run)["running"]
    assert (running["task"], running["worker"]) == ("sim/1", "worker-0001-node-7-abc")
    assert running["seconds"] > 0


def test_a_waiting_task_names_only_what_it_reads_itself(tmp_path: Path) -> None:
    run = flow(tmp_path, alive=True).done("sim", 0, e=1).done("fit", 0, m=1)
    waits = of_task(run, "score", 4)["waits_for"]  # r = b, t = 20
    assert [wait["tasks"] for wait in waits] == [("fit/1",), ("sim/1",)]
    assert of_task(run, "score", 0)["why"] == ["all its inputs are there: it waits for a free worker"]
