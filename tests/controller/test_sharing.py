"""Equal trials of a run share a result, unless something reads which trial it is."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.throwaway import Project, wait_for

SEARCH = """
hyperparameters: {x: {type: choice, choices: [1, 2], default: 1}}
axes: {trial: {search: {sampler: random, trials: 6, parallel: 6, seed: 1, parameters: [x], minimize: s.y}}}
stages:
"""
STAGE = SEARCH + "  s: {over: [trial], command: '%s', outputs: {y: {value: float}}}\n"
GIVES = 'echo "{\\"y\\": ${{ hp.x }}}" > $DIEL_RESULT'


def shared(project: Project) -> dict[str, int]:
    stages: dict[str, Any] = json.loads(project.diel("status", "--json"))["stages"]
    return {name: one.get("shared", 0) for name, one in stages.items()}


MODULE = """
    @diel.module(kind="simulation")
    def plain(x: int) -> dict:
        return {"y": x}

    @diel.module(kind="simulation")
    def named(x: int, trial: int) -> dict:
        return {"y": x, "n": trial}

    @diel.module(kind="simulation")
    def anything(**given: object) -> dict:
        return {"n": given["trial"]}
"""
READ = (
    SEARCH
    + """
      s: {over: [trial], module: "m:plain", params: {x: "${{ hp.x }}"}}
      file: {over: [trial], command: 'cp ${{ files.f }} .; cat $DIEL_PARAMS', files: {f: "${{ hp.x }}.txt"}}
      reader: {over: [trial], command: 'cat ${{ inputs.y }}', inputs: {y: made.o}}
      made: {over: [trial], command: 'echo ${{ hp.x }} > o', outputs: {o: o}}
      text: {over: [trial], command: 'echo ${{ trial }}'}
      index: {over: [trial], command: 'echo ${{ task.index }}'}
      variable: {over: [trial], command: 'echo $DIEL_TASK_ID'}
      param: {over: [trial], command: 'cat $DIEL_PARAMS', params: {n: "${{ trial }}"}}
      env: {over: [trial], command: 'echo $N', env: {N: "${{ trial }}"}}
      template: {over: [trial], command: 'cat t', files: {t: {template: t}}}
      output: {over: [trial], command: 'echo > ${{ outputs.o }}', outputs: {o: "o${{ trial }}"}}
      own: {over: [trial], command: 'cat ${{ files.f }}', files: {f: "n${{ trial }}.txt"}}
      named: {over: [trial], module: "m:named", params: {x: "${{ hp.x }}"}}
      anything: {over: [trial], module: "m:anything", params: {x: "${{ hp.x }}"}}
      loose: {over: [trial], command: 'echo ${{ hp.x }} >o', outputs: {o: {path: o, keep: false}}}
      last: {over: [trial], command: 'cat ${{ loose.o }}'}
"""
)


SHARING = ("s", "file", "reader", "made", "last")


def test_the_number_of_a_trial_counts_where_it_is_read(tmp_path: Path) -> None:
    project = Project(tmp_path).module("m", MODULE).workflow(READ)
    (tmp_path / "t").write_text("${{ trial }}")
    for name in ("1", "2", *(f"n{trial}" for trial in range(6))):
        (tmp_path / f"{name}.txt").write_text("the same")
    run = project.run()
    found = shared(project)
    assert {name: count for name, count in found.items() if count} == dict.fromkeys(SHARING, 4)
    assert (
        run.stdout("file", next(iter(i for i, r in run.results("file").items() if "same" not in r))) == "{}"
    )
    assert run.values("s", "y") == [record["hp"]["x"] for record in run.records("trial")]
    assert "which is the same work" in project.diel("explain", "s/5")
    assert "s: 4 tasks took the result of an equal trial" in project.diel("status")
    project.diel("results", "--csv")
    again = project.run()
    assert again.counts("s") == again.counts("made") == again.counts("text") == {"cached": 6}
    assert project.run("--no-cache").counts("s") == {"done": 6}, "each for itself, where nothing is reused"


def test_what_failed_is_not_shared_and_the_next_one_runs(tmp_path: Path) -> None:
    script = "mkdir ../once${{ hp.x }} || " + GIVES
    run = Project(tmp_path).workflow(STAGE % f"{script}; test -s $DIEL_RESULT").run()
    assert run.counts("s") == {"failed": 2, "done": 1, "cached": 3}, "one point has one trial"


@pytest.mark.parametrize("whom", ["controller", "all"])
def test_who_waits_for_another_goes_on_after_a_kill(tmp_path: Path, whom: str) -> None:
    script = f"touch ran; until test -e $DIEL_RUN_DIR/go; do sleep 0.1; done; {GIVES}"
    project = Project(tmp_path).machine("two", 2).workflow(STAGE % script)
    started = project.start("run", "flow.yaml", "--site", "two")
    wait_for(lambda: len(list(tmp_path.glob("runs/flow-1/tasks/s/*/ran"))) == 2)
    run = project.newest()
    for process in run.processes() if whom == "all" else ():
        with suppress(psutil.NoSuchProcess):  # it ends with the one before
            process.kill()
    started.send_signal(signal.SIGKILL)
    project.end(started, code=-signal.SIGKILL)
    (run.root / "go").touch()
    project.diel("resume")
    assert run.counts("s") == {"done": 2, "cached": 4}
    assert run.values("s", "y") == [record["hp"]["x"] for record in run.records("trial")]


def test_a_cancelled_task_is_not_waited_for(tmp_path: Path) -> None:
    script = f"touch ran; until test -e $DIEL_RUN_DIR/go; do sleep 0.1; done; {GIVES}"
    project = Project(tmp_path).machine("two", 2).workflow(STAGE % script)
    started = project.start("run", "flow.yaml", "--site", "two")
    wait_for(lambda: len(list(tmp_path.glob("runs/flow-1/tasks/s/*/ran"))) == 2)
    project.diel("cancel", "flow-1", "s/0")
    wait_for(lambda: len(list(tmp_path.glob("runs/flow-1/tasks/s/*/ran"))) == 3)
    (tmp_path / "runs" / "flow-1" / "go").touch()
    project.end(started, code=None)
    assert project.newest().counts("s") == {"cancelled": 1, "done": 2, "cached": 3}


def test_a_pruner_sees_what_the_equal_trial_reported(tmp_path: Path) -> None:
    project = Project(tmp_path).module(
        "m",
        """
        @diel.module(kind="simulation")
        def train(x: int, context: diel.Context) -> dict:
            for step in range(4):
                context.report(step=step, loss=float(x))
            return {"y": x}
        """,
    )
    project.workflow(
        SEARCH.replace(
            "minimize: s.y", "minimize: s.y, pruner: {name: median, n_startup_trials: 100}, watch: s.loss"
        )
        + '  s: {over: [trial], module: "m:train", params: {x: "${{ hp.x }}"}}\n'
    )
    run = project.run()
    reported = [(one["number"], one["step"], one["value"]) for one in run.records("reported")]
    trials = [record["hp"]["x"] for record in run.records("trial")]
    assert sorted(reported) == [(n, step, float(x)) for n, x in enumerate(trials) for step in range(4)]
    assert run.counts("s") == {"done": 2, "cached": 4}
