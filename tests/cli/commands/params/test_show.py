"""`diel params show`: values, where they are from, and what may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.cli.commands.params.projects import FLOW, TWO, searched
from tests.handmade import Handmade

Capture = pytest.CaptureFixture[str]


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


def test_stages_that_read_a_hyperparameter_are_told(flow: Path, capsys: Capture) -> None:
    assert "s reads hp.hidden\n" in call(capsys, "params", "show", "w.yaml").out
    known = json.loads(call(capsys, "params", "w.yaml", "--json").out)["hyperparameters"]
    assert (known["hidden"]["read_by"], known["rate"]["read_by"]) == (["s"], [])


def test_of_a_run_the_stages_are_told_that_its_journal_has(workspace: Path, capsys: Capture) -> None:
    run = Handmade(workspace, FLOW)
    run.write("stage", stage="s", kind="analysis", total=1, reads=["rate", "hidden"])
    known = json.loads(call(capsys, "params", "--json").out)["hyperparameters"]
    assert (known["hidden"]["read_by"], known["rate"]["read_by"]) == (["s"], ["s"])


def test_a_run_shows_the_best_trial_of_its_search_with_its_values(workspace: Path, capsys: Capture) -> None:
    searched(workspace)
    text = call(capsys, "params").out
    assert "trial sets hp.hidden, hp.rate\n" in text
    assert "best: trial 2: s.a = 1.0 with hidden = 12, rate = 2.25\n" in text
    (search,) = json.loads(call(capsys, "params", "--json").out)["searches"]
    assert search["best"] == [{"trial": 2, "values": [1.0], "hp": {"hidden": 12, "rate": 2.25}}]


def test_of_several_objectives_the_front_is_shown(workspace: Path, capsys: Capture) -> None:
    searched(workspace, TWO)
    (search,) = json.loads(call(capsys, "params", "--json").out)["searches"]
    assert [trial["trial"] for trial in search["best"]] == [0, 2]
    assert "Pareto front: trial 0: s.a = 3.0, s.b = 3.0" in call(capsys, "params").out
