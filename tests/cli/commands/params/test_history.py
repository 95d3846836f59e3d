"""`diel params history` and `diel params diff`: runs, compared and followed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.registry import Change, append_change
from tests.cli.call import call
from tests.cli.commands.params.projects import two_runs

Capture = pytest.CaptureFixture[str]


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
