"""What is to be told of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.base.states import RunState
from diel.controller.notify import Notice, due, ended
from diel.store.journal.snapshot import read_run
from tests.handmade import Handmade

FLOW = "stages: {sim: {command: [x]}, end: {command: [x]}}"


def told(run: Handmade, later: float = 10.0, after: float = 3600.0) -> list[Notice]:
    return list(due(read_run(run.paths).history, run.paths, run.clock + later, after))


def test_the_first_failure_is_told_with_its_cause_once_nobody_went_on_without_it(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("sim", 3)
    run.failed("sim", 1, headline="the mesh is empty", point={"x": 2}).failed("sim", 2)
    assert told(run, later=0.5)[0].subject.startswith("w-1: sim/1")
    (notice,) = told(run)
    assert (notice.key, notice.subject) == ("failed", "w-1: sim/1 (x=2) failed")
    assert notice.lines[0] == "class app: the mesh is empty"
    run.write("tolerated", stage="sim", tasks=[[1, 2]], cause="search trial")
    assert told(run) == []


def test_a_held_stage_asks_with_its_answer(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("sim", 9)
    run.write("held", stage="sim", rule="hold", why="its first 4 tasks failed alike")
    (notice,) = told(run)
    assert notice.subject == "w-1 waits for an answer: 'sim' is held"
    assert "diel resume w-1 --anyway" in notice.lines[1]
    run.write("held", stage="sim", rule="max_failures", why="5 tasks failed")
    assert told(run) == []


def test_a_block_that_waits_long_is_told_with_the_schedulers_reason(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW)
    block: dict[str, Any] = {"block": "b1", "job": "77", "epoch": 1, "pool": "gpu", "shape": "s", "needs": {}}
    block |= {
        "nodes": "",
        "walltime": 60.0,
        "asked": run.clock,
        "began": None,
        "ended": None,
        "ending": False,
    }
    run.write("block", **block, state="pending", reason="Priority", stderr_tail="")
    assert told(run, later=3590) == []
    (notice,) = told(run, later=3700)
    assert (notice.key, notice.lines[0]) == ("waiting-b1", "block b1 in pool gpu: Priority")
    run.write("block", **block, state="running", reason="", stderr_tail="")
    assert told(run, later=9000) == []


def test_an_end_says_how_and_how_many(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("sim", 2).done("sim", 0).failed("sim", 1)
    history = read_run(run.paths).history
    notice = ended(history, run.paths, RunState.FAILED, 2, history.began + 125)
    assert (notice.key, notice.subject) == ("ended-2", "w-1 failed after 2m05s")
    assert notice.lines[0] == "tasks: 1 done, 1 failed"
