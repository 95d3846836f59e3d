"""What a search does, as a user sees it: trials, pruning, lost workers, missing scores, how it ends.

A run costs most of a second, so that one run serves many tests.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from diel.store.journal.axis_history import Course, Trial
from tests.cli.call import call
from tests.throwaway import Project, Record, Run, wait_for

GONE = 20.0
"""Seconds within which a pruned trial is to be gone."""


def course(run: Run, axis: str = "trial") -> Course:
    (found,) = run.history().axes[axis].courses.values()
    return found


def states(run: Run, axis: str = "trial") -> list[str]:
    return [str(trial.state) for trial in course(run, axis).trials]


def trial_of(run: Run, number: int, axis: str = "trial") -> Trial:
    return course(run, axis).trials[number]


def together(run: Run, stage: str) -> int:
    """The most attempts of a stage that ran at a time."""
    begun = {(r["index"], r["attempt"]): r["time"] for r in run.records("start", stage)}
    ended = {(r["index"], r["attempt"]): r["time"] for r in run.records(stage=stage) if r["event"] in END}
    moments = [(begun[one], 1) for one in begun] + [(ended[one], -1) for one in begun]
    return max(itertools.accumulate(change for _, change in sorted(moments)))


END = ("done", "fail")

# --- a search over a subgraph -----------------------------------------------------------------

SEARCH = """
    hyperparameters:
      width: {type: int, low: 1, high: 100}
      rate: {type: float, low: 0.001, high: 1, log: true, default: 0.5}
    axes:
      fold: {range: 2}
      trial:
        search: {sampler: tpe, trials: 12, parallel: 3, seed: 5, minimize: score.value, parameters: [width, rate]}
    stages:
      train: {over: [trial, fold], module: "work:train", params: {width: "${{ hp.width }}", slow: "${{ trial == 0 and fold == 0 }}"}}
      score: {over: [trial], module: "work:score", inputs: {losses: train.loss}, params: {rate: "${{ hp.rate }}"}}
      best:
        module: "work:keep"
        inputs:
          value: {from: score.value, at: {trial: best}}
          width: {from: hp.width, at: {trial: best}}
          losses: {from: train.loss, at: {trial: best}}
      top: {module: "work:keep", inputs: {value: {from: score.value, at: {trial: {top: 3}}}}}
      plain: {module: "work:keep", params: {value: "${{ hp.rate }}"}}
"""
WORK = """
    import time
    from typing import Any

    @diel.module(kind="training")
    def train(width: int, slow: bool) -> dict:
        time.sleep(1 if slow else 0.01)
        return {"loss": abs(width - 40) / 100}

    @diel.module(kind="analysis")
    def score(losses: list[float], rate: float) -> dict:
        return {"value": sum(losses) + rate}

    @diel.module(kind="analysis")
    def keep(value: Any, width: int = 0, losses: Any = None) -> dict:
        return {"kept": [value, width, losses]}
"""


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Run]:
    project = Project(tmp_path_factory.mktemp("search")).workflow(SEARCH).module("work", WORK)
    return project, project.run()


def test_a_search_runs_its_trials_and_hands_on_the_best(searched: tuple[Project, Run]) -> None:
    _, run = searched
    assert run.history().state == "succeeded"
    assert states(run) == ["complete"] * 12
    values = run.values("score", "value")
    assert [trial.values for trial in course(run).trials] == [[value] for value in values]
    best = min(range(12), key=lambda number: values[number])
    width = trial_of(run, best).hp["width"]
    loss = abs(width - 40) / 100
    assert run.value("best", "kept") == [values[best], width, [loss, loss]]
    assert run.value("top", "kept") == [sorted(values)[:3], 0, None]
    assert run.value("plain", "kept") == [0.5, 0, None], "a stage outside of the search has the default"


def test_no_more_trials_are_under_way_than_may_and_none_waits_for_a_slow_one(
    searched: tuple[Project, Run],
) -> None:
    _, run = searched
    changes = [(r["time"], 1 if r["event"] == "trial" else -1) for r in run.records()
               if r["event"] in ("trial", "judged")]  # fmt: skip
    assert max(itertools.accumulate(change for _, change in sorted(changes))) == 3
    ended = {r["number"]: r["time"] for r in run.records("judged")}
    assert sum(moment < ended[0] for moment in ended.values()) >= 4, (
        "trial 0 takes a second, the others 0.01 s"
    )


def test_trials_side_by_side_run_on_workers_side_by_side(searched: tuple[Project, Run]) -> None:
    _, run = searched
    assert together(run, "train") == 2


# --- pruning ------------------------------------------------------------------------------------

PRUNING = """
    hyperparameters: {x: {type: float, low: 0, high: 1}, y: {type: float, low: 0, high: 1}}
    axes:
      trial:
        search: {sampler: random, trials: 8, seed: 1, pruner: median, minimize: train.loss, parameters: [x]}
      attempt:
        search: {sampler: random, trials: 8, seed: 1, pruner: median, minimize: shell.score, watch: shell.loss, parameters: [y]}
    stages:
      train: {over: [trial], module: "work:train", params: {trial: "${{ trial }}", x: "${{ hp.x }}"}}
      after: {over: [trial], module: "work:after", inputs: {loss: train.loss}}
      best: {module: "work:after", inputs: {loss: {from: train.loss, at: {trial: best}}}}
      shell:
        over: [attempt]
        command: |
          case ${{ attempt }} in
            5|7)
              echo '{"step": 0, "loss": 99}' >> "$DIEL_METRICS"
              trap '' TERM
              setsid sleep 300 &
              sleep 300; sleep 300 ;;
            6) touch BEGAN; until [ -e GO ]; do sleep 0.02; done ;;
            *) printf '{"step": 0, "loss": 1}\\n{"step": 1, "loss": 1}\\n' >> "$DIEL_METRICS" ;;
          esac
          echo '{"score": ${{ hp.y }}}' > "$DIEL_RESULT"
        outputs: {score: {value: float}}
"""
TRAINING = """
    import time

    @diel.module(kind="training")
    def train(context: diel.Context, trial: int, x: float) -> dict:
        bad = trial in (5, 7)
        for epoch in range(3000 if bad else 3):
            if trial == 5 and epoch == 1:  # which is deaf from here on
                time.sleep(300)
            try:
                context.report(epoch=epoch, loss=99.0 + epoch if bad else x)
            except diel.Pruned:
                print("cleans up")
                raise
            time.sleep(0.1 if bad else 0.001)
        return {"loss": x}

    @diel.module(kind="analysis")
    def after(loss: float) -> dict:
        return {"loss": loss}
"""


@dataclass
class Pruned:
    """A run with trials that were pruned."""

    project: Project
    run: Run
    left: list[psutil.Process]
    """What of a pruned command still ran while the trial after it did, for as long as it may."""


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Pruned:
    folder = tmp_path_factory.mktemp("pruned")
    began, go = folder / "began", folder / "go"
    text = PRUNING.replace("BEGAN", str(began)).replace("GO", str(go))
    project = Project(folder).workflow(text).module("work", TRAINING)
    process = project.start("run", "flow.yaml")
    try:
        wait_for(began.exists)
        run, end = project.newest(), time.monotonic() + GONE
        while (left := living(run, "shell", 5)) and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        go.touch()
        project.end(process)
    return Pruned(project, run, left)


def living(run: Run, stage: str, index: int) -> list[psutil.Process]:
    """The processes of a task, wherever they hide."""
    found = []
    for process in run.processes():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("DIEL_TASK_DIR") == str(run.task_dir(stage, index)):
                found.append(process)
    return found


@pytest.mark.parametrize(("axis", "stage"), [("trial", "train"), ("attempt", "shell")])
def test_a_bad_trial_is_stopped_soon(pruned: Pruned, axis: str, stage: str) -> None:
    """A Python function ends with its worker; a command that ignores SIGTERM is killed."""
    run = pruned.run
    judged = {r["number"]: r["time"] for r in run.records("judged") if r["axis"] == axis and is_pruned(r)}
    assert sorted(judged) == [5, 7]
    for number, moment in judged.items():
        (skipped,) = [r for r in run.records("skipped", stage) if r["tasks"] == [[number, number]]]
        assert skipped["reason"] == "axis"
        assert skipped["time"] - moment < GONE


def test_a_function_hears_from_its_next_report_that_it_is_pruned(
    pruned: Pruned,
) -> None:
    run = pruned.run
    (fail,) = [record for record in run.records("fail", "train") if record["index"] == 7]
    assert (fail["class"], fail["message"]) == ("cancelled", "diel.Pruned: its search has stopped this trial")
    assert run.stdout("train", 7) == "cleans up\n"


def is_pruned(record: Record) -> bool:
    return bool(record["state"] == "pruned")


def test_a_run_with_pruned_trials_has_succeeded_and_the_rest_of_them_is_skipped(
    pruned: Pruned,
) -> None:
    run = pruned.run
    assert run.history().state == "succeeded"
    assert states(run) == states(run, "attempt") == [*["complete"] * 5, "pruned", "complete", "pruned"]
    assert trial_of(run, 5).message == "train.loss was 99 at step 0"
    assert trial_of(run, 5, "attempt").message == "shell.loss was 99 at step 0"
    for stage in ("train", "after", "shell"):
        assert sorted(run.results(stage)) == [0, 1, 2, 3, 4, 6]
    losses = [trial.values[0] for trial in course(run).trials if trial.values]
    assert run.value("best", "loss") == min(losses)


def test_what_complete_trials_reported_is_known(pruned: Pruned) -> None:
    run = pruned.run
    x = trial_of(run, 2).hp["x"]
    assert trial_of(run, 2).reported == {0: x, 1: x, 2: x}
    assert trial_of(run, 2, "attempt").reported == {0: 1.0, 1: 1.0}
    assert trial_of(run, 7).reported == {0: 99.0}


def test_a_search_with_a_pruner_meets_the_same_trials_again_in_the_cache(
    pruned: Pruned,
) -> None:
    """What a trial from the cache had reported is read where it was made."""
    first, again = pruned.run, pruned.project.run()
    for axis in ("trial", "attempt"):
        for old, new in zip(course(first, axis).trials, course(again, axis).trials, strict=True):
            assert (old.hp, old.state, old.reported, old.values) == (
                new.hp, new.state, new.reported, new.values
            )  # fmt: skip
    assert again.counts("train")["cached"] == again.counts("shell")["cached"] == 6
    assert again.workers() == 0, "what was pruned does not run again, either"


def test_nothing_of_a_pruned_trial_is_left_while_its_run_goes_on(pruned: Pruned) -> None:
    """A command's children that left its process group are ended too, long before the run is over."""
    assert pruned.left == []


# --- what another search has pruned -----------------------------------------------------------------

OTHERS = """
    hyperparameters: {x: {type: float, low: 0, high: 1}}
    axes:
      trial:
        search: {sampler: random, trials: 12, seed: 4, GOAL, parameters: [x], pruner: {name: median, n_startup_trials: 3WARM}}
    stages:
      t: {over: [trial], module: "work:two", params: {x: "${{ hp.x }}"}}
"""
TWO = """
    @diel.module(kind="training")
    def two(context: diel.Context, x: float) -> dict:
        for step in range(1, 7):
            context.report(step=step, error=100 * (1 - x), cost=x)
        return {"error": 100 * (1 - x), "cost": x}
"""


def test_a_search_ends_as_if_no_other_had_pruned_the_same_tasks(tmp_path: Path) -> None:
    """By another metric, in the other direction, or before the step at which this one would look."""
    project = Project(tmp_path).module("work", TWO)
    searches = [
        OTHERS.replace("GOAL", goal).replace("WARM", warm)
        for goal, warm in [
            ("minimize: t.error", ""),
            ("minimize: t.cost", ""),
            ("maximize: t.error", ""),
            ("minimize: t.error", ", n_warmup_steps: 4"),
            ("minimize: t.error, watch: t.eror", ""),
        ]
    ]
    after = [project.workflow(text).run() for text in (*searches, searches[0])]
    alone = [project.workflow(text).run("--no-cache") for text in (*searches, searches[0])]
    for one, other in zip(after, alone, strict=True):
        for seen, true in zip(course(one).trials, course(other).trials, strict=True):
            assert (seen.state, seen.reported, seen.values) == (true.state, true.reported, true.values)
    pruned = [states(run).count("pruned") for run in alone]
    assert all(pruned[:4]), "each has something to keep"
    assert pruned[4] == 0, "nothing reports it"
    assert after[-1].workers() == 0, "it meets its own again"


HALVES = """
    import os

    @diel.module(kind="training")
    def halves(context: diel.Context, x: float) -> dict:
        first = os.environ["DIEL_ATTEMPT"] == "1"
        for step in (1, 2) if first else (3, 4):
            context.report(step=step, loss=x)
        if first:
            raise OSError("went on later")
        return {"loss": x}
"""


def test_a_trial_from_the_cache_had_reported_all_that_it_had_whatever_its_stage_was_called(
    tmp_path: Path,
) -> None:
    """Its task had gone on where an attempt before had failed."""
    project = Project(tmp_path).module("work", HALVES)
    text = OTHERS.replace("work:two", "work:halves").replace("GOAL", "minimize: t.loss").replace("WARM", "")
    text = text.replace("t: {over", "t: {retries: {limit: 1, backoff: 0s}, over")
    first = project.workflow(text).run()
    again = project.workflow(
        text.replace("t.loss", "other.loss").replace("t: {retries", "other: {retries")
    ).run()
    for old, new in zip(course(first).trials, course(again).trials, strict=True):
        assert (old.state, old.reported, old.values) == (new.state, new.reported, new.values)
    assert {"complete", "pruned"} == {*states(again)}
    assert again.workers() == 0
    told = project.diel("results", first.root.name, "t", "--metrics", "--csv").splitlines()
    good = tuple(f"t/{number}," for number, state in enumerate(states(first)) if state == "complete")
    shown = project.diel("results", again.root.name, "other", "--metrics", "--csv").splitlines()
    rows = [row.replace("other/", "t/") for row in shown if row.startswith("other/")]
    assert rows == [row for row in told if row.startswith(good)]


# --- when tasks of pruned trials end ----------------------------------------------------------------

SOON = """
    hyperparameters: {slow: {type: bool, default: false}, x: {type: float, low: 0, high: 1}}
    axes:
      trial:
        search: {sampler: random, trials: 8, seed: 1, pruner: median, minimize: train.loss, parameters: [x]}
      row: {from: train.rows}
    stages:
      train:
        over: [trial]
        module: "work:train"
        params: {trial: "${{ trial }}", x: "${{ hp.x }}", slow: "${{ hp.slow }}"}
        outputs: {text: {export: "${{ 'slow' if hp.slow else 'soon' }}/${{ trial }}"}}
      beside:
        over: [trial]
        command: |
          echo '{"x": ${{ hp.x }}}' > "$DIEL_RESULT"
        outputs: {x: {value: float}}
      all: {module: "work:all", inputs: {losses: train.loss, x: beside.x}}
      some: {module: "work:all", inputs: {losses: {from: train.loss, min_success: 0.9}, x: beside.x}}
      one: {command: [echo, "${{ inputs.loss }}"], inputs: {loss: {from: train.loss, at: {trial: 5}}}}
      each: {over: [row], command: [echo, "${{ row }}"]}
"""
ENDING = """
    from pathlib import Path

    @diel.module(kind="training")
    def train(context: diel.Context, trial: int, x: float, slow: bool) -> dict:
        bad = trial in (5, 7)
        context.report(epoch=0, loss=99.0 if bad else x)
        while bad and slow:
            context.report(epoch=1, loss=99.0)
        Path("text").write_text(str(trial))
        return {"loss": x, "rows": [trial], "text": Path("text")}

    @diel.module(kind="analysis")
    def all(losses: list[float], x: list[float]) -> dict:
        return {"read": losses + x}
"""


def test_when_a_task_of_a_pruned_trial_ends_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trial that is stopped on its way, one whose task has ended before anybody looked, one of the cache."""
    project = Project(tmp_path).workflow(SOON).module("work", ENDING)
    runs = [project.run(*words) for words in (["--set", "slow=true"], [], [])]
    shown = []
    for run in runs:
        told = [
            call(capsys, "results", str(run.root), *words, "--json").out
            for words in (["train.loss"], ["beside.x"], ["trial", "--trials"])
        ]
        *rows, trials = (json.loads(one)["rows"] for one in told)
        for row in trials:
            del row["began"], row["seconds"]
        counts = [run.counts(stage) for stage in ("train", "beside", "one", "each")]
        good = [one.get("done", 0) + one.get("cached", 0) for one in counts]
        shown.append((rows, trials, good, run.value("all", "read"), run.value("some", "read")))
    assert shown[0] == shown[1] == shown[2]
    assert [row["trial"] for row in shown[0][0][0]] == [0, 1, 2, 3, 4, 6]
    assert [row["state"] for row in shown[0][1]] == [*["complete"] * 5, "pruned", "complete", "pruned"]
    assert len(shown[0][3]) == 12, "two for each trial that counts"
    assert shown[0][2] == [6, 6, 0, 6], "`one` reads trial 5"
    for folder in ("slow", "soon"):
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == list("012346")


# --- trials that are lost, and trials without a score ----------------------------------------------

OUTSIDE = """
    hyperparameters: {x: {type: float, low: 0, high: 1}}
    axes:
      trial: {search: {sampler: tpe, trials: 8, startup: 3, seed: 1, minimize: f.value, parameters: [x]}}
    stages:
      f:
        over: [trial]
        command: |
          case $DIEL_ATTEMPT-KILLS-${{ trial }} in
          1-yes-1) kill -KILL $$;;
          1-yes-4) sh -c 'kill -KILL $$';;
          1-yes-5) kill -TERM $$;;
          1-yes-6) kill -KILL $PPID;;
          esac
          echo '{"value": ${{ hp.x }}}' > "$DIEL_RESULT"
        outputs: {value: {value: float}}
"""


def test_a_search_whose_processes_are_killed_from_outside_ends_as_one_that_is_left_alone(
    tmp_path: Path,
) -> None:
    alone, killed = (
        Project(tmp_path / kills).workflow(OUTSIDE.replace("KILLS", kills)).run() for kills in ("no", "yes")
    )
    assert [len(killed.attempts("f", trial)) for trial in range(8)] == [1, 2, 1, 1, 2, 2, 2, 1]
    ends = {(record["class"], record.get("exit_code")) for record in killed.records("fail")}
    assert ends == {("node", 137), ("node", 143), ("node", None)}, "the last one's worker was lost"
    told = [
        [
            (record.get("hp"), record.get("values"))
            for event in ("trial", "judged")
            for record in run.records(event)
        ]
        for run in (alone, killed)
    ]
    assert told[0] == told[1]


# --- how a search ends ------------------------------------------------------------------------------

ENDS = """
    hyperparameters: {x: {type: float, low: 0, high: 1}}
    axes:
      until: {search: {sampler: random, trials: 50, minimize: f.value, parameters: [x], until: "f.value >= 3"}}
      budget: {search: {sampler: random, trials: 50, minimize: g.value, parameters: [x], core_hours: 0.0001}}
      limit: {search: {sampler: random, trials: 500, minimize: h.value, parameters: [x], timeout: 1s}}
    stages:
      f: {over: [until], module: "work:count", params: {x: "${{ hp.x }}", number: "${{ until }}", seconds: 0}}
      pairs: {module: "work:pairs", inputs: {a: {from: f.value, missing: null}, b: {from: f.until, missing: null}}}
      g: {over: [budget], module: "work:count", params: {x: "${{ hp.x }}", number: "${{ budget }}", seconds: 0.1}}
      h: {over: [limit], module: "work:count", params: {x: "${{ hp.x }}", number: "${{ limit }}", seconds: 0.1}}
"""
COUNT = """
    import time

    @diel.module(kind="training")
    def count(x: float, number: int, seconds: float) -> dict:
        time.sleep(seconds)
        return {"value": number}

    @diel.module(kind="analysis")
    def pairs(a: list, b: list) -> dict:
        return {"pairs": [a, b]}
"""


def test_a_search_ends_when_its_goal_is_met_or_its_means_are_spent(tmp_path: Path) -> None:
    run = Project(tmp_path).workflow(ENDS).module("work", COUNT).run()
    assert run.history().state == "succeeded"
    assert (course(run, "until").points, course(run, "until").reason) == (4, "until")
    assert run.value("pairs", "pairs") == [[0, 1, 2, 3], [0, 1, 2, 3]], "trials that never were lack nothing"
    assert course(run, "budget").reason == "core_hours"
    spent = [r["seconds"] for r in run.results("g").values()]
    assert sum(spent) >= 0.36 > sum(spent[:-1]), "0.0001 core-hours are 0.36 s"
    assert course(run, "limit").reason == "timeout"
    assert 1 <= len(run.results("h")) < 20


# --- how good it is ---------------------------------------------------------------------------------

BRANIN = """
    hyperparameters: {x: {type: float, low: -5, high: 10}, y: {type: float, low: 0, high: 15}}
    axes:
      trial: {search: {sampler: SAMPLER, trials: 30, seed: SEED, minimize: f.value, parameters: [x, y]}}
    stages:
      f:
        over: [trial]
        command: [PYTHON, "${{ files.program }}", "${{ hp.x }}", "${{ hp.y }}"]
        files: {program: branin.py}
        outputs: {value: {value: float}}
"""
PROGRAM = """
import json, math, os, sys
x, y = map(float, sys.argv[1:])
value = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
value += 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
with open(os.environ["DIEL_RESULT"], "w") as file:
    json.dump({"value": value}, file)
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Run]:
    project = Project(tmp_path_factory.mktemp("commands"))
    (project.folder / "branin.py").write_text(PROGRAM)
    text = BRANIN.replace("PYTHON", f'"{sys.executable}", -S').replace("SAMPLER", "tpe").replace("SEED", "3")
    project.workflow(text)
    return project, project.run()


def test_the_same_search_again_takes_all_from_the_cache(commands: tuple[Project, Run]) -> None:
    project, first = commands
    again = project.run()
    assert again.counts("f") == {"cached": 30}
    assert again.workers() == 0
    assert [t.hp for t in course(again).trials] == [t.hp for t in course(first).trials]
    assert [t.values for t in course(again).trials] == [t.values for t in course(first).trials]


# --- failures of trials -------------------------------------------------------------------------------

CRASHING = """
    hyperparameters: {x: {type: float, low: 0, high: 1}}
    axes:
      fold: {range: 2}
      trial: {search: {sampler: random, trials: TRIALS, seed: 1, minimize: score.mean, parameters: [x] MORE}}
    stages:
      f:
        over: [trial, fold]
        command: |
          if grep -qx "${{ trial }} ${{ fold }}" BAD; then exit 1; fi
          echo '{"value": ${{ hp.x }}}' > "$DIEL_RESULT"
        outputs: {value: {value: float}}
      score:
        over: [trial]
        command: |
          echo '{"mean": ${{ sum(f.value) }}}' > "$DIEL_RESULT"
        outputs: {mean: {value: float}}
      end: {command: [echo, "${{ inputs.v }}"], inputs: {v: {from: score.mean, at: {trial: best}}}}
"""


def crashing(folder: Path, bad: Iterable[int], more: str = "", trials: int = 8) -> Project:
    """A search in which the first fold of some trials crashes, as long as a file says so."""
    (folder / "bad").write_text("".join(f"{trial} 0\n" for trial in bad))
    text = CRASHING.replace("MORE", more).replace("TRIALS", str(trials))
    return Project(folder).workflow(text.replace("BAD", str(folder / "bad")))


def test_a_trial_that_crashes_has_failed_and_the_search_is_decided_without_it(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = crashing(workspace, [2, 5])
    run = project.run()
    assert run.history().state == "succeeded"
    assert [number for number, state in enumerate(states(run)) if state == "failed"] == [2, 5]
    answer = call(capsys, "status", "--exit-code")
    said = answer.out
    assert answer.code == 0
    assert "2 failed, tolerated" in said
    assert "f/4 (trial=2, fold=0)  app: exit code 1 (tolerated by search 'trial')" in said
    (failure,) = json.loads(call(capsys, "explain", "--json").out)["failures"]
    assert (failure["tasks"], failure["tolerated"]) == (["f/4", "f/10"], "search 'trial'")
    assert "2 failed, tolerated" in call(capsys, "report").out
    assert "2 failed, tolerated" in call(capsys, "results", "last", "f.value").err


@pytest.mark.parametrize(
    ("bad", "more", "of", "trials", "reason"),
    [
        (
            [1, 3],
            ", failures: 1",
            8,
            4,
            "2 of 4 trials failed, more than `failures: 1` allows; the last: f.value",
        ),
        ([0, 1, 2, 4, 6], "", 8, 7, "5 of 7 trials failed, more than `failures: 0.5` allows"),
        ([0], ", failures: 0", 8, 1, "no trial has a score: the first 1 all failed"),
        (range(24), "", 24, 10, "no trial has a score: the first 10 all failed"),
        (range(12), ", failures: 1.0", 12, 12, "no trial has a score"),
    ],
)
def test_a_search_of_which_too_much_failed_ends_and_resume_heals_it(
    tmp_path: Path, bad: Iterable[int], more: str, of: int, trials: int, reason: str
) -> None:
    project = crashing(tmp_path, bad, more, of)
    said = project.diel("run", "flow.yaml", code=1)
    assert reason.partition(";")[0] in said
    run = project.newest()
    assert len(states(run)) == trials
    assert run.counts("end") == {"skipped": 1}
    (tmp_path / "bad").write_text("")
    project.diel("resume", run.id)
    assert run.history().state == "succeeded"
    assert set(states(run)) == {"complete"}


UNSEEDED = """
    hyperparameters: {x: {type: float, low: 0, high: 1}}
    axes:
      trial: {search: {sampler: random, trials: 4, minimize: f.value, parameters: [x]}}
    stages:
      f: {over: [trial], command: 'echo "{\\"value\\": ${{ hp.x }}}" > "$DIEL_RESULT"', outputs: {value: {value: float}}}
"""


def test_a_search_without_a_seed_proposes_what_it_proposed_before_and_more(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(UNSEEDED)
    first = project.run().values("f", "value")
    project.workflow(UNSEEDED.replace("trials: 4", "trials: 6"))
    more = project.run()
    assert more.values("f", "value")[:4] == first
    assert more.counts("f") == {"cached": 4, "done": 2}
    anew = project.run("--no-cache").values("f", "value")
    assert not set(anew) & set(more.values("f", "value"))
    assert project.run().values("f", "value") == anew, "the last run's seed holds"


GROUPED = """
    hyperparameters: {x: {type: float, low: 0, high: 1}}
    axes:
      group: {values: [a, b, c, d]}
      trial: {search: {sampler: random, trials: 4, seed: 1, minimize: f.value, parameters: [x]}}
    stages:
      f:
        over: [group, trial]
        command: |
          if grep -qx "${{ group }}" BAD; then exit 3; fi
          echo '{"value": ${{ hp.x }}}' > "$DIEL_RESULT"
        outputs: {value: {value: float}}
      plot: {over: [group, trial], command: [echo, "${{ f.value }}"]}
      all:
        command: 'test "${{ inputs.v }}" = "${{ inputs.x }}" && echo ${{ len(inputs.v) }}'
        inputs:
          v: {from: f.value, at: {trial: best}, min_success: 0.5}
          x: {from: hp.x, at: {trial: best}, min_success: 0.5}
      after: {after: [all], command: echo then}
"""


def grouped(folder: Path, bad: str, more: str = "") -> Project:
    """A search for each of four groups, in some of which all trials crash; two have to be decided."""
    (folder / "bad").write_text("".join(f"{group}\n" for group in bad))
    return Project(folder).workflow(GROUPED.replace("BAD", str(folder / "bad")) + more)


def test_min_success_counts_the_searches_that_failed(tmp_path: Path) -> None:
    project = grouped(tmp_path, "ad")
    run = project.run()
    assert run.history().state == "succeeded"
    assert (run.stdout("all"), run.stdout("after")) == ("2\n", "then\n")
    said = project.diel("status", "--exit-code")
    assert "(tolerated by `min_success` of 'all')" in said
    before = run.records()
    assert "nothing to do" in project.diel("resume", run.id)
    assert run.records() == before


def test_more_searches_failed_than_min_success_allows(tmp_path: Path) -> None:
    project = grouped(tmp_path, "abd")
    run = project.run(code=1)
    assert run.history().state == "failed"
    assert run.counts("all") == {"skipped": 1}
    assert "tolerated" not in project.diel("status")
    (tmp_path / "bad").write_text("d\n")
    project.diel("resume", run.id)
    assert (run.history().state, run.stdout("all")) == ("succeeded", "3\n")


def test_a_search_that_failed_is_a_failure_where_others_need_it(tmp_path: Path) -> None:
    needs = '  each: {over: [group], command: [echo, "${{ inputs.v }}"], inputs: {v: {from: f.value, at: {trial: best}}}}\n'
    project = grouped(tmp_path, "c", "    " + needs)
    run = project.run(code=1)
    assert (run.history().state, run.stdout("all")) == ("failed", "3\n")
    assert run.counts("each") == {"done": 3, "skipped": 1}


def test_a_search_that_failed_is_tolerated_where_what_reads_it_is(tmp_path: Path) -> None:
    each = """
      each:
        over: [group]
        command: 'echo "{\\"v\\": ${{ inputs.v }}}" > "$DIEL_RESULT"'
        inputs: {v: {from: f.value, at: {trial: best}}}
        outputs: {v: {value: float}}
      total: {command: [echo, "${{ len(inputs.v) }}"], inputs: {v: {from: each.v, min_success: 0.75}}}
"""
    project = grouped(tmp_path, "ac", each)
    run = project.run(code=1)
    assert (run.history().state, run.stdout("all"), run.counts("total")) == ("failed", "2\n", {"skipped": 1})
    (tmp_path / "bad").write_text("c\n")
    project.diel("resume", run.id)
    assert (run.history().state, run.stdout("total")) == ("succeeded", "3\n")
    assert run.counts("each") == {"done": 3, "skipped": 1}


def test_a_tolerated_search_stays_so_when_its_run_is_resumed_for_another_reason(tmp_path: Path) -> None:
    project = grouped(tmp_path, "b", f"      other: {{command: test -e {tmp_path}/mended}}\n")
    run = project.run(code=1)
    assert ")  app: exit code 3 (tolerated by `min_success` of 'all')" in project.diel("status")
    (tmp_path / "bad").write_text("")
    (tmp_path / "mended").touch()
    project.diel("resume", run.id)
    assert run.history().state == "succeeded"
    assert (run.attempts("f", 4), run.counts("f")["failed"], run.attempts("all")) == ([1], 3, [1])
    assert "failed, tolerated by `min_success` of 'all': no trial has a score" in project.diel("status")
    assert "gathers group, 3 of 4 done" in project.diel("explain", "all/0")


def test_a_search_that_was_decided_is_no_excuse_for_a_stage_that_needs_every_trial(tmp_path: Path) -> None:
    project = crashing(tmp_path, [2])
    with (tmp_path / "flow.yaml").open("a") as file:
        file.write("  every: {command: [echo, '${{ score.mean }}']}\n")
    run = project.run(code=1)
    assert (run.counts("end"), run.counts("every")) == ({"done": 1}, {"skipped": 1})
    (tmp_path / "bad").write_text("")
    assert "tolerated" not in project.diel("status", run.id)


LOOPED = """
    axes:
      group: {values: [a, b, c]}
      round: {loop: {max: 4, until: "${{ check.v > 1 }}"}}
    stages:
      step:
        over: [group, round]
        command: 'test ${{ group }}${{ round }} != b1; echo "{\\"v\\": ${{ inputs.old + 1 }}}" > "$DIEL_RESULT"'
        inputs: {old: {from: step.v, at: {round: previous}, initially: 0}}
        outputs: {v: {value: int}}
      check:
        over: [group, round]
        command: 'echo "{\\"v\\": ${{ step.v }}}" > "$DIEL_RESULT"'
        outputs: {v: {value: int}}
      leaf: {over: [group, round], command: 'echo ${{ step.v }}'}
      all: {command: [echo, "${{ inputs.v }}"], inputs: {v: {from: check.v, at: {round: last}, min_success: SHARE}}}
"""


@pytest.mark.parametrize(("share", "state"), [("0.6", "succeeded"), ("0.7", "failed")])
def test_min_success_counts_the_loops_that_failed(tmp_path: Path, share: str, state: str) -> None:
    project = Project(tmp_path).workflow(LOOPED.replace("SHARE", share))
    run = project.run(code=int(state == "failed"))
    assert run.history().state == state
    assert run.counts("all") == ({"done": 1} if state == "succeeded" else {"skipped": 1})
    assert ("round, tolerated by `min_success` of 'all'" in project.diel("status")) == (state == "succeeded")


def test_a_tolerated_search_is_named_too_where_its_run_was_killed_after_its_reader(tmp_path: Path) -> None:
    gate = (
        f"      gate: {{after: [all], command: touch {tmp_path}/begun; test -e {tmp_path}/go || sleep 600}}\n"
    )
    project = grouped(tmp_path, "b", gate)
    process = project.start("run", "flow.yaml")
    wait_for((tmp_path / "begun").exists)
    process.kill()
    project.end(process, -signal.SIGKILL)
    (tmp_path / "go").touch()
    project.diel("resume")
    run = project.newest()
    assert (run.history().state, run.stdout("all"), run.attempts("all")) == ("succeeded", "3\n", [1])
    assert "failed, tolerated by `min_success` of 'all'" in project.diel("status", "--exit-code")


def test_a_hyperparameter_beside_all_results_has_the_value_of_each_trial(tmp_path: Path) -> None:
    text = """
        hyperparameters: {p: {type: int, low: 1, high: 4, default: 3}}
        axes: {trial: {search: {sampler: grid, minimize: score.loss, parameters: [p]}}}
        stages:
          score: {over: [trial], command: 'echo "{\\"loss\\": ${{ (hp.p - 2) ** 2 }}}" > "$DIEL_RESULT"', outputs: {loss: {value: int}}}
          pairs: {inputs: {loss: score.loss, p: hp.p}, command: 'echo "[${{ join(inputs.p, ",") }}]"; echo "[${{ join(inputs.loss, ",") }}]"'}
          spoken: {inputs: {p: hp.p}, command: 'echo "${{ max(score.loss) }} ${{ join(sorted(inputs.p), ",") }} ${{ max(where(inputs.p, score.loss > 0)) }}"'}
          alone: {inputs: {p: hp.p}, command: ["echo", "${{ inputs.p }}"]}
    """
    project = Project(tmp_path).workflow(text)
    run = project.run()
    assert (run.stdout("alone"), run.stdout("spoken")) == ("3\n", "4 1,2,3,4 4\n")
    losses = sorted(zip(*(ast.literal_eval(line) for line in run.stdout("pairs").splitlines()), strict=True))
    assert losses == [(1, 1), (2, 0), (3, 1), (4, 4)]
