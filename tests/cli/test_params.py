"""`diel params`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.handmade import Handmade

Capture = pytest.CaptureFixture[str]
FLOW = """
hyperparameters:
  hidden: {type: int, default: 64, low: 8, high: 256, log: true, description: Units.}
  rate: {type: float, default: 1e-3}
  solver: {type: choice, choices: [adam, sgd], default: adam}
  free: {type: str}
stages:
  s: {command: [x, "${{ hp.hidden }}"]}
"""


@pytest.fixture
def flow(workspace: Path) -> Path:
    path = workspace / "w.yaml"
    path.write_text("diel: 1\nname: w\n" + FLOW)
    (workspace / "p.yaml").write_text("# of today\nrate: 0.5\n")
    return path


def test_each_has_its_value_where_it_is_from_and_what_is_allowed(flow: Path, capsys: Capture) -> None:
    said = call(capsys, "params", "w.yaml", "--set", "hp.hidden=32", "--params", "p.yaml")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in said.out.splitlines()}
    assert rows["hp.hidden"] == "int 32 --set hp.hidden=32 8 to 256, log 64 Units."
    assert rows["hp.rate"] == "float 0.5 p.yaml:2 0.001"
    assert rows["hp.solver"] == "choice adam default adam | sgd adam"
    assert rows["hp.free"] == "str (none) a search, or --set"


def test_json_has_types_bounds_values_and_origins(flow: Path, capsys: Capture) -> None:
    words = ("params", "w.yaml", "--set", "hp.hidden=32", "--params", "p.yaml", "--json")
    known = json.loads(call(capsys, *words).out)["hyperparameters"]
    assert list(known) == ["hidden", "rate", "solver", "free"]
    hidden = known["hidden"]
    assert (hidden["value"], hidden["origin"], hidden["default"]) == (32, "command line", 64)
    assert (hidden["low"], hidden["high"], hidden["log"]) == (8, 256, True)
    assert (known["rate"]["origin"], known["rate"]["source"]) == ("file", "p.yaml:2")
    assert known["solver"]["choices"] == ["adam", "sgd"]
    assert (known["free"]["value"], known["free"]["origin"]) == (None, None)


def test_a_run_keeps_the_values_that_it_had(workspace: Path, capsys: Capture) -> None:
    Handmade(
        workspace,
        FLOW,
        hyperparameters={"hidden": 16, "rate": 0.5, "solver": "adam"},
        origins={"hidden": "command line", "rate": "file", "solver": "default"},
        settings=("hp.hidden=32", "hp.hidden=16"),
        params_files=("/there/p.yaml",),
    )
    document = json.loads(call(capsys, "params", "--json").out)
    known = document["hyperparameters"]
    assert document["run"] == "w-1"
    assert (known["hidden"]["value"], known["hidden"]["source"]) == (16, "--set hp.hidden=16")
    assert known["rate"]["source"] == "/there/p.yaml"
    assert known["free"]["value"] is None


def test_a_workflow_without_any_says_so(workspace: Path, capsys: Capture) -> None:
    (workspace / "w.yaml").write_text("diel: 1\nname: w\nstages: {s: {command: [x]}}\n")
    assert "w has no hyperparameters" in call(capsys, "params", "w.yaml").out


def test_settings_do_not_go_with_a_run(workspace: Path, capsys: Capture) -> None:
    Handmade(workspace, FLOW)
    said = call(capsys, "params", "w-1", "--set", "hp.hidden=1")
    assert (said.code, "go with a workflow file" in said.err) == (2, True)
