"""A controller drives its run to the end, and lets go of it for another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.backends.blocks.block import ControllerReplaced
from diel.base.states import RunState
from diel.controller.controller import Controller
from diel.controller.start import start, take_over
from diel.planning.plan import prepare
from diel.store.journal.history import History
from diel.store.journal.snapshot import read_run
from tests.throwaway import Run

FLOW = """
axes: {n: {range: 6}}
stages:
  up: {over: [n], command: 'echo "{\\"x\\": ${{ n }}}" > "$DIEL_RESULT"', outputs: {x: {value: int}}}
  down: {over: [n], command: [echo, "${{ up.x }}"]}
"""
LONG = "stages: {wait: {command: [sleep, '100']}}\n"


def controller(folder: Path, text: str, cores: int = 1) -> Controller:
    (folder / "w.yaml").write_text(f"diel: 1\nname: w\n{text}")
    (folder / "schedulers").mkdir()
    site = f"name: small\nscheduler: local\npools: {{here: {{cores: {cores}}}}}\n"
    (folder / "schedulers" / "small.yaml").write_text(site)
    return start(prepare(folder / "w.yaml", site="small"), Path("runs"))


def unwatched(_: History) -> None:
    """Nobody watches."""


def test_results_flow_through_before_the_first_stage_is_over(workspace: Path) -> None:
    made = controller(workspace, FLOW.replace("range: 6", "range: 40"))
    assert made.drive(unwatched) is RunState.SUCCEEDED
    run = Run(made.paths.root)
    began = {stage: [record["time"] for record in run.records("start", stage)] for stage in ("up", "down")}
    assert min(began["down"]) < max(began["up"])
    assert run.processes() == []


def test_a_run_that_is_let_go_is_the_next_controllers(workspace: Path) -> None:
    made = controller(workspace, FLOW)

    def watch(_: History) -> None:
        made.let_go()

    assert made.drive(watch) is RunState.INTERRUPTED
    assert read_run(made.paths).history.state is not RunState.SUCCEEDED
    assert take_over(made.paths).drive(unwatched) is RunState.SUCCEEDED
    assert len(Run(made.paths.root).results("down")) == 6


def test_a_run_that_is_let_go_before_it_is_driven_begins_nothing(workspace: Path) -> None:
    made = controller(workspace, FLOW)
    made.let_go()
    assert made.drive(unwatched) is RunState.INTERRUPTED
    assert not Run(made.paths.root).records("start")
    assert take_over(made.paths).drive(unwatched) is RunState.SUCCEEDED


def test_a_controller_whose_run_another_one_took_stops_and_writes_no_end(workspace: Path) -> None:
    made = controller(workspace, LONG)

    def watch(_: History) -> None:
        made.paths.controller_segment(2).touch()

    with pytest.raises(ControllerReplaced, match="another controller drives w-1; this one stops"):
        made.drive(watch)
    assert not Run(made.paths.root).records("end")
