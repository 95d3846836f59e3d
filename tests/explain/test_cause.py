"""Why a task ran again: which part of its key had changed, followed upstream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.paths import RunPaths
from diel.observe.explain.run import explain_run
from diel.observe.explain.task import explain_task
from diel.observe.results import RunReader
from tests.throwaway import Project

AGAIN = """
    hyperparameters:
      hidden: {type: int, default: 64}
    axes:
      t: {values: [1, 2]}
    stages:
      sim:
        over: [t]
        command: |
          cat ${{ files.script }} > out.txt
          printf '{"e": %s}' ${{ t }} > "$DIEL_RESULT"
        files: {script: in.txt}
        env: {LEVEL: 1}
        outputs: {out: out.txt, e: {value: int}}
      fit:
        module: fit
        inputs: {e: sim.e}
        params: {hidden: "${{ hp.hidden }}", rate: 0.5}
      end:
        over: [t]
        inputs: {loss: fit.loss, out: sim.out}
        command: [test, "${{ inputs.loss }}", "!=", "0"]
"""
FIT = """
    @diel.module(kind="training")
    def fit(e: list[int], hidden: int, rate: float) -> dict:
        return {"loss": sum(e) + hidden}
"""


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Runs of one workflow, each with something else changed."""
    project = Project(tmp_path_factory.mktemp("again"), "w").workflow(AGAIN).module("fit", FIT)
    script = project.folder / "in.txt"
    script.write_text("one")
    project.run()
    larger = AGAIN.replace("[1, 2]", "[1, 2, 3]")
    project.workflow(larger).run()
    project.run("--set", "hp.hidden=32")
    script.write_text("two")
    edited = (
        larger.replace("LEVEL: 1", "LEVEL: 2").replace("printf", "sleep 0; printf").replace("0.5", "0.25")
    )
    project.workflow(edited).module("fit", FIT + "    # another version\n").run("--set", "hp.hidden=32")
    (project.folder / "runs" / "w-4" / "tasks" / "sim" / "0" / "out.txt").unlink()
    project.run("--set", "hp.hidden=32")
    project.run("--set", "hp.hidden=32", "--from", "fit")
    return project


def why(project: Project, run: str, task: str) -> dict[str, Any]:
    stage, _, index = task.partition("/")
    return explain_task(RunReader(RunPaths(project.folder / "runs" / run)), stage, int(index)).document


def test_the_first_run_of_a_workflow_has_nothing_to_compare_with(again: Project) -> None:
    assert why(again, "w-1", "sim/0")["why"] == ["no earlier run of 'w'"]
    found = explain_run(RunReader(RunPaths(again.folder / "runs" / "w-1")))
    assert found.lines == ["w-1 succeeded: 5 done"]


def test_a_cached_task_names_the_run_that_it_is_from(again: Project) -> None:
    told = why(again, "w-2", "sim/0")
    assert (told["state"], told["earlier"]) == ("cached", "w-1")
    assert told["why"][0].startswith("taken from w-1")


def test_a_new_point_is_named(again: Project) -> None:
    assert why(again, "w-2", "sim/2")["why"] == ["a new point: w-1 has no t = 3"]


def test_a_gathered_input_that_grew_is_followed_to_the_new_point(again: Project) -> None:
    told = why(again, "w-2", "fit/0")
    (change,) = told["changes"]
    assert change["text"] == "input e (sim.e) gathers 2 → 3 results"
    assert change["because"] == ("sim/2 (t=3) was computed again: a new point: w-1 has no t = 3",)
    assert told["earlier"] == "w-1/fit/0"


def test_a_change_is_followed_upstream_as_far_as_it_goes(again: Project) -> None:
    (change,) = why(again, "w-2", "end/0")["changes"]
    assert change["because"] == (
        "fit/0 was computed again: input e (sim.e) gathers 2 → 3 results",
        "sim/2 (t=3) was computed again: a new point: w-1 has no t = 3",
    )


def test_a_hyperparameter_is_named_with_both_values(again: Project) -> None:
    (change,) = why(again, "w-3", "fit/0")["changes"]
    assert (change["name"], change["old"], change["new"]) == ("hp.hidden", 64, 32)
    assert change["text"] == "hp.hidden: 64 → 32"


def test_an_input_value_is_named_with_both_values_and_the_reason_upstream(again: Project) -> None:
    (change,) = why(again, "w-3", "end/1")["changes"]
    assert change["text"] == "input loss (fit.loss): 70 → 38"
    assert change["because"] == ("fit/0 was computed again: hp.hidden: 64 → 32",)


def test_command_file_and_environment_are_told_apart(again: Project) -> None:
    texts = [change["text"] for change in why(again, "w-4", "sim/0")["changes"]]
    command, files, env = texts
    assert command.startswith("the command changed: printf '{")
    assert "→ sleep 0; printf '{" in command
    assert files == "the content of files.script (in.txt) changed"
    assert env == "env.LEVEL: 1 → 2"


def test_a_module_s_source_and_a_parameter_are_told_apart(again: Project) -> None:
    module, params = why(again, "w-4", "fit/0")["changes"]
    assert module["text"].startswith("the source of module 'fit' changed (")
    assert (params["name"], params["old"], params["new"]) == ("params.rate", 0.5, 0.25)


def test_an_input_file_is_followed_to_the_file_that_changed_it(again: Project) -> None:
    changes = {change["name"]: change for change in why(again, "w-4", "end/0")["changes"]}
    assert changes["out"]["text"] == "input out (sim.out) changed"
    assert changes["out"]["because"][0].startswith("sim/0 (t=1) was computed again: the command changed")


def test_a_result_whose_file_is_gone_says_so(again: Project) -> None:
    (reason,) = why(again, "w-5", "sim/0")["why"]
    assert reason.startswith("w-4 has the same result, but its 'out' is gone: ")
    assert why(again, "w-5", "sim/1")["state"] == "cached"


def test_what_the_user_wanted_anew_says_so(again: Project) -> None:
    assert why(again, "w-6", "end/0")["why"] == ["`--from fit` told it to compute again"]
    assert why(again, "w-6", "sim/0")["state"] == "cached"


def test_a_run_tells_for_each_stage_why_it_was_computed(again: Project) -> None:
    found = explain_run(RunReader(RunPaths(again.folder / "runs" / "w-3")))
    assert [(one["stage"], one["count"]) for one in found.document["computed"]] == [("fit", 1), ("end", 3)]
    lines = found.lines
    assert "fit: 1 task computed: hp.hidden: 64 → 32" in lines
    assert "    because fit/0 was computed again: hp.hidden: 64 → 32" in lines


LOOP = """
    hyperparameters:
      first: {type: int, default: 1}
    axes:
      round: {loop: {max: 2}}
    stages:
      step:
        over: [round]
        inputs: {x: {from: step.y, at: {round: previous}, initially: "${{ hp.first }}"}}
        command: |
          printf '{"y": %s}' ${{ inputs.x + 1 }} > "$DIEL_RESULT"
        outputs: {y: {value: int}}
"""


def test_a_round_is_followed_to_what_the_first_one_began_with(tmp_path: Path) -> None:
    project = Project(tmp_path, "w").workflow(LOOP)
    project.run()
    project.run("--set", "hp.first=2")
    assert why(project, "w-2", "step/0")["why"] == ["input x (step.y): 1 → 2"]
    (change,) = why(project, "w-2", "step/1")["changes"]
    assert change["text"] == "input x (step.y): 2 → 3"
    assert change["because"] == ("step/0 (round=0) was computed again: input x (step.y): 1 → 2",)
