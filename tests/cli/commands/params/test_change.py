"""`diel params set` and `diel params promote`: what all later runs of a project begin with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from diel.store.registry import Change, append_change, read_changes
from tests.cli.call import call
from tests.cli.commands.params.projects import FLOW, ONE, TWO, project, searched
from tests.handmade import Handmade

Capture = pytest.CaptureFixture[str]


def test_what_is_set_for_the_project_is_shown_with_its_origin_and_taken_back(
    flow: Path, capsys: Capture
) -> None:
    said = call(capsys, "params", "set", "hp.rate=0.5", "hidden=32", "--workflow", "w.yaml")
    assert said.code == 0
    assert said.out == "hp.rate = 0.5  (the project had none)\nhp.hidden = 32  (the project had none)\n"
    known = json.loads(call(capsys, "params", "w.yaml", "--set", "hidden=9", "--json").out)["hyperparameters"]
    assert (known["rate"]["value"], known["rate"]["origin"]) == (0.5, "project")
    assert known["rate"]["source"].startswith("diel params set")
    assert (known["hidden"]["value"], known["hidden"]["origin"]) == (9, "command line")
    taken = call(capsys, "params", "set", "rate", "--unset", "--json")
    assert json.loads(taken.out) == {"set": {}, "unset": ["rate"], "before": {"rate": 0.5}}
    assert project() == {"hidden": 32}
    again = call(capsys, "params", "set", "hiden", "--unset")
    assert (again.code, "did you mean 'hidden'?" in again.err) == (2, True)


def test_another_directory_of_runs_is_another_project(flow: Path, capsys: Capture) -> None:
    call(capsys, "params", "set", "rate=0.5", "--workflow", "w.yaml", "--runs", "other")
    assert project() == {}
    words = ("params", "w.yaml", "--json", "--runs", "other")
    assert json.loads(call(capsys, *words).out)["hyperparameters"]["rate"]["value"] == 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["hidden=1000"],
            "hp.hidden=1000: expected at most 256 (`high`), found 1000, by workflow 'w' (w.yaml)",
        ),
        (["hidden=many"], "expected a whole number, found 'many'"),
        (
            ["solver=adm"],
            "expected one of adam, sgd, found 'adm', by workflow 'w' (w.yaml)\n    did you mean 'adam'?",
        ),
        (["hiden=32"], "no hyperparameter 'hiden' in w.yaml\n    did you mean 'hidden'?"),
        (["hidden"], "hidden: expected NAME=VALUE"),
        (["rate=0.1", "hidden=0"], "expected at least 8 (`low`), found 0"),
    ],
)
def test_a_bad_value_is_refused_with_key_and_bounds_and_nothing_is_set(
    flow: Path, capsys: Capture, words: list[str], message: str
) -> None:
    said = call(capsys, "params", "set", *words, "--workflow", "w.yaml")
    assert said.code == 2
    assert message in said.err
    assert project() == {}


def test_without_a_workflow_nothing_tells_what_a_value_may_be(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "params", "set", "rate=1")
    assert (said.code, "--workflow FILE" in said.err) == (2, True)


def test_a_value_is_checked_in_every_workflow_of_the_project_by_its_file_as_it_is_now(
    workspace: Path, capsys: Capture
) -> None:
    Handmade(workspace, FLOW, "w-1")
    Handmade(
        workspace, "hyperparameters: {hidden: {type: int, high: 10}}\nstages: {s: {command: [x]}}\n", "v-1"
    )
    said = call(capsys, "params", "set", "hidden=64")
    assert (said.code, "by workflow 'v' (v-1)" in said.err) == (2, True)
    (workspace / "v.yaml").write_text(
        "diel: 1\nname: v\nhyperparameters: {hidden: {type: int, high: 100}}\nstages: {s: {command: [x]}}\n"
    )
    assert call(capsys, "params", "set", "hidden=64").code == 0
    assert project("hidden") == 64


@pytest.mark.parametrize("command", [["validate"], ["plan"], ["run", "-q"], ["graph"]])
def test_a_project_value_that_does_not_fit_a_workflow_is_refused_before_anything_runs(
    flow: Path, capsys: Capture, command: list[str]
) -> None:
    append_change(Path("runs"), Change("set", {"hidden": 1000}))
    said = call(capsys, command[0], "w.yaml", *command[1:])
    assert said.code == 2
    assert "w.yaml:5:3: hyperparameters.hidden: the project's value does not fit: " in said.err
    assert "expected at most 256 (`high`), found 1000" in said.err
    assert "`diel params set hidden --unset` removes it" in said.err
    assert not list(Path("runs").glob("w-*"))
    if command == ["validate"]:
        assert call(capsys, "validate", "w.yaml", "--set", "hidden=9").code == 0
        assert call(capsys, "validate", "w.yaml", "--runs", "elsewhere").code == 0


def test_the_best_trial_is_promoted_with_its_provenance(workspace: Path, capsys: Capture) -> None:
    searched(workspace)
    said = call(capsys, "params", "promote")
    assert said.code == 0
    assert "hp.hidden = 12  (the project had none)" in said.out
    (change,) = read_changes(Path("runs"))[0]
    assert (change.values, change.run, change.axis, change.trial, change.workflow) == (
        {"hidden": 12, "rate": 2.25},
        "w-1",
        "trial",
        2,
        "w",
    )
    assert change.user
    history = json.loads(call(capsys, "params", "history", "hidden", "--json").out)["history"]
    assert [(one["what"], one["value"]) for one in history] == [("run", 64), ("trial", 12), ("promotion", 12)]


def test_values_that_a_workflow_of_the_project_cannot_take_are_told_when_they_are_promoted(
    workspace: Path, capsys: Capture
) -> None:
    searched(workspace)
    said = call(capsys, "params", "promote")
    assert "but hp.rate does not fit workflow 'w' (w-1): expected at most 1 (`high`), found 2.25" in said.err


@pytest.mark.parametrize(
    ("objectives", "over", "words", "message"),
    [
        (
            TWO,
            True,
            (),
            "has several objectives (s.a, s.b), and so no best trial: choose one by --trial N",
        ),
        (ONE, False, (), "is not over: 3 of at most 4 trials have a score"),
        (ONE, True, ("--trial", "3"), "trial 3 of w-1 is failed, and has no score: s/3 has no result"),
        (ONE, True, ("--trial", "9"), "only has trials 0 to 3"),
        (ONE, True, ("--axis", "trail"), "no search 'trail'\n    did you mean 'trial'?"),
        (ONE, True, ("--at", "material=2"), "no search 'trial' at material = 2\n    it searches once"),
    ],
)
def test_what_cannot_be_promoted_is_refused(
    workspace: Path, capsys: Capture, objectives: str, over: bool, words: tuple[str, ...], message: str
) -> None:
    searched(workspace, objectives, over=over)
    said = call(capsys, "params", "promote", *words)
    assert (said.code, message in said.err) == (2, True), said.err
    assert project() == {}


def test_a_failed_search_has_nothing_to_promote(workspace: Path, capsys: Capture) -> None:
    run = searched(workspace, over=False)
    run.write("closed", axis="trial", context=[], points=4, reason="no trial has a score", failed=True)
    said = call(capsys, "params", "promote")
    assert (said.code, "failed, and has no trial to promote: no trial has a score" in said.err) == (2, True)


def test_a_certain_trial_is_promoted_from_a_front_or_before_the_end(workspace: Path, capsys: Capture) -> None:
    searched(workspace, TWO, over=False)
    document = json.loads(call(capsys, "params", "promote", "w-1", "--trial", "0", "--json").out)
    assert (document["trial"], document["values"], project("hidden")) == (0, [3.0, 3.0], 10)


def test_a_run_without_a_search_has_nothing_to_promote(workspace: Path, capsys: Capture) -> None:
    Handmade(workspace, FLOW)
    said = call(capsys, "params", "promote")
    assert (said.code, "has no search" in said.err) == (2, True)


def test_where_there_is_a_search_for_each_point_one_is_named(workspace: Path, capsys: Capture) -> None:
    run = searched(workspace)
    run.write("begin", axis="trial", context=[1], seed=1, at={"material": "Si"})
    run.write("trial", axis="trial", context=[1], number=0, hp={"hidden": 99})
    run.write("judged", axis="trial", context=[1], number=0, state="complete", values=[1.0])
    run.write("closed", axis="trial", context=[1], points=1, reason="trials")
    said = call(capsys, "params", "promote")
    assert (said.code, "choose one by --at NAME=VALUE" in said.err) == (2, True)
    assert call(capsys, "params", "promote", "--at", "material=Si").code == 0
    assert project("hidden") == 99


def test_eight_who_set_and_promote_at_once_all_succeed_while_others_read(
    workspace: Path, capsys: Capture
) -> None:
    searched(workspace)
    command = [sys.executable, "-m", "diel", "params"]
    writers = [
        subprocess.Popen(
            [*command, *(("set", f"hidden={20 + number}") if number % 2 else ("promote", "--trial", "0"))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    while any(process.poll() is None for process in writers):
        document = json.loads(call(capsys, "params", "w-1", "--json").out)
        assert document["unreadable"] == []
    assert [(process.communicate()[1], process.returncode)[1] for process in writers] == [0] * 8
    changes, unreadable = read_changes(Path("runs"))
    assert (len(changes), unreadable) == (8, [])
    assert sorted(change.values["hidden"] for change in changes) == [10, 10, 10, 10, 21, 23, 25, 27]
