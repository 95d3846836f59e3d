"""RO-Crates are read back by their own library, and pass its validator where that is installed and has a network."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.export import take_out
from diel.observe.results import RunReader
from tests.handmade import Handmade

pytestmark = pytest.mark.filterwarnings("ignore")

FLOW = """
hyperparameters: {x: {type: float, default: 1.5}}
axes: {t: {range: 2}}
stages:
  sim: {over: [t], command: "run ${{ hp.x }}", outputs: {out: {path: out.txt}, e: {value: float}}}
  fit: {command: [x], inputs: {out: {from: sim.out, min_success: 0.5}}, outputs: {model: {path: "m m.txt"}}}
  end: {command: [x], inputs: {model: fit.model}}
"""


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    """One simulation failed, the fit went on without it, and the end has not run."""
    run = Handmade(tmp_path, FLOW, hyperparameters={"x": 1.5}).stage("sim", 2).stage("fit", 1).stage("end", 1)
    run.done("sim", 0, {"out": "abc"}, e=0.5).failed("sim", 1)
    return run.done("fit", 0, {"model of all": "weights"})


def crate(run: Handmade) -> Any:
    library: Any = pytest.importorskip("rocrate.rocrate")
    take_out(RunReader(run.paths), "rocrate", run.folder / "crate")
    return library.ROCrate(str(run.folder / "crate"))


def test_each_task_is_an_action_with_what_it_read_and_made(run: Handmade) -> None:
    read = crate(run)
    sim, fit, lost = (read.dereference(f"#task.{task}") for task in ("sim/0", "fit/0", "sim/1"))
    assert [one["name"] for one in sim["object"]] == ["t"]
    assert {one["name"]: one.get("value") for one in sim["result"]} == {"e": 0.5, "out.txt": None}
    assert [one.id for one in fit["object"]] == ["tasks/sim/0/out.txt"]
    assert sim["actionStatus"] == "http://schema.org/CompletedActionStatus"
    assert (lost["actionStatus"], lost["error"]) == ("http://schema.org/FailedActionStatus", "exit code 3")
    assert sim["startTime"] < sim["endTime"] < fit["startTime"]
    assert sim["instrument"]["description"] == "run ${{ hp.x }}"
    assert (run.folder / "crate" / "tasks" / "fit" / "0" / "model of all.txt").read_text() == "weights"


def test_the_run_is_an_action_of_the_workflow_and_diel_had_its_steps_done(run: Handmade) -> None:
    read = crate(run)
    assert read.mainEntity.id == "workflow.yaml"
    assert "command" in (run.folder / "crate" / "workflow.yaml").read_text()
    whole = read.dereference("#run")
    assert whole["instrument"] == read.mainEntity
    assert [(one["name"], one["value"]) for one in whole["object"]] == [("x", 1.5)]
    organized = read.dereference("#organization")
    assert (organized["result"], organized["instrument"]["name"]) == (whole, "diel")
    assert [one["instrument"]["name"] for one in organized["object"]] == ["sim", "sim", "fit"]
    assert len(read.root_dataset["mentions"]) == 5


def test_a_run_without_an_ended_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="w-1 has no task that ended"):
        crate(Handmade(tmp_path, FLOW))


@pytest.mark.parametrize("profile", ["provenance-run-crate", "workflow-run-crate", "process-run-crate"])
def test_the_validator_finds_no_mistake(run: Handmade, profile: str) -> None:
    if shutil.which("rocrate-validator") is None:
        pytest.skip(
            "no rocrate-validator: it takes rich 13 and diel 15, so it needs a place of its own (pipx)"
        )
    crate(run)
    words = ["rocrate-validator", "--no-interactive", "validate", "-v", "--no-paging", "-p", profile]
    said = subprocess.run([*words, str(run.folder / "crate")], capture_output=True, text=True, check=False)
    if "urlopen error" in said.stdout + said.stderr:
        pytest.skip("rocrate-validator reads contexts from w3id.org, which is out of reach")
    assert said.returncode == 0, said.stdout
