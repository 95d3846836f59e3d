"""A search as a study: Optuna finds in it what diel found."""

from __future__ import annotations

from diel.journal.axis_history import Trial, ranked
from diel.search.optuna import importances, study_of
from diel.spec import Hyperparameter
from diel.states import TrialState

KNOWN = {
    "rate": Hyperparameter(type="float", low=1e-4, high=1.0, log=True),
    "units": Hyperparameter(type="int", low=1, high=64),
    "sizes": Hyperparameter(type="choice", choices=([1, 2], [3])),
}
LOSS = [("train.loss", True)]


def trial(number: int, state: TrialState = TrialState.COMPLETE) -> Trial:
    """One whose loss hangs on `units` alone."""
    units = (number * 37) % 64 + 1
    hp = {"rate": 10 ** -(number % 4), "units": units, "sizes": [3] if number % 2 else [1, 2]}
    values = [abs(units - 20.0)] if state is TrialState.COMPLETE else []
    return Trial(number, hp, 100.0 + number, state, values, ended=200.0, reported={0: 5.0, 3: 1.5})


def test_a_study_has_every_trial_as_the_journal_tells_it() -> None:
    trials = [trial(number) for number in range(12)]
    trials += [trial(12, TrialState.PRUNED), trial(13, TrialState.FAILED), trial(14, TrialState.RUNNING)]
    study = study_of("trial", LOSS, KNOWN, trials)
    assert study.best_trial.number == ranked(trials, small=True)[0].number
    assert [one.state.name for one in study.trials[11:]] == ["COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert study.trials[12].intermediate_values == {0: 5.0, 3: 1.5}
    assert study.trials[1].params == {"rate": 0.1, "units": 38, "sizes": "[3]"}
    duration = study.trials[1].duration
    assert duration is not None
    assert duration.total_seconds() == 99.0


def test_a_trial_beyond_the_bounds_of_the_file_is_left_out() -> None:
    strange = trial(1)
    strange.hp["units"] = 1000
    assert [one.params["units"] for one in study_of("trial", LOSS, KNOWN, [trial(0), strange]).trials] == [1]


def test_both_evaluators_find_the_hyperparameter_that_matters() -> None:
    study = study_of("trial", LOSS, KNOWN, [trial(number) for number in range(30)])
    found = importances(study, LOSS)
    assert {one.method for one in found} == {"PED-ANOVA", "fANOVA"}
    for one in found:
        assert next(iter(one.shares)) == "units"
        assert one.shares["units"] > 0.5
        assert one.trials == 30


def test_of_few_trials_nothing_is_said_to_matter() -> None:
    assert importances(study_of("trial", LOSS, KNOWN, [trial(number) for number in range(7)]), LOSS) == []
