"""A search as one of Optuna's studies, made of what the journal says: no sampler is asked again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.importance import (
    BaseImportanceEvaluator,
    FanovaImportanceEvaluator,
    PedAnovaImportanceEvaluator,
    get_param_importances,
)
from optuna.trial import FrozenTrial, create_trial

from diel.journal.axis_history import Trial
from diel.search.optuna import STATES, distribution
from diel.spec import Hyperparameter
from diel.states import TrialState

ENOUGH = 8
"""Complete trials below which a share of the scatter is chance."""


class Importance(NamedTuple):
    """What one of Optuna's evaluators says about one objective."""

    method: str
    """`fANOVA`: the share of the whole scatter; `PED-ANOVA`: what sets the best tenth apart."""
    objective: str
    shares: Mapping[str, float]
    """By hyperparameter, the largest first; they add up to 1."""
    trials: int
    """How many complete ones it rests on."""


def study_of(
    name: str,
    objectives: Sequence[tuple[str, bool]],
    known: Mapping[str, Hyperparameter],
    trials: Iterable[Trial],
    storage: str | None = None,
) -> optuna.Study:
    """The study of a search: every trial with its state, its values and what it reported on the way.

    `objectives` are STAGE.VALUE and whether it is minimized, `known` the hyperparameters of the workflow. It
    lives in memory unless `storage` is given. A trial that does not fit them is left out.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    drawn = {one: _drawn_from(given) for one, given in known.items() if given.searchable}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of metrics are new in Optuna; a mapping becomes a text
        study = optuna.create_study(
            study_name=name,
            directions=["minimize" if small else "maximize" for _, small in objectives],
            storage=storage,
        )
        study.set_metric_names([reference for reference, _ in objectives])
        study.add_trials([made for one in trials if (made := _made(one, drawn, len(objectives)))])
    return study


def _drawn_from(given: Hyperparameter) -> BaseDistribution:
    """What a hyperparameter was drawn from, by values: the sampler may have drawn places in a list."""
    if given.type in ("choice", "bool"):
        return CategoricalDistribution([_plain(value) for value in given.listed or ()])
    return distribution(given)


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _made(trial: Trial, drawn: Mapping[str, BaseDistribution], objectives: int) -> FrozenTrial | None:
    params = {name: _plain(value) for name, value in trial.hp.items()}
    scored = trial.state is TrialState.COMPLETE
    try:
        made = create_trial(
            state=STATES[trial.state],
            values=trial.values if scored else None,
            params=params,
            distributions={name: drawn[name] for name in params},
            user_attrs={"message": trial.message} if trial.message else None,
            intermediate_values=trial.reported,
        )
    except (ValueError, KeyError):  # its bounds are no longer those of the workflow
        return None
    if scored and len(trial.values) != objectives:
        return None
    made.datetime_start = _moment(trial.began)
    if trial.state is not TrialState.RUNNING:  # one that is tried again has ended before
        made.datetime_complete = _moment(trial.ended or trial.began)
    return made


def _moment(seconds: float) -> datetime:
    """In Optuna's way: the local time, without a zone."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().replace(tzinfo=None)


def importances(study: optuna.Study, objectives: Sequence[tuple[str, bool]]) -> list[Importance]:
    """For each objective what matters, by each evaluator that can be had; none where too few are complete."""
    complete = study.get_trials(deepcopy=False, states=(STATES[TrialState.COMPLETE],))
    if len(complete) < ENOUGH:
        return []
    found = []
    for method, make, most in _EVALUATORS:
        judged = optuna.create_study(directions=study.directions)
        judged.add_trials(complete[-most:])
        for place, (reference, small) in enumerate(objectives):
            shares = _shares(judged, make, place, 1 if small else -1)
            if shares:
                found.append(Importance(method, reference, shares, min(len(complete), most)))
    return found


def _shares(
    study: optuna.Study, make: Callable[[int], BaseImportanceEvaluator], place: int, sign: int
) -> dict[str, float]:
    """Nothing where the evaluator cannot tell: all values are alike, or scikit-learn is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that low is good is what the sign is for
        try:
            evaluator = make(len(study.trials))
            shares = get_param_importances(
                study, evaluator=evaluator, target=lambda trial: sign * trial.values[place]
            )
        except (ValueError, RuntimeError, ImportError):
            return {}
    return {name: round(float(share), 4) for name, share in shares.items()}


def _ped_anova(trials: int) -> BaseImportanceEvaluator:
    """Of few trials more than a tenth are the best: five of them, as Optuna's manual advises."""
    return PedAnovaImportanceEvaluator(target_quantile=min(0.5, max(0.1, 5 / trials)))


def _fanova(trials: int) -> BaseImportanceEvaluator:
    return FanovaImportanceEvaluator(n_trees=32, seed=0)


_EVALUATORS: tuple[tuple[str, Callable[[int], BaseImportanceEvaluator], int], ...] = (
    ("PED-ANOVA", _ped_anova, 2000),
    ("fANOVA", _fanova, 100),
)
"""Each with the most trials that it is given, the last ones: fANOVA takes 50 s for a thousand."""
