"""A search that is given more trials than its run began with, and killed on its way."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.throwaway import Project, Run, wait_for

FLOW = """
    hyperparameters: {x: {type: float, low: 0, high: 1}, y: {type: float, low: 0, high: 1}}
    axes:
      trial:
        search:
          {sampler: {name: tpe, multivariate: true}, startup: 4, seed: 3, trials: TRIALS, minimize: train.loss,
           parameters: [x, y], pruner: {name: median, n_startup_trials: 3}}
    stages:
      train: {over: [trial], module: "work:train", params: {x: "${{ hp.x }}", y: "${{ hp.y }}", trial: "${{ trial }}"}}
      best: {module: "work:best", inputs: {loss: {from: train.loss, at: {trial: best}}}}
      after: {command: [echo, "${{ best.loss }}"]}
"""
WORK = """
    import time
    from pathlib import Path

    @diel.module(kind="training")
    def train(context: diel.Context, x: float, y: float, trial: int) -> dict:
        loss = (x - 0.3) ** 2 + (y - 0.6) ** 2
        for epoch in range(2):
            context.report(epoch=epoch, loss=loss + 1 / (epoch + 1))
        stop = Path(FOLDER) / str(trial)
        while stop.exists():
            stop.with_suffix(".met").touch()
            time.sleep(0.02)
        return {"loss": loss}

    @diel.module(kind="analysis")
    def best(loss: float) -> dict:
        return {"loss": loss}
"""


def trials(run: Run) -> list[tuple[Any, ...]]:
    (course,) = run.history().axes["trial"].courses.values()
    return [(one.hp, one.state, one.values, one.reported) for one in course.trials]


def killed(project: Project, trial: int, *words: str) -> None:
    """Calls diel, and kills its controller while a trial runs."""
    stop = project.folder / str(trial)
    stop.touch()
    process = project.start(*words)
    wait_for(stop.with_suffix(".met").exists)
    process.kill()
    project.end(process, -signal.SIGKILL)
    stop.unlink()


def test_a_search_extended_twice_and_killed_twice_equals_one_that_was_asked_for_all_trials_at_once(
    tmp_path: Path,
) -> None:
    work = WORK.replace("FOLDER", repr(str(tmp_path)))
    whole = Project(tmp_path / "whole").workflow(FLOW.replace("TRIALS", "18")).module("work", work).run()
    project = Project(tmp_path).workflow(FLOW.replace("TRIALS", "5")).module("work", work)
    run = project.run()
    complete = [number for number, trial in enumerate(trials(whole)) if trial[2]]
    first, second = [number for number in complete if number > 5][:2]
    killed(project, first, "resume", "--trials", str(second))
    killed(project, second, "resume", "--trials", "18")
    said = project.diel("resume")
    assert "18 trials" in said
    assert trials(run) == trials(whole)
    assert [one["values"]["loss"] for one in run.records("done", "best")[-1:]] == whole.values("best", "loss")
    assert run.stdout("after", attempt=run.attempts("after")[-1]) == whole.stdout("after")
    assert "has succeeded: there is nothing to do" in project.diel("resume", "--trials", "18")
    assert "'trial' has 18 trials: give it more" in project.diel("resume", "--trials", "17", code=2)


NARROW = """
    hyperparameters: {x: {type: int, low: 0, high: 100}}
    axes:
      trial: {search: {sampler: qmc, seed: 3, trials: 2, minimize: f.v, parameters: [x], constraints: [f.v <= LEAST]}}
    stages:
      f:
        over: [trial]
        command: |
          echo '{"v": ${{ hp.x }}}' > "$DIEL_RESULT"
        outputs: {v: {value: int}}
      best: {command: [echo, "${{ inputs.v }}"], inputs: {v: {from: f.v, at: {trial: best}}}}
"""


def test_a_search_that_failed_as_no_trial_keeps_its_constraints_can_be_extended(tmp_path: Path) -> None:
    whole = Project(tmp_path / "whole").workflow(
        NARROW.replace("trials: 2", "trials: 9").replace("LEAST", "100")
    )
    found = whole.run().values("f", "v")
    least = min(found[2:])
    assert least < min(found[:2])
    project = Project(tmp_path).workflow(NARROW.replace("LEAST", str(least)))
    run = project.run(code=1)
    assert "no trial keeps its constraints" in project.diel("status")
    project.diel("resume", "--trials", "9")
    assert run.values("f", "v") == found
    assert run.stdout("best", attempt=run.attempts("best")[-1]) == f"{least}\n"
    assert run.history().state == "succeeded"


EACH = """
    hyperparameters: {x: {type: float, low: 0, high: 1}, y: {type: float, low: 0, high: 1}}
    axes:
      material: {values: [cu, fe]}
      fold: {range: 2}
      trial: {search: {sampler: tpe, startup: 2, seed: 3, trials: TRIALS, minimize: train.loss, parameters: [x, y]}}
    stages:
      part:
        over: [material, fold, trial]
        command: |
          echo '{"loss": ${{ (hp.x - 0.3) ** 2 + fold * hp.y + len(material) }}}' > "$DIEL_RESULT"
        outputs: {loss: {value: float}}
      train: {over: [material, trial], module: "work:mean", inputs: {losses: part.loss}}
      all: {over: [material], module: "work:mean", inputs: {losses: train.loss}}
      best: {over: [material], module: "work:mean", inputs: {losses: {from: part.loss, at: {trial: best}}}}
"""
MEAN = """
    @diel.module(kind="analysis")
    def mean(losses: list[float]) -> dict:
        return {"loss": sum(losses) / len(losses), "read": losses}
"""


def test_tasks_keep_their_numbers_where_an_extended_search_is_not_the_first_axis(tmp_path: Path) -> None:
    def project(name: str, trials: int) -> Project:
        return Project(tmp_path / name).workflow(EACH.replace("TRIALS", str(trials))).module("work", MEAN)

    whole, small = project("whole", 9), project("small", 3)
    run, extended = whole.run(), small.run()
    before = extended.results("part")
    small.diel("resume", "--trials", "5")
    small.diel("resume", "--trials", "9")
    after = extended.results("part")
    assert {index: after[index] for index in before} == before, "nothing ran again, at another number"
    for words in (["part.loss"], ["train.read"], ["all.read"], ["best.read"], ["trial", "--trials"]):
        one, other = (each.diel("results", "last", *words, "--csv") for each in (whole, small))
        told = [[row.split(",")[:7] for row in text.splitlines()] for text in (one, other)]
        assert told[0] == told[1], words
    assert sorted(after) == sorted(run.results("part")) == list(range(36))
    assert "best" in small.diel("status")
