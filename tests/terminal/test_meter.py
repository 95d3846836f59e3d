"""How far a run is, measured from inside its controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.backends.blocks.dispatcher import SentBundle
from diel.base.states import TaskState
from diel.controller.controller import Controller
from diel.controller.start import create
from diel.planning.check import check
from diel.planning.plan import Plan, make_plan
from diel.site.site import Site
from diel.store.journal.history import History
from diel.store.project.lease import take
from diel.store.project.run_file import read_run_file
from diel.ui.terminal.meter import Meter, blocks_text
from tests.record import as_record


class Clock:
    """Time that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Run:
    """A real controller that has handed nothing out: stages of 100 one-core tasks on 4 cores."""

    def __init__(self, folder: Path, text: str) -> None:
        site = Site.model_validate({"name": "here", "scheduler": "local", "pools": {"local": {"cores": 4}}})
        plan = make_plan(check(folder / "w.yaml", text=f"diel: 1\nname: w\n{text}"), site)
        paths = create(plan, folder / "runs")
        lease, segment = take(paths)
        self.controller = Controller(plan, read_run_file(paths), paths, lease, segment)
        self.controller._stages.open()
        self.history = self.controller.history

    def finish(self, name: str, count: int, seconds: float) -> None:
        """Ends the next tasks of a stage, each after so many seconds of run time."""
        stage, run = self.history.stage(name), self.controller.stages[name]
        for index in range(run.ended, run.ended + count):
            stage.set(index, TaskState.DONE)
        run.ended += count
        stage.timed += count
        stage.seconds += count * seconds


ONE = "axes: {i: {range: 100}}\nstages: {a: {over: [i], command: [x]}}"
TWO = "axes: {i: {range: 100}}\nstages: {a: {over: [i], command: [x]}, b: {over: [i], command: [x]}}"
MADE = """
axes: {i: {range: 100}, j: {from: list.found}}
stages:
  list: {command: [x], outputs: {found: {value: list}}}
  a: {over: [i], command: [x]}
  b: {over: [j], command: [x]}
"""
LOOP = """
axes: {i: {loop: {max: 100, until: "${{ a.v > 1 }}"}}}
stages: {a: {over: [i], command: [x], outputs: {v: {value: float}}}}
"""


TIMES = {
    "it is scaled by how fast it really went: two at a time": (ONE, {}, 20, 40, (30.0, "")),
    "a stage that has not begun is taken to be like the others": (TWO, {}, 10, 100, (10.0, "~")),
    "a stage of unknown size makes it a lower bound": (MADE, {"list": 1}, 10, 50, (10.0, "≥")),
    "a loop that may end early makes it an upper bound": (LOOP, {}, 10, 50, (10.0, "≤")),
    "what an earlier controller did says nothing of this one's speed": (ONE, {"a": 50}, 10, 25, (10.0, "")),
}
"""A workflow, what had ended before, and the seconds in which so many tasks of a second then do."""


@pytest.mark.parametrize("case", TIMES)
def test_the_time_that_is_left(clock: Clock, tmp_path: Path, case: str) -> None:
    text, before, seconds, count, left = TIMES[case]
    run = Run(tmp_path, text)
    for name, ended in before.items():
        run.finish(name, ended, 1.0)
    measured = Meter(run.controller)
    measured.begin(run.history)
    assert before or measured.time_left(run.history) is None
    clock.now += seconds
    run.finish("a", count, 1.0)
    assert measured.time_left(run.history) == pytest.approx(left)


def test_tasks_at_points_that_never_came_are_not_counted(clock: Clock, tmp_path: Path) -> None:
    run = Run(tmp_path, ONE)
    run.finish("a", 30, 1.0)
    run.history.apply({"event": "skipped", "stage": "a", "tasks": [[30, 98]], "reason": "axis", "time": 1.0})
    (row,) = Meter(run.controller).rows(run.history)
    assert (row.good, row.total, row[TaskState.SKIPPED]) == (30, 31, 0)


def test_the_rate_is_that_of_late(clock: Clock, tmp_path: Path) -> None:
    run = Run(tmp_path, ONE)
    measured = Meter(run.controller)
    (row,) = measured.rows(run.history)
    assert row.rate is None
    for _ in range(30):
        clock.now += 1
        run.finish("a", 3, 0.1)
        (row,) = measured.rows(run.history)
    assert row.rate == pytest.approx(3.0)
    assert row.good == 90


@pytest.mark.parametrize(("cores", "running"), [(1, 4), (2, 2), (4, 1)])
def test_only_as_many_tasks_run_as_there_are_cores(
    clock: Clock, tmp_path: Path, cores: int, running: int
) -> None:
    run = Run(tmp_path, ONE.replace("[x]", f"[x], resources: {{cores_per_rank: {cores}}}"))
    stage = run.controller.stages["a"]
    for number in range(8):
        run.controller._dispatcher.sent[number] = SentBundle(
            stage, (), 0.0, run.controller._dispatcher.cores(stage)
        )
    (row,) = Meter(run.controller).rows(run.history)
    assert row[TaskState.RUNNING] == running


# --- blocks ---------------------------------------------------------------------------------------


def test_what_runs_in_blocks_is_what_the_journal_says(clock: Clock, tmp_path: Path) -> None:
    run = Run(tmp_path, ONE)
    run.controller.plan = plan()
    for index in range(7):  # more than the plan's capacity: blocks come and go
        run.history.stage("a").set(index, TaskState.RUNNING)
    run.history.stage("a").set(7, TaskState.QUEUED)
    row, _ = Meter(run.controller).rows(run.history)
    assert row[TaskState.RUNNING] == 7


def plan() -> Plan:
    """Two shapes on a pool of two-node blocks with eight cores a node."""
    text = "stages: {a: {command: [x]}, b: {command: [x], resources: {ranks: 4, nodes: 3}}}"
    pool = {"cores": 8, "nodes": 4, "block_nodes": 2, "blocks": 4}
    site = Site.model_validate({"name": "here", "scheduler": "slurm", "pools": {"cpu": pool}})
    return make_plan(check(Path("w.yaml"), text=f"diel: 1\nname: w\n{text}"), site)


def with_blocks(*blocks: tuple[str, str, str], silent: str = "") -> History:
    history = History(silent=silent)
    for number, (state, shape, reason) in enumerate(blocks):
        record = {"block": f"1-{number}", "job": str(100 + number), "pool": "cpu", "shape": shape}
        ended = None if state in ("pending", "running", "ending") else 1.0
        more = {"state": state.replace("given back", "running"), "reason": reason, "ended": ended}
        more["hopeless"] = reason == "PartitionNodeLimit"
        history.apply(as_record({"event": "block", "ending": False, **record, **more}))
    return history


@pytest.mark.parametrize(
    ("blocks", "told"),
    [
        ([], ""),
        ([("pending", "cpu-1c", "Priority")], "waiting for a block: job 100 pending (Priority)"),
        ([("pending", "cpu-1c", "")], "waiting for a block: job 100 pending"),
        (
            [("pending", "cpu-1c", "Priority"), ("pending", "cpu-3n", "PartitionNodeLimit")],
            "waiting for a block: job 101 pending (PartitionNodeLimit) and 1 more",
        ),
        ([("running", "cpu-1c", "")], "1 block, 16 cores"),
        ([("running", "cpu-1c", ""), ("running", "cpu-3n", "")], "2 blocks, 40 cores"),
        (
            [("running", "cpu-1c", ""), ("pending", "cpu-1c", "Resources")],
            "1 block, 16 cores, job 101 pending (Resources)",
        ),
        ([("completed", "cpu-1c", "")], ""),
    ],
)
def test_blocks_are_told_in_a_line(blocks: list[tuple[str, str, str]], told: str) -> None:
    assert blocks_text(plan(), with_blocks(*blocks)) == told


def test_a_scheduler_that_does_not_answer_is_told_with_them() -> None:
    history = with_blocks(("running", "cpu-1c", ""), silent="squeue:\ntimed out")
    assert (
        blocks_text(plan(), history) == "1 block, 16 cores, the scheduler does not answer: squeue: timed out"
    )


def test_a_shape_that_only_retries_have_is_as_large_as_its_pools_blocks() -> None:
    assert blocks_text(plan(), with_blocks(("running", "cpu-1c-4096MiB", ""))) == "1 block, 16 cores"
