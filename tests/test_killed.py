"""Nothing is lost: controllers and workers are killed at random moments, and the run still ends right."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

TASKS = 500
SEED = 20
WORKFLOW = """
diel: 1
name: killed
axes:
  i: {range: 499}
stages:
  work:
    over: [i]
    command: |
      echo "$DIEL_TASK_ID $DIEL_ATTEMPT $(date +%s.%N)" >> MARKS
      sleep 0.005
      echo "{\\"square\\": ${{ i * i }}}" > "$DIEL_RESULT"
    outputs: {square: {value: int}}
  total:
    params: {values: "${{ work.square }}"}
    module: total
"""
MODULE = """
import diel

@diel.module(kind="analysis")
def total(values: list[int]) -> dict:
    return {"count": len(values), "sum": sum(values)}
"""


class Project:
    """A workflow of 500 tasks, each attempt of which leaves a mark outside the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks = folder / "marks"
        (folder / "modules").mkdir(parents=True)
        (folder / "modules" / "total.py").write_text(MODULE)
        (folder / "killed.yaml").write_text(WORKFLOW.replace("MARKS", str(self.marks)))
        self.marks.touch()

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "diel", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def records(self, run: str) -> list[dict[str, object]]:
        lines: list[dict[str, object]] = []
        for segment in sorted((self.folder / "runs" / run / "journal").glob("*.jsonl")):
            whole = segment.read_bytes().rpartition(b"\n")[0]
            lines += [json.loads(line) for line in whole.splitlines()]
        return lines

    def workers(self, run: str) -> list[psutil.Process]:
        alive = []
        for record in self.records(run):
            if record["event"] == "worker" and psutil.pid_exists(int(str(record["pid"]))):
                alive.append(psutil.Process(int(str(record["pid"]))))
        return alive

    def run_dir(self, run: str) -> Path:
        return self.folder / "runs" / run


def wait_for_more(project: Project, process: subprocess.Popen[bytes], marks: int) -> None:
    """Waits until another attempt has begun, or the run is over."""
    end = time.monotonic() + 120
    while process.poll() is None and count_marks(project) <= marks:
        assert time.monotonic() < end, "nothing more began"
        time.sleep(0.01)


def kill_a_worker(project: Project, run: str, dice: random.Random) -> None:
    workers = project.workers(run)
    if workers:
        dice.choice(workers).send_signal(signal.SIGKILL)


def check(project: Project, run: str) -> None:
    """Each task has one committed result, and none began again after that."""
    done = [record for record in project.records(run) if record["event"] == "done"]
    counts = Counter((record["stage"], record["index"]) for record in done)
    assert len(counts) == TASKS
    assert set(counts.values()) == {1}
    committed = {f"{record['stage']}/{record['index']}": float(str(record["time"])) for record in done}
    attempts: Counter[tuple[str, str]] = Counter()
    for line in project.marks.read_text().splitlines():
        task, attempt, began = line.split()
        attempts[(task, attempt)] += 1
        assert float(began) <= committed[task], f"{task} began again after its result was committed"
    assert set(attempts.values()) == {1}, "an attempt ran twice"
    begun: dict[tuple[object, object], list[object]] = {}
    for record in project.records(run):
        if record["event"] == "start":
            begun.setdefault((record["stage"], record["index"]), []).append(record["attempt"])
    assert all(sorted(found) == [*range(1, len(found) + 1)] for found in begun.values())  # type: ignore[type-var]
    total = next(record for record in done if record["stage"] == "total")
    assert total["values"] == {"count": TASKS - 1, "sum": sum(i * i for i in range(TASKS - 1))}


def disturb(folder: Path, kills: int, seed: int) -> Counter[str]:
    """Kills at random moments of one run after the other until there were enough; checks each run."""
    dice = random.Random(seed)
    done: Counter[str] = Counter()
    round_ = 0
    while done.total() < kills:
        round_ += 1
        project = Project(folder / str(round_))
        run = "killed-1"
        process = project.start("run", "killed.yaml")
        marks = 0
        while True:
            wait_for_more(project, process, marks)
            if process.poll() is not None or done.total() >= kills:
                break
            time.sleep(dice.uniform(0, 1.2))
            mode = dice.choice(["controller", "worker", "both"])
            if process.poll() is None:
                done[mode] += 1
            if mode in ("worker", "both"):
                kill_a_worker(project, run, dice)
            if mode in ("controller", "both") and process.poll() is None:
                process.kill()
                process.communicate()
                process = project.start("resume", run)
            marks = count_marks(project)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output.decode()
        check(project, run)
        left = [p for p in psutil.process_iter() if _belongs(p, project.run_dir(run))]
        assert not left, "processes were left behind"
    return done


def _belongs(process: psutil.Process, run_dir: Path) -> bool:
    try:
        return process.environ().get("DIEL_RUN_DIR") == str(run_dir) and process.pid != os.getpid()
    except (psutil.Error, OSError):
        return False


def count_marks(project: Project) -> int:
    return project.marks.read_bytes().count(b"\n")


def test_a_run_survives_ten_kills(tmp_path: Path) -> None:
    """`make campaign` kills ten runs twenty times each."""
    done = disturb(tmp_path, kills=10, seed=SEED)
    assert done.total() >= 10
    assert set(done) == {"controller", "worker", "both"}


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10))
def test_a_run_survives_two_hundred_kills(tmp_path: Path, seed: int) -> None:
    disturb(tmp_path, kills=20, seed=seed)


IDLE = """
diel: 1
name: idle
axes:
  i: {range: 210}
stages:
  before: {over: [i], command: ["true"]}
  alone: {after: [before], command: "touch begun; while [ ! -e GO ]; do sleep 0.05; done"}
  behind: {over: [i], after: [alone], command: ["true"]}
"""


def test_a_worker_killed_while_it_waits_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """Such a worker takes the lock of Parsl's queue with it: no other would ever get a task again."""
    project = Project(tmp_path)
    go = tmp_path / "go"
    (tmp_path / "idle.yaml").write_text(IDLE.replace("GO", str(go)))
    process = project.start("run", "idle.yaml")
    begun = project.run_dir("idle-1") / "tasks" / "alone" / "0" / "begun"
    end = time.monotonic() + 60
    while not begun.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    idle = [worker for worker in project.workers("idle-1") if not worker.children()]
    assert idle
    for worker in idle:
        worker.send_signal(signal.SIGKILL)
    go.touch()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output.decode()
