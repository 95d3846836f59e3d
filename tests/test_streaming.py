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
SITE = "name: wide\nscheduler: local\npools:\n  local: {cores: 4}\n"

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
    made = Project(tmp_path)
    made.module("make", MAKE)
    made.module("learn", LEARN)
    (tmp_path / "schedulers").mkdir()
    (tmp_path / "schedulers" / "wide.yaml").write_text(SITE, encoding="utf-8")
    return made


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


def test_axes_in_both_stages_are_matched_and_readers_may_share(project: Project) -> None:
    text = """
        axes:
          seed: {range: 2}
          reader: {range: 2}
        stages:
          make:
            over: [seed]
            module: make
            outputs: {samples: {stream: true}}
          learn:
            over: [seed, reader]
            module: learn
            inputs: {samples: {from: make.samples, share: SHARE}}
    """
    every = run(project, text.replace("SHARE", "false"))
    assert [len(got) for got in every.values("learn", "got")] == [20] * 4
    assert [{item[0] for item in got} for got in every.values("learn", "got")] == [{0}, {0}, {1}, {1}]
    shared = run(project, text.replace("SHARE", "true"), "--no-cache").values("learn", "got")
    assert sorted(shared[0] + shared[1]) == [[0, number, float(number)] for number in range(20)]
    assert sorted(shared[2] + shared[3]) == [[1, number, float(number)] for number in range(20)]


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


def test_stages_beside_each_other_share_the_tuple_space(project: Project) -> None:
    half = """
        @diel.module(kind="simulation")
        def {0}(context: diel.Context, steps: int = 30) -> dict:
            x = {2}
            for step in range(steps):
                context.space.put(("{0}", step), x)
                x = 0.5 * (x + context.space.take(("{1}", step), timeout=60)[1])
            return {{"x": x}}
    """
    project.module("left", half.format("left", "right", 1.0))
    project.module("right", half.format("right", "left", 3.0))
    made = run(project, "stages:\n  left: {module: left}\n  right: {module: right, beside: [left]}\n")
    assert (made.value("left", "x"), made.value("right", "x")) == (2.0, 2.0)


def test_what_runs_beside_others_is_not_taken_from_the_cache(project: Project) -> None:
    flow = FLOW.replace("0.01", "0.0")
    run(project, flow)
    assert run(project, flow).counts("learn") == {"done": 1}


def test_a_gang_waits_for_the_room_that_all_of_it_needs(project: Project) -> None:
    """Four cores: the sleepers leave too few of them, so that neither half begins before they end."""
    project.module(
        "sleeper",
        """
        import time

        @diel.module(kind="analysis")
        def sleeper(number: int) -> dict:
            time.sleep(0.6)
            return {"number": number}
        """,
    )
    made = run(
        project,
        """
        axes:
          number: {range: 3}
        stages:
          sleeper: {over: [number], module: sleeper}
          make: {module: make, resources: {cores_per_rank: 2}, outputs: {samples: {stream: true}}}
          learn:
            module: learn
            resources: {cores_per_rank: 2}
            inputs: {samples: make.samples}
        """,
    )
    ended = sorted(record["time"] for record in made.results("sleeper").values())
    begun = [record["time"] for name in ("make", "learn") for record in made.records("start", name)]
    slept = [record["time"] for record in made.records("start", "sleeper")]
    assert min(begun) >= ended[-1] or max(begun) <= min(slept)


def _pids(project: Project, stage: str) -> list[int]:
    """The processes that are at a stage's tasks, newest last."""
    files: list[Any] = sorted(
        (project.folder / "runs").glob(f"flow-*/tasks/{stage}/*/pid"), key=lambda path: path.stat().st_mtime
    )
    found = [int(path.read_text(encoding="utf-8") or 0) for path in files]
    return [pid for pid in found if psutil.pid_exists(pid)]


def test_a_producer_that_failed_runs_again_on_resume_and_its_items_follow(project: Project) -> None:
    """Reader and producer fail in the first run; the reader gets all items in the second."""
    marker = project.folder / "again"
    unready = f"assert seed != 1 or os.path.exists({str(marker)!r})"
    project.module("make", MAKE.replace("for number in", f"{unready}\n        for number in"))
    project.module(
        "learn",
        LEARN.replace('return {"got"', f'assert os.path.exists({str(marker)!r})\n        return {{"got"'),
    )
    made = run(project, FLOW.replace("retries: 5", "retries: 0").replace("0.01", "0.0"), code=1)
    assert (made.counts("make"), made.counts("learn")) == ({"done": 2, "failed": 1}, {"failed": 1})
    marker.touch()
    project.diel("resume", "--quiet")
    assert made.value("learn", "got") == ALL
