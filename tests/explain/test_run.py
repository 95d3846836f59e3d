"""Explanations of runs and their tasks: what failed, what was skipped, what waits for what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.observe.explain.run import explain_run
from diel.observe.explain.task import explain_task
from diel.observe.results import RunReader
from tests.handmade import Handmade
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
    return explain_run(RunReader(run.paths), stage).document


def of_task(run: Handmade, stage: str, index: int) -> dict[str, Any]:
    return explain_task(RunReader(run.paths), stage, index).document


def text_of_run(run: Handmade) -> str:
    return "\n".join(explain_run(RunReader(run.paths)).lines)


def text_of_task(run: Handmade, stage: str, index: int) -> str:
    return "\n".join(explain_task(RunReader(run.paths), stage, index).lines)


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
    text = text_of_run(run)
    assert "sim: 3 tasks failed (app): no state at 0.5 in /tmp/0" in text
    assert "    │ boom 0" in text


def test_what_a_new_controller_tries_again_is_no_failure_any_more(tmp_path: Path) -> None:
    run = flow(tmp_path).failed("sim", 0)
    run.write("controller", epoch=2, host="h", pid=1, started=1.0)
    assert of_run(run)["failures"] == []
    run.failed("sim", 2)
    (failure,) = of_run(run)["failures"]
    assert failure["tasks"] == ["sim/2"]


def test_control_signs_of_a_program_do_not_reach_the_terminal(tmp_path: Path) -> None:
    run = (
        flow(tmp_path)
        .failed("sim", 0, "\x1b[1mBAD\x1b[0m", stderr_tail="\x1b[2J\x1b[31mgone\n")
        .end("failed")
    )
    for text in (text_of_run(run), text_of_task(run, "sim", 0)):
        assert not any(part in text for part in ("\x1b", "�", "[31m", "[1m"))
    assert "(app): BAD: gone\n" in text_of_run(run)


def test_failures_with_other_exit_codes_are_told_apart(tmp_path: Path) -> None:
    run = flow(tmp_path)
    for index, code in enumerate((3, 4, 3)):
        run.failed("sim", index, f"exit code {code}", exit_code=code)
    found = of_run(run.end("failed"))["failures"]
    assert [(one["message"], one["exit_code"], one["tasks"]) for one in found] == [
        ("exit code 3", 3, ["sim/0", "sim/2"]),
        ("exit code 4", 4, ["sim/1"]),
    ]


# --- skipped --------------------------------------------------------------------------------------


def test_a_task_that_its_condition_left_out_names_the_condition(tmp_path: Path) -> None:
    run = flow(tmp_path).skipped("some", 0, reason="when").end("succeeded")
    assert of_run(run)["skipped"][0]["reason"] == "when"
    assert of_task(run, "some", 0)["why"] == ["its `when` does not hold: t > 10"]


def test_a_stage_whose_axis_was_never_made_says_why(tmp_path: Path) -> None:
    run = flow(tmp_path)
    run.write("stage", stage="end", kind="analysis", total=0, void="'pick' did not make the axis 'found'")
    run.end("failed")
    assert "end: never began: 'pick' did not make the axis 'found'" in text_of_run(run).splitlines()


# --- waiting and running --------------------------------------------------------------------------


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
