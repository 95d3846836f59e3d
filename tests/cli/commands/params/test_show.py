"""`diel params show`: values, where they are from, and what may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.store.registry import Change, append_change
from tests.cli.call import call
from tests.cli.commands.params.projects import FLOW, TWO, searched, two_runs
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


def test_two_runs_differ_in_what_has_another_value_with_both_origins(
    workspace: Path, capsys: Capture
) -> None:
    two_runs(workspace)
    document = json.loads(call(capsys, "params", "diff", "w-1", "w-2", "--json").out)
    assert (document["a"], document["b"], list(document["differences"])) == ("w-1", "w-2", ["hidden", "rate"])
    assert document["differences"]["rate"]["b"] == {
        "value": 0.5,
        "origin": "project",
        "source": "promotion of w-1, trial 3",
    }
    text = [" ".join(line.split()) for line in call(capsys, "params", "diff", "w-1", "w-2").out.splitlines()]
    assert "hp.hidden 64 default 32 --set hidden=32" in text
    assert "have the same" in call(capsys, "params", "diff", "w-1", "w-1").out


def test_a_run_is_compared_with_what_a_new_one_would_have(workspace: Path, capsys: Capture) -> None:
    two_runs(workspace)
    append_change(Path("runs"), Change("set", {"solver": "sgd", "free": "text"}, user="me"))
    document = json.loads(call(capsys, "params", "diff", "w-1", "--json").out)
    assert document["b"] == "project"
    assert list(document["differences"]) == ["solver", "free"]
    assert document["differences"]["free"]["a"] is None
    assert document["differences"]["solver"]["b"]["source"] == "diel params set, by me"
    assert call(capsys, "params", "diff", "project", "project").code == 2


def test_history_has_every_value_over_time_with_where_it_is_from_and_who_read_it(
    workspace: Path, capsys: Capture
) -> None:
    two_runs(workspace)
    append_change(Path("runs"), Change("publication", {"hidden": 9}, run="w-2", stage="s", task=0))
    append_change(Path("runs"), Change("set", unset=("hidden",), user="me"))
    history = json.loads(call(capsys, "params", "history", "hidden", "--json").out)["history"]
    assert [(one["what"], one["value"], one["source"]) for one in history] == [
        ("run", 64, "w.yaml:4"),
        ("run", 32, "--set hidden=32"),
        ("publication", 9, "publication of w-2, s/0"),
        ("unset", None, "diel params set, by me"),
    ]
    assert history[0]["read_by"] == ["s"]
    assert len(json.loads(call(capsys, "params", "history", "--json").out)["history"]) == 8
    assert "hp.solver" in call(capsys, "params", "history").out
    said = call(capsys, "params", "history", "hiden")
    assert (said.code, "did you mean 'hidden'?" in said.err) == (2, True)


def test_a_run_that_cannot_be_read_is_left_out_of_the_history_and_told(
    workspace: Path, capsys: Capture
) -> None:
    two_runs(workspace)
    (workspace / "runs" / "w-1" / "run.json").write_text("{", encoding="utf-8")
    said = call(capsys, "params", "history", "hidden")
    assert (said.code, "w-1 is left out" in said.err, "w-2" in said.out) == (0, True, True)
