"""`diel params`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from diel.axes.adaptive import adaptive_axes
from diel.journal.history import History
from diel.registry import Change, append_change, current, read_changes
from diel.results import Recorded
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


def test_stages_that_read_a_hyperparameter_are_told(flow: Path, capsys: Capture) -> None:
    assert "s reads hp.hidden\n" in call(capsys, "params", "show", "w.yaml").out
    known = json.loads(call(capsys, "params", "w.yaml", "--json").out)["hyperparameters"]
    assert (known["hidden"]["read_by"], known["rate"]["read_by"]) == (["s"], [])


def test_of_a_run_the_stages_are_told_that_its_journal_has(workspace: Path, capsys: Capture) -> None:
    run = Handmade(workspace, FLOW)
    run.write("stage", stage="s", kind="analysis", total=1, reads=["rate", "hidden"])
    known = json.loads(call(capsys, "params", "--json").out)["hyperparameters"]
    assert (known["hidden"]["read_by"], known["rate"]["read_by"]) == (["s"], ["s"])


# --- the project's values -------------------------------------------------------------------------


def project(name: str | None = None) -> Any:
    """The values that the project in `runs` has, or one of them."""
    values = {key: held.value for key, held in current(read_changes(Path("runs"))[0]).items()}
    return values if name is None else values[name]


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
    assert "`diel params set hidden --unset` takes it back" in said.err
    assert not list(Path("runs").glob("w-*"))
    if command == ["validate"]:
        assert call(capsys, "validate", "w.yaml", "--set", "hidden=9").code == 0
        assert call(capsys, "validate", "w.yaml", "--runs", "elsewhere").code == 0


# --- runs, compared and followed ------------------------------------------------------------------


def two_runs(workspace: Path) -> None:
    """A run with defaults, one with settings, and a value of the project between them."""
    Handmade(
        workspace,
        FLOW,
        "w-1",
        hyperparameters={"hidden": 64, "rate": 1e-3, "solver": "adam"},
        origins={"hidden": "default", "rate": "default", "solver": "default"},
        sources={"hidden": "w.yaml:4", "rate": "w.yaml:5", "solver": "w.yaml:6"},
    ).write("stage", stage="s", kind="analysis", total=1, reads=["hidden"])
    Handmade(
        workspace,
        FLOW,
        "w-2",
        hyperparameters={"hidden": 32, "rate": 0.5, "solver": "adam"},
        origins={"hidden": "command line", "rate": "project", "solver": "default"},
        sources={"hidden": "--set hidden=32", "rate": "promotion of w-1, trial 3", "solver": "w.yaml:6"},
    )


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


# --- searches -------------------------------------------------------------------------------------

SEARCHED = """
hyperparameters:
  hidden: {type: int, default: 64, low: 8, high: 256}
  rate: {type: float, default: 0.1, low: 0.01, high: 1}
axes:
  trial: {search: {trials: 4, OBJECTIVES, parameters: [hidden, rate]}}
stages:
  s: {over: [trial], command: [x, "${{ hp.hidden }}", "${{ hp.rate }}"], outputs: {a: {value: float}, b: {value: float}}}
"""
ONE, TWO = "minimize: s.a", "minimize: s.a, maximize: s.b"


def searched(workspace: Path, objectives: str = ONE, *, over: bool = True) -> Handmade:
    """A run whose search has had four trials: 2 is the best, 3 has failed."""
    run = Handmade(
        workspace,
        SEARCHED.replace("OBJECTIVES", objectives),
        hyperparameters={"hidden": 64, "rate": 0.1},
        origins={"hidden": "default", "rate": "default"},
    )
    adaptive = adaptive_axes(Recorded(run.paths).workflow, History())["trial"]
    run.write("axis", axis="trial", facts=asdict(adaptive.facts(Recorded(run.paths).workflow)))
    run.write("begin", axis="trial", context=[], seed=1)
    for number, (score, other) in enumerate([(3.0, 3.0), (2.0, 1.0), (1.0, 2.0), (0.0, 0.0)]):
        hp = {"hidden": 10 + number, "rate": 0.25 + number}
        run.write("trial", axis="trial", context=[], number=number, hp=hp)
        values = [score] if objectives == ONE else [score, other]
        ending = {"state": "failed", "message": "s/3 has no result"} if number == 3 else {"state": "complete"}
        run.write("judged", axis="trial", context=[], number=number, values=values, **ending)
    if over:
        run.write("closed", axis="trial", context=[], points=4, reason="trials")
    return run


def test_a_run_shows_the_best_trial_of_its_search_with_its_values(workspace: Path, capsys: Capture) -> None:
    searched(workspace)
    text = call(capsys, "params").out
    assert "trial sets hp.hidden, hp.rate\n" in text
    assert "best: trial 2: s.a = 1 with hidden = 12, rate = 2.25\n" in text
    (search,) = json.loads(call(capsys, "params", "--json").out)["searches"]
    assert search["best"] == [{"trial": 2, "values": [1.0], "hp": {"hidden": 12, "rate": 2.25}}]


def test_of_several_objectives_the_front_is_shown(workspace: Path, capsys: Capture) -> None:
    searched(workspace, TWO)
    (search,) = json.loads(call(capsys, "params", "--json").out)["searches"]
    assert [trial["trial"] for trial in search["best"]] == [0, 2]
    assert "Pareto front: trial 0: s.a = 3, s.b = 3" in call(capsys, "params").out


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
            "has several objectives (s.a, s.b), and so no best trial: say which one by --trial N",
        ),
        (ONE, False, (), "is not over: 3 of at most 4 trials have a score"),
        (ONE, True, ("--trial", "3"), "trial 3 of w-1 is failed, and has no score: s/3 has no result"),
        (ONE, True, ("--trial", "9"), "has trials 0 to 3 alone"),
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
    assert (said.code, "say at which by --at NAME=VALUE" in said.err) == (2, True)
    assert call(capsys, "params", "promote", "--at", "material=Si").code == 0
    assert project("hidden") == 99


# --- at once --------------------------------------------------------------------------------------


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
