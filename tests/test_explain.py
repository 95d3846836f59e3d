"""Explanations: what failed, what waits for what, what ran again and which part of its key had changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.errors import UsageError
from diel.explain import explain_run, explain_task, render_run, render_task
from diel.paths import RunPaths
from diel.results import Recorded
from tests.handmade import Handmade
from tests.throwaway import Project
from tests.written import APP

FLOW = """
hyperparameters:
  scale: {type: float, default: 2.0}
axes:
  t: {values: [10, 20, 30]}
  r: {values: [a, b]}
  found: {from: pick.list}
stages:
  sim:
    over: [t]
    command: [echo, "${{ t * hp.scale }}"]
    outputs: {e: {value: float}, log: log.txt}
    timeout: 10m
  fit: {over: [r], command: [fit, "${{ inputs.e }}"], inputs: {e: sim.e}, outputs: {m: {value: float}}}
  score:
    over: [r, t]
    command: "score ${{ inputs.m }} ${{ inputs.log }}\\necho done"
    inputs: {m: fit.m, log: sim.log, scale: hp.scale}
  some: {over: [t], when: t > 10, command: [x], after: [sim]}
  pick: {command: [x], after: [fit], outputs: {list: {value: list}}}
  end: {over: [found], command: [x]}
  last: {command: [x], after: [score]}
"""


def flow(tmp_path: Path, **more: Any) -> Handmade:
    run = Handmade(tmp_path, FLOW, hyperparameters={"scale": 2.0}, **more)
    for name, total in (("sim", 3), ("fit", 2), ("score", 6), ("some", 3), ("pick", 1), ("last", 1)):
        run.stage(name, total)
    return run


def of_run(run: Handmade, stage: str | None = None) -> dict[str, Any]:
    return explain_run(Recorded(run.paths), stage)


def of_task(run: Handmade, stage: str, index: int) -> dict[str, Any]:
    return explain_task(Recorded(run.paths), stage, index)


# --- failures -------------------------------------------------------------------------------------


def test_failures_of_one_sort_are_one_with_their_number_and_the_first_message(tmp_path: Path) -> None:
    run = flow(tmp_path)
    for index in range(3):
        run.failed(
            "sim", index, f"no state at {index}.5 in /tmp/{index}", stderr_tail=f"line\nboom {index}\n"
        )
    run.failed("fit", 1, "ran longer than its timeout of 1 s", **{"class": "timeout", "exit_code": None})
    run.end("failed")
    first, second = of_run(run)["failures"]
    assert (first["stage"], first["class"], first["count"]) == ("sim", "app", 3)
    assert first["message"] == "no state at 0.5 in /tmp/0"
    assert first["tasks"] == ["sim/0", "sim/1", "sim/2"]
    assert "boom 0" in first["stderr_tail"]
    assert "diel logs w-1 sim/0" in first["next"]
    assert "diel resume w-1" in first["next"]
    assert (second["first"], second["class"]) == ("fit/1", "timeout")
    assert "raise `timeout` of 'fit'" in second["next"]
    text = "\n".join(render_run(of_run(run)))
    assert "sim: 3 tasks failed (app): no state at 0.5 in /tmp/0" in text
    assert "    │ boom 0" in text


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        ({"class": "timeout"}, "(now 10m00s)"),
        ({"class": "launch"}, "install the program or module"),
        ({"class": "node", "exit_code": None}, "more memory than there is"),
        ({"class": "upstream"}, "diel results w-1"),
        ({"class": "node", "exit_code": 137}, "more `resources.memory`"),
    ],
)
def test_each_class_of_failure_says_what_to_do_next(
    tmp_path: Path, told: dict[str, Any], advice: str
) -> None:
    run = flow(tmp_path).failed("sim", 0, **told).end("failed")
    assert advice in of_run(run)["failures"][0]["next"]
    assert advice in of_task(run, "sim", 0)["next"]


def test_what_a_new_controller_tries_again_is_no_failure_any_more(tmp_path: Path) -> None:
    run = flow(tmp_path).failed("sim", 0)
    run.write("controller", epoch=2, host="h", pid=1, started=1.0)
    assert of_run(run)["failures"] == []
    run.failed("sim", 2)
    (failure,) = of_run(run)["failures"]
    assert failure["tasks"] == ["sim/2"]


def test_control_signs_of_a_program_do_not_reach_the_terminal(tmp_path: Path) -> None:
    run = flow(tmp_path).failed("sim", 0, stderr_tail="\x1b[2Jgone\n").end("failed")
    assert "\x1b" not in "\n".join(render_run(of_run(run)))


def test_a_failed_task_tells_its_attempts(tmp_path: Path) -> None:
    run = flow(tmp_path)
    run.work("start", "sim", 1).work("fail", "sim", 1, seconds=3.0, **APP, message="first")
    run.work("start", "sim", 1, 2).work("fail", "sim", 1, 2, seconds=1.0, **APP, message="then")
    run.write("failed", stage="sim", tasks=[[1, 1]], message="then", attempt=2, **{"class": "app"})
    told = of_task(run, "sim", 1)
    assert told["why"] == ["failed at attempt 2 (app): then"]
    assert [(one["attempt"], one["state"], one["message"]) for one in told["attempts"]] == [
        (1, "failed", "first"),
        (2, "failed", "then"),
    ]
    assert told["attempts"][1]["dir"].endswith("tasks/sim/1.2")
    assert told["attempts"][0]["worker"] == "worker-0001-node-7-abc"
    assert "    attempt 1: failed after 3.0s (app): first" in "\n".join(render_task(told))


# --- skipped --------------------------------------------------------------------------------------


def test_a_skipped_task_names_the_tasks_that_it_lacks_and_where_it_began(tmp_path: Path) -> None:
    run = flow(tmp_path).done("sim", 0, e=1).failed("sim", 1).done("sim", 2, e=3)
    run.skipped("fit", 0, 1, cause="sim").skipped("score", *range(6), cause="fit")
    run.skipped("last", 0, cause="score").skipped("pick", 0, cause="fit")
    run.end("failed")
    skips = {skip["stage"]: skip for skip in of_run(run)["skipped"]}
    assert (skips["fit"]["count"], skips["fit"]["cause"], skips["fit"]["roots"]) == (2, "sim", ["sim/1"])
    assert skips["last"]["roots"] == ["sim/1"], "the chain is followed to the task that failed"
    assert of_task(run, "fit", 1)["why"] == ["what it reads has no result: sim/1 (failed)"]
    assert of_task(run, "last", 0)["why"] == [
        "what it reads has no result: score/0 (skipped), score/1 (skipped), score/2 (skipped), "
        "score/3 (skipped), score/4 (skipped) and 1 more",
        "it began with sim/1: `diel explain w-1 sim/1`",
    ]


def test_a_task_that_its_condition_left_out_names_the_condition(tmp_path: Path) -> None:
    run = flow(tmp_path).skipped("some", 0, reason="when").end("succeeded")
    assert of_run(run)["skipped"][0]["reason"] == "when"
    assert of_task(run, "some", 0)["why"] == ["its `when` does not hold: t > 10"]


def test_a_stage_whose_axis_was_never_made_says_why(tmp_path: Path) -> None:
    run = flow(tmp_path)
    run.write("stage", stage="end", kind="analysis", total=0, void="'pick' did not make the axis 'found'")
    run.end("failed")
    assert "end: never began: 'pick' did not make the axis 'found'" in list(render_run(of_run(run)))
    with pytest.raises(UsageError, match="'pick' did not make the axis"):
        of_task(run, "end", 0)


# --- waiting and running --------------------------------------------------------------------------


def test_a_waiting_stage_names_the_stages_and_tasks_that_it_waits_for(tmp_path: Path) -> None:
    run = flow(tmp_path, alive=True).done("sim", 0, e=1)
    run.write("queued", stage="sim", bundle=1, tasks=[1, 2]).work("start", "sim", 1)
    waits = {wait["stage"]: wait for wait in of_run(run)["waiting"]}
    assert waits["fit"]["count"] == 2
    (one,) = waits["fit"]["for"]
    assert (one["stage"], one["open"], one["total"]) == ("sim", 2, 3)
    assert one["states"] == {"running": 1, "queued": 1}
    assert one["tasks"] == ("sim/1", "sim/2")
    assert waits["end"]["text"] == "axis 'found' is known when 'pick' is done"
    assert waits["end"]["count"] is None
    (running,) = of_run(run)["running"]
    assert (running["task"], running["worker"]) == ("sim/1", "worker-0001-node-7-abc")
    assert running["seconds"] > 0


def test_a_waiting_task_names_only_what_it_reads_itself(tmp_path: Path) -> None:
    run = flow(tmp_path, alive=True).done("sim", 0, e=1).done("fit", 0, m=1)
    waits = of_task(run, "score", 4)["waits_for"]  # r = b, t = 20
    assert [wait["tasks"] for wait in waits] == [("fit/1",), ("sim/1",)]
    assert of_task(run, "score", 0)["why"] == ["all that it reads is there: it waits for a free worker"]


def test_a_task_between_two_attempts_says_that_it_will_be_tried_again(tmp_path: Path) -> None:
    run = flow(tmp_path, alive=True).work("start", "sim", 0)
    run.work("fail", "sim", 0, seconds=1.0, **APP, message="exit code 3")
    assert of_task(run, "sim", 0)["why"] == ["attempt 1 failed (exit code 3); it will be tried again"]


def test_without_its_controller_a_run_says_how_to_go_on(tmp_path: Path) -> None:
    run = flow(tmp_path).work("start", "sim", 0)
    told = of_run(run)
    assert told["state"] == "interrupted"
    assert [task["task"] for task in told["lost"]] == ["sim/0"]
    assert told["running"] == []
    assert "`diel resume w-1`" in told["waiting"][0]["text"]
    task = of_task(run, "sim", 0)
    assert task["why"] == ["it was running when the controller went away"]
    assert task["attempts"][0]["state"] == "lost"


# --- what a task gets -----------------------------------------------------------------------------


def test_a_task_tells_its_point_parameters_command_and_inputs(tmp_path: Path) -> None:
    run = flow(tmp_path, alive=True)
    for index in range(3):
        run.done("sim", index, {"log": f"text {index}"}, e=index + 0.5)
    run.done("fit", 0, m=1.5).done("fit", 1, m=2.5)
    told = of_task(run, "score", 4)
    assert told["point"] == {"r": "b", "t": 20}
    assert told["params"] == {"r": "b", "t": 20}
    log = str(run.paths.task_dir("sim", 1, 1) / "log.txt")
    assert told["command"][-1] == f"score 2.5 {log}\necho done"
    assert told["inputs"]["m"] == {
        "from": "fit.m",
        "rule": "matches r, same for every t",
        "tasks": 1,
        "done": 1,
        "task": "fit/1",
        "value": 2.5,
    }
    assert told["inputs"]["log"]["value"] == log
    assert told["inputs"]["scale"] == {"from": "hp.scale", "value": 2.0}
    gathered = of_task(run, "fit", 0)["inputs"]["e"]
    assert (gathered["tasks"], gathered["value"]) == (3, [0.5, 1.5, 2.5])
    assert of_task(run, "sim", 2)["command"] == ["echo", "60.0"]
    text = "\n".join(render_task(told))
    assert f"\ncommand\n    score 2.5 {log}\n    echo done\n" in text
    json.dumps(told)


def test_a_task_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'sim' has the tasks 0 to 2"):
        of_task(flow(tmp_path), "sim", 3)
    with pytest.raises(UsageError, match="'end' has no tasks: its axes are not known yet"):
        of_task(flow(tmp_path / "two"), "end", 0)


# --- why it ran again -----------------------------------------------------------------------------

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
    return explain_task(Recorded(RunPaths(project.folder / "runs" / run)), stage, int(index))


def test_the_first_run_of_a_workflow_has_nothing_to_compare_with(again: Project) -> None:
    assert why(again, "w-1", "sim/0")["why"] == ["no earlier run of 'w'"]
    document = explain_run(Recorded(RunPaths(again.folder / "runs" / "w-1")))
    assert list(render_run(document)) == ["w-1 succeeded: 5 done"]


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
    assert change["because"] == ("sim/2 was computed anew: a new point: w-1 has no t = 3",)
    assert told["earlier"] == "w-1/fit/0"


def test_a_change_is_followed_upstream_as_far_as_it_goes(again: Project) -> None:
    (change,) = why(again, "w-2", "end/0")["changes"]
    assert change["because"] == (
        "fit/0 was computed anew: input e (sim.e) gathers 2 → 3 results",
        "sim/2 was computed anew: a new point: w-1 has no t = 3",
    )


def test_a_hyperparameter_is_named_with_both_values(again: Project) -> None:
    (change,) = why(again, "w-3", "fit/0")["changes"]
    assert (change["name"], change["old"], change["new"]) == ("hp.hidden", 64, 32)
    assert change["text"] == "hp.hidden: 64 → 32"


def test_an_input_value_is_named_with_both_values_and_the_reason_upstream(again: Project) -> None:
    (change,) = why(again, "w-3", "end/1")["changes"]
    assert change["text"] == "input loss (fit.loss): 70 → 38"
    assert change["because"] == ("fit/0 was computed anew: hp.hidden: 64 → 32",)


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
    assert changes["out"]["because"][0].startswith("sim/0 was computed anew: the command changed")


def test_a_result_whose_file_is_gone_says_so(again: Project) -> None:
    (reason,) = why(again, "w-5", "sim/0")["why"]
    assert reason.startswith("w-4 has the same result, but its 'out' is gone: ")
    assert why(again, "w-5", "sim/1")["state"] == "cached"


def test_what_the_user_wanted_anew_says_so(again: Project) -> None:
    assert why(again, "w-6", "end/0")["why"] == ["`--from fit` said to compute it anew"]
    assert why(again, "w-6", "sim/0")["state"] == "cached"


def test_a_run_tells_for_each_stage_why_it_was_computed(again: Project) -> None:
    document = explain_run(Recorded(RunPaths(again.folder / "runs" / "w-3")))
    assert [(one["stage"], one["count"]) for one in document["computed"]] == [("fit", 1), ("end", 3)]
    lines = list(render_run(document))
    assert "fit: 1 task computed: hp.hidden: 64 → 32" in lines
    assert "    because fit/0 was computed anew: hp.hidden: 64 → 32" in lines


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
    assert change["because"] == ("step/0 was computed anew: input x (step.y): 1 → 2",)
