"""Producers, readers, broker and controller of a run are killed: each item arrives, and none twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from diel.streams.contact import read_contact
from tests.project import Project, Run, wait_for

SITE = "name: wide\nscheduler: local\npools:\n  local: {cores: 4}\n"
FLOW = """
    axes:
      seed: {range: 2}
      reader: {range: 2}
    stages:
      make:
        over: [seed]
        module: "ends:make"
        params: {count: COUNT}
        outputs: {samples: {stream: {buffer: 50}}}
        retries: 50
      use:
        over: [reader]
        module: "ends:use"
        inputs: {samples: {from: make.samples, share: true}}
        retries: 50
"""
MODULES = """
    import json, os, time
    import numpy as np

    @diel.module(kind="simulation")
    def make(context: diel.Context, seed: int, count: int) -> dict:
        (context.task_dir / "pid").write_text(str(os.getpid()))
        out = context.stream("samples")
        for number in range(count):
            large = number % 97 == 0  # too large for the broker: it goes through a file
            out.put({"at": [seed, number], "x": np.full(10_000 if large else 3, number)})
            if number >= out.count:
                time.sleep(0.004)
        return {"made": count}

    @diel.module(kind="training")
    def use(context: diel.Context, reader: int = 0) -> dict:
        (context.task_dir / "pid").write_text(str(os.getpid()))
        items, begun, part = context.stream("samples"), None, []

        def keep() -> None:  # under a name made of its place, so that it is written again as it was
            path = context.run_dir / "parts" / f"{context.index}-{begun:06d}.json"
            path.parent.mkdir(exist_ok=True)
            path.with_suffix(".part").write_text(json.dumps(part))
            os.replace(path.with_suffix(".part"), path)
            items.commit()

        begun = items.number
        for item in items:
            assert set(item["x"]) == {item["at"][1]}
            part.append(item["at"])
            if len(part) == 20:
                keep()
                begun, part = items.number, []
        keep()
        return {"read": items.number}
"""


class Killed:
    """A run of which something is killed now and then; its controller is followed by the next one."""

    def __init__(self, project: Project, seed: int) -> None:
        self._project = project
        self._choose = random.Random(seed)
        self._process = project.start("run", "--quiet", "--site", "wide", "flow.yaml")
        wait_for(lambda: self._pids("make") and self._pids("use"), 60)
        self.run: Run = project.newest()

    def kill(self, who: str) -> None:
        """Raises nothing where it is not there: what is killed starts again in its own time."""
        pids = self._pids(who)
        if who == "controller":
            self._process.kill()
            self._process.communicate()
            self._process = self._project.start("resume", "--quiet")
        elif pids:
            os.kill(self._choose.choice(pids), signal.SIGKILL)

    def kill_at_random(self, times: int) -> None:
        for _ in range(times):
            time.sleep(self._choose.uniform(0.1, 1.0))
            if self._process.poll() is not None:
                return
            self.kill(self._choose.choice(["make", "use", "broker", "controller"]))

    def end(self) -> None:
        """Lets it go on to its end; whatever the kills did to its tasks, a resume finishes it."""
        try:
            self._project.end(self._process, code=None, seconds=180)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        self._project.diel("resume", "--quiet", seconds=180)

    def _pids(self, who: str) -> list[int]:
        if who == "broker":
            contact = read_contact(self.run.root / "streams")
            return [contact.pid] if contact is not None and psutil.pid_exists(contact.pid) else []
        files = (self._project.folder / "runs").glob(f"flow-*/tasks/{who}/*/pid")
        found = [int(path.read_text(encoding="utf-8") or 0) for path in files]
        return [pid for pid in found if pid and _is_worker(pid)]


def _is_worker(pid: int) -> bool:
    """Whether the process is there, and no other that has its number now."""
    try:
        return "DIEL_RUN_DIR" in psutil.Process(pid).environ()
    except psutil.Error:
        return False


def check(run: Run, count: int) -> None:
    parts = sorted((run.root / "parts").glob("*.json"))
    items = [tuple(item) for path in parts for item in json.loads(path.read_text(encoding="utf-8"))]
    assert sorted(items) == [(seed, number) for seed in range(2) for number in range(count)]
    assert sum(run.values("use", "read")) == 2 * count
    assert run.values("make", "made") == [count, count]
    assert run.processes() == []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "schedulers").mkdir()
    (tmp_path / "schedulers" / "wide.yaml").write_text(SITE, encoding="utf-8")
    return Project(tmp_path).module("ends", MODULES)


def test_each_of_them_is_killed_and_each_item_arrives_once(project: Project) -> None:
    project.workflow(FLOW.replace("COUNT", "400"))
    killed = Killed(project, seed=1)
    for who in ("broker", "make", "use", "controller"):
        killed.kill(who)
    killed.end()
    check(killed.run, 400)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(3))
def test_twenty_kills_at_random_moments_lose_nothing_and_double_nothing(project: Project, seed: int) -> None:
    project.workflow(FLOW.replace("COUNT", "4000"))
    killed = Killed(project, seed)
    killed.kill_at_random(20)
    killed.end()
    check(killed.run, 4000)
