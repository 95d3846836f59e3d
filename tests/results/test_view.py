"""A recorded run as its controller sees it."""

from __future__ import annotations

from pathlib import Path

from diel.results import Recorded
from diel.results.view import RunView
from tests.handmade import Handmade

FLOW = """
axes:
  t: {values: [10, 20]}
  found: {from: fit.list}
stages:
  sim: {over: [t], command: [x], outputs: {e: {value: float}}}
  fit: {command: [fit, "${{ inputs.e }}"], inputs: {e: sim.e}, outputs: {list: {value: list}}}
  end: {over: [found], command: [x]}
"""


def made(folder: Path, name: str = "w-1") -> Handmade:
    return Handmade(folder, FLOW, name).stage("sim", 2).stage("fit", 1).done("sim", 1, e=0.5)


def test_its_links_and_recipes_give_what_a_task_reads(tmp_path: Path) -> None:
    run = made(tmp_path)
    view = RunView(Recorded(run.paths))
    (link,) = view.into("fit")
    assert (link.up.name, list(link.members(()))) == ("sim", [0, 1])
    assert view.recipe("fit").resolve(0).command == ("fit", "0.5"), "as far as there are results"
    run.done("sim", 0, e=1.5)
    assert RunView(Recorded(run.paths)).recipe("fit").resolve(0).command == ("fit", "1.5", "0.5")


def test_an_axis_that_is_not_known_yet_is_named_with_its_maker(tmp_path: Path) -> None:
    view = RunView(Recorded(made(tmp_path).paths))
    assert view.unknown_axes("end") == [("found", "fit")]
    assert not view.stages["end"].known
    assert view.unknown_axes("sim") == []


def test_earlier_runs_are_those_of_the_same_workflow_the_nearest_first(tmp_path: Path) -> None:
    for name in ("w-1", "other-1", "w-2", "w-3", "w-4"):
        made(tmp_path, name)
    (tmp_path / "runs" / "w-2" / "run.json").write_text("{")
    view = RunView(Recorded(made(tmp_path, "w-5").paths))
    for _ in range(2):
        assert [old.run.paths.run_id for old in view.earlier()] == ["w-4", "w-3", "w-1"]
