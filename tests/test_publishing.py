"""Hyperparameters that stages publish, and what is run again when a hyperparameter changes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import diel
from diel.store.registry import Change, append_change, read_changes
from tests.throwaway import Project, Run

TUNED = """
hyperparameters:
  rate: {type: float, default: 0.001, low: 0.00001, high: 0.1}
  width: {type: int, default: 4}
stages:
  tune:
    command: echo '{"found":' ${{ hp.width / 200 }} '}' > "$DIEL_RESULT"
    outputs: {found: {value: float}}
    publishes: {rate: found}
  train:
    after: [tune]
    command: echo '{"rate":' ${{ hp.rate }} '}' > "$DIEL_RESULT"
    outputs: {rate: {value: float}}
  use:
    inputs: {trained: train.rate, rate: hp.rate}
    command: echo '{"rate":' ${{ inputs.rate }} '}' > "$DIEL_RESULT"
    outputs: {rate: {value: float}}
  apart:
    command: echo '{"rate":' ${{ hp.rate }} '}' > "$DIEL_RESULT"
    outputs: {rate: {value: float}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def run_of(project: Project, state: str = "succeeded", *, cache: bool = True, **settings: Any) -> Run:
    """A new run, in this process."""
    folder = project.folder
    made = diel.run(folder / "flow.yaml", set=settings, runs=folder / "runs", cache=cache)
    assert made.state == state
    return Run(made.dir)


def rates(project: Project, *, cache: bool = True, **settings: Any) -> dict[str, float]:
    """The rate that each stage has read in a new run."""
    run = run_of(project, cache=cache, **settings)
    return {stage: run.value(stage, "rate") for stage in ("train", "use", "apart")}


def test_stages_that_depend_on_the_publisher_read_its_value_and_later_runs_begin_with_it(
    project: Project,
) -> None:
    project.workflow(TUNED)
    assert rates(project) == {"train": 0.02, "use": 0.02, "apart": 0.001}
    assert rates(project, cache=False) == {"train": 0.02, "use": 0.02, "apart": 0.02}
    kept = json.loads((project.folder / "runs" / "flow-2" / "run.json").read_text())
    assert (kept["origins"]["rate"], kept["sources"]["rate"]) == ("project", "publication of flow-1, tune/0")
    (first, second) = read_changes(project.folder / "runs")[0]
    assert (first.run, first.stage, first.task, first.values) == ("flow-1", "tune", 0, {"rate": 0.02})
    assert second.run == "flow-2"


def test_what_is_set_on_the_command_line_holds_for_the_stages_that_read_no_publication(
    project: Project,
) -> None:
    project.workflow(TUNED)
    assert rates(project, rate=0.05) == {"train": 0.02, "use": 0.02, "apart": 0.05}


def test_a_cached_result_is_not_published_again_and_a_new_one_is(project: Project) -> None:
    project.workflow(TUNED)
    runs = project.folder / "runs"
    run_of(project)
    append_change(runs, Change("set", {"rate": 0.05}))
    assert rates(project) == {"train": 0.02, "use": 0.02, "apart": 0.05}
    assert len(read_changes(runs)[0]) == 2
    run_of(project, width=6)
    assert read_changes(runs)[0][-1].values == {"rate": 0.03}


def test_a_cached_result_is_published_by_the_first_run_that_says_so(project: Project) -> None:
    project.workflow(TUNED.replace("    publishes: {rate: found}\n", ""))
    run_of(project)
    assert read_changes(project.folder / "runs")[0] == []
    project.workflow(TUNED)
    run = run_of(project)
    assert run.counts("tune") == {"cached": 1}
    assert [change.run for change in read_changes(project.folder / "runs")[0]] == [run.id]


def test_a_resumed_run_keeps_its_values_whatever_the_project_says_by_now(project: Project) -> None:
    flow = """
        hyperparameters: {size: {type: int, default: 1, high: 9}}
        stages:
          first: {command: "true"}
          then:
            after: [first]
            command: test -e ../../../../../go && echo '{"size":' ${{ hp.size }} '}' > "$DIEL_RESULT"
            outputs: {size: {value: int}}
        """
    project.workflow(flow)
    run = run_of(project, "failed")
    append_change(project.folder / "runs", Change("set", {"size": 99}))
    (project.folder / "go").touch()
    project.diel("resume", "-q")
    assert run.value("then", "size") == 1
    assert "expected at most 9" in project.diel("run", "flow.yaml", code=2)


# --- loops and searches ---------------------------------------------------------------------------


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ("{found: {value: float}}", "'tune' makes no value 'fond'\n    did you mean 'found'?"),
        ("{fond: fond.txt}", "'fond' is a file, and a hyperparameter has a value"),
    ],
)
def test_what_is_published_must_be_a_value_that_the_stage_makes(
    project: Project, outputs: str, message: str
) -> None:
    project.workflow(f"""
        hyperparameters: {{rate: {{type: float, default: 1}}}}
        stages:
          tune: {{command: [make-it], outputs: {outputs}, publishes: {{rate: fond}}}}
        """)
    said = project.diel("validate", "flow.yaml", code=2)
    assert re.search(r"flow\.yaml:6:\d+: stages\.tune\.publishes\.rate: " + re.escape(message), said), said


# --- what runs again ------------------------------------------------------------------------------

TRAINED = """
hyperparameters:
  learning_rate: {type: float, default: 0.01, low: 0.0001, high: 1.0}
axes:
  i: {range: 3}
stages:
  simulate:
    over: [i]
    command: echo '{"x":' ${{ i }} '}' > "$DIEL_RESULT"
    outputs: {x: {value: int}}
  train:
    command: echo '{"loss":' ${{ hp.learning_rate * sum(simulate.x) }} '}' > "$DIEL_RESULT"
    outputs: {loss: {value: float}}
  infer:
    command: echo '{"y":' ${{ train.loss }} '}' > "$DIEL_RESULT"
    outputs: {y: {value: float}}
"""


def computed(project: Project, **settings: Any) -> dict[str, dict[str, int]]:
    run = run_of(project, **settings)
    return {stage: run.counts(stage) for stage in ("simulate", "train", "infer")}


def test_a_changed_learning_rate_runs_training_onward_again_and_no_simulation(project: Project) -> None:
    onward = {"simulate": {"cached": 3}, "train": {"done": 1}, "infer": {"done": 1}}
    nothing = {"simulate": {"cached": 3}, "train": {"cached": 1}, "infer": {"cached": 1}}
    project.workflow(TRAINED)
    run_of(project)
    assert computed(project, learning_rate=0.02) == onward
    runs = project.folder / "runs"
    append_change(runs, Change("promotion", {"learning_rate": 0.03}, run="flow-1", axis="trial", trial=1))
    assert computed(project) == onward
    assert computed(project) == nothing
    append_change(runs, Change("set", unset=("learning_rate",)))
    assert computed(project) == nothing  # as in the first run
    recorded = {record["stage"]: record["reads"] for record in project.newest().records("stage")}
    assert recorded == {"simulate": [], "train": ["learning_rate"], "infer": []}


def test_a_value_that_is_computed_again_is_published_again(tmp_path: Path) -> None:
    text = """
        hyperparameters: {lr: {type: int, default: 0}}
        stages:
          pick:
            files: {data: data.txt}
            command: 'echo "{\\"lr\\": $(cat ${{ files.data }})}" > $DIEL_RESULT'
            outputs: {lr: {value: int}}
            publishes: {lr: lr}
    """
    made = Project(tmp_path).workflow(text)
    for number, words in (
        (3, ["run", "flow.yaml"]),
        (4, ["resume", "--update"]),
        (3, ["resume", "--update"]),
    ):
        (tmp_path / "data.txt").write_text(str(number))
        made.diel(*words, "--quiet")
        shown = json.loads(made.diel("params", "show", "flow.yaml", "--json"))["hyperparameters"]["lr"][
            "value"
        ]
        assert shown == number
    changes = made.diel("params", "history")
    made.diel("resume", code=None)
    assert made.diel("params", "history") == changes
