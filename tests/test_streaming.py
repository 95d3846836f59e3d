"""Streams, the tuple space and stages beside each other, as a user sees them, also when something is killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.throwaway import Project, Run, wait_for

ITEMS = 150

MAKE = """
    import os, time
    import numpy as np

    @diel.module(kind="simulation")
    def make(context: diel.Context, seed: int = 0, count: int = 20, pause: float = 0.0) -> dict:
        (context.task_dir / "pid").write_text(str(os.getpid()))
        out = context.stream("samples")
        for number in range(count):
            out.put({"at": [seed, number], "x": np.full((2, 3), number, dtype=np.float32)})
            time.sleep(pause)
        return {"made": count}
"""
LEARN = """
    import os

    @diel.module(kind="training")
    def learn(context: diel.Context) -> dict:
        (context.task_dir / "pid").write_text(str(os.getpid()))
        got = [(*item["at"], float(item["x"][1, 2])) for item in context.stream("samples")]
        return {"got": sorted(got)}
"""
FLOW = """
    axes:
      seed: {range: 3}
    stages:
      make:
        over: [seed]
        module: make
        params: {count: 150, pause: 0.01}
        outputs: {samples: {stream: {buffer: 20}}}
        retries: 5
      learn:
        module: learn
        inputs: {samples: make.samples}
        retries: 5
"""
ALL = [[seed, number, float(number)] for seed in range(3) for number in range(ITEMS)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).module("make", MAKE).module("learn", LEARN).machine("wide", 4)


def run(project: Project, text: str, *words: str, code: int = 0) -> Run:
    return project.workflow(text).run("--site", "wide", *words, code=code)


def test_items_arrive_once_while_their_producers_still_run(project: Project) -> None:
    made = run(project, FLOW)
    assert made.value("learn", "got") == ALL
    begun = made.records("start", "learn")[0]["time"]
    assert all(begun < record["time"] for record in made.results("make").values())
    facts = json.loads(project.diel("status", "--json"))["streams"]["make.samples"]
    assert (facts["items"], facts["closed"]) == (3 * ITEMS, True)
    assert "stream make.samples: 450 items, complete" in project.diel("status")


@pytest.mark.parametrize("who", ["make", "learn", "broker"])
def test_nothing_is_lost_and_nothing_comes_twice_when_one_of_them_is_killed(
    project: Project, who: str
) -> None:
    process = project.workflow(FLOW).start("run", "--quiet", "--site", "wide", "flow.yaml")
    wait_for(lambda: len(_pids(project, "make")) == 3 and bool(_pids(project, "learn")), 60)
    made = project.newest()
    if who == "broker":
        contact = made.root / "streams" / "broker.json"
        first = json.loads(contact.read_text(encoding="utf-8"))["pid"]
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: json.loads(contact.read_text(encoding="utf-8"))["pid"] != first, 30)
    else:
        os.kill(_pids(project, who)[-1], signal.SIGKILL)
    project.end(process, seconds=120)
    assert made.value("learn", "got") == ALL
    if who != "broker":
        assert [record["class"] for record in made.records("fail", who)] == ["node"]
    assert made.processes() == []


def test_a_killed_controller_is_resumed_with_the_same_items(project: Project) -> None:
    process = project.workflow(FLOW).start("run", "--quiet", "--site", "wide", "flow.yaml")
    wait_for(lambda: len(_pids(project, "make")) == 3 and bool(_pids(project, "learn")), 60)
    process.kill()
    process.communicate()
    project.diel("resume", "--quiet", seconds=120)
    made = project.newest()
    assert made.value("learn", "got") == ALL
    assert made.processes() == []


def test_what_runs_beside_others_is_not_taken_from_the_cache(project: Project) -> None:
    flow = FLOW.replace("0.01", "0.0")
    run(project, flow)
    assert run(project, flow).counts("learn") == {"done": 1}


def _pids(project: Project, stage: str) -> list[int]:
    """The processes that are at a stage's tasks, newest last."""
    files: list[Any] = sorted(
        (project.folder / "runs").glob(f"flow-*/tasks/{stage}/*/pid"), key=lambda path: path.stat().st_mtime
    )
    found = [int(path.read_text(encoding="utf-8") or 0) for path in files]
    return [pid for pid in found if psutil.pid_exists(pid)]
