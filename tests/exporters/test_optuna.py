"""Optuna reads what was written for it: the same best, every trial as it ended, and what it may be drawn from."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from diel.base.errors import UsageError
from diel.export import take_out
from diel.observe.results import RunReader
from tests.handmade import Handmade
from tests.searched import MATERIALS, Searched, search

pytestmark = pytest.mark.filterwarnings("ignore")

KINDS = """
hyperparameters:
  n: {type: int, low: 1, high: 9, step: 2}
  rate: {type: float, low: 0.001, high: 1, log: true}
  way: {type: choice, choices: [a, [1, 2], null]}
  on: {type: bool, when: hp.n > 3}
axes:
  trial: {search: {trials: 9, seed: 1, maximize: f.score, parameters: [n, rate, way, on], pruner: none}}
stages:
  f: {over: [trial], command: [x, "${{ hp }}"], outputs: {score: {value: float}}}
"""


def studies(run: Handmade) -> dict[str, optuna.Study]:
    folder = run.folder / "out"
    take_out(RunReader(run.paths), "optuna", folder)
    storage = f"sqlite:///{folder}/optuna.db"
    return {
        name: optuna.load_study(study_name=name, storage=storage)
        for name in optuna.get_all_study_names(storage)
    }


def test_the_best_trial_is_the_same_and_every_other_is_as_it_ended(tmp_path: Path) -> None:
    (study,) = studies(search(tmp_path)).values()
    assert (study.study_name, study.metric_names) == ("w-1.trial", ["f.loss"])
    assert (study.best_trial.number, study.best_value, study.best_params) == (1, 0.25, {"x": 0.5})
    assert [trial.state for trial in study.trials] == [
        *[TrialState.COMPLETE] * 3,
        TrialState.PRUNED,
        TrialState.RUNNING,
    ]
    pruned = study.trials[3]
    assert (pruned.value, pruned.intermediate_values) == (200.0, {0: 200.0})
    assert pruned.user_attrs == {"message": "f.loss was 200 at step 0"}
    assert pruned.distributions == {"x": FloatDistribution(-5, 5)}
    assert pruned.datetime_start is not None
    assert pruned.datetime_complete is not None
    assert pruned.datetime_start < pruned.datetime_complete


def test_several_objectives_at_several_points_are_a_study_each_with_its_front(tmp_path: Path) -> None:
    run = Searched(tmp_path, MATERIALS)
    for place, material in enumerate(("Si", "Ge")):
        run.about("begin", place, seed=1, at={"material": material})
        for number, values in enumerate([(1.0, 9.0), (9.0, 1.0), (9.0, 9.0)]):
            run.trial(number, 0.5, place).score(number, *values, context=(place,))
        run.trial(3, 1.0, place).about("judged", place, number=3, state="failed", message="it broke")
    found = studies(run)
    assert [*found] == ["w-1.trial(material=Si)", "w-1.trial(material=Ge)"]
    study = found["w-1.trial(material=Ge)"]
    assert [trial.number for trial in study.best_trials] == [0, 1]
    assert [direction.name for direction in study.directions] == ["MINIMIZE", "MINIMIZE"]
    assert study.trials[3].state is TrialState.FAIL
    assert study.user_attrs["material"] == "Ge"


def test_what_each_was_drawn_from_is_there_and_what_does_not_lie_in_it_is_apart(tmp_path: Path) -> None:
    run = Searched(tmp_path, KINDS).about("begin", seed=1)
    run.about("trial", number=0, hp={"n": 5, "rate": 0.5, "way": [1, 2], "on": True}).score(0, 1.0)
    run.about("trial", number=1, hp={"n": 4, "rate": 0.1, "way": None}).score(1, 3.0)
    (study,) = studies(run).values()
    assert study.best_trial.number == 1
    assert study.trials[0].params == {"n": 5, "rate": 0.5, "way": "[1, 2]", "on": True}
    assert study.trials[0].distributions == {
        "n": IntDistribution(1, 9, step=2),
        "rate": FloatDistribution(0.001, 1, log=True),
        "way": CategoricalDistribution(("a", "[1, 2]", None)),
        "on": CategoricalDistribution((False, True)),
    }
    assert study.trials[1].params == {"rate": 0.1, "way": None}
    assert study.trials[1].user_attrs == {"hp.n": 4}


def test_choices_that_optuna_takes_for_equal_and_large_whole_numbers_are_told_apart(tmp_path: Path) -> None:
    choices = "{type: choice, choices: [0, false, true, 1, 'true', [1]]}"
    text = KINDS.replace(
        "{type: int, low: 1, high: 9, step: 2}", "{type: int, low: 0, high: 9007199254740993}"
    )
    run = Searched(tmp_path, text.replace("{type: choice, choices: [a, [1, 2], null]}", choices))
    run.about("begin", seed=1)
    values = [0, False, True, 1, "true", [1], 7]
    for number, value in enumerate(values):
        run.about("trial", number=number, hp={"n": 2**53 + number % 2, "way": value}).score(number, 1.0)
    (study,) = studies(run).values()
    labels = ["0", "false", "true", "1", '"true"', "[1]"]
    assert [trial.params.get("way") for trial in study.trials] == [*labels, None]
    assert [repr(trial.user_attrs["hp.way"]) for trial in study.trials] == [*map(repr, values)]
    assert study.trials[0].distributions["way"] == CategoricalDistribution(labels)
    assert [trial.params.get("n") for trial in study.trials[:2]] == [2**53, None]
    assert study.trials[1].user_attrs["hp.n"] == 2**53 + 1


def test_a_run_without_trials_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    run = Handmade(tmp_path, "stages: {a: {command: [x]}}").stage("a", 1)
    with pytest.raises(UsageError, match="w-1 has no trials for Optuna: no axis of its workflow is a search"):
        studies(run)
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}
