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
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

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


def begin_study(
    name: str, objectives: Iterable[tuple[str, bool | None]], storage: BaseStorage | None = None
) -> optuna.Study:
    """Make an empty study for STAGE.VALUEs, each with whether it is minimized."""
    goals = list(objectives)
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        directions=["minimize" if small else "maximize" for _, small in goals],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of metrics are new in Optuna
        study.set_metric_names([reference for reference, _ in goals])
    return study


def study_of(
    name: str,
    objectives: Sequence[tuple[str, bool]],
    parameters: Mapping[str, Hyperparameter],
    trials: Iterable[Trial],
) -> optuna.Study:
    """Return the study of a search: every trial with its state, its values and what it reported on the way.
    One that does not fit the hyperparameters or the objectives is left out."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = begin_study(name, objectives)
    pairs = [
        (trial_record, frozen(trial_record, parameters, trial_record.reported))
        for trial_record in trials
        if parameters.keys() >= trial_record.hp.keys()
    ]
    study.add_trials(
        [
            trial
            for trial_record, trial in pairs
            if trial.params.keys() == trial_record.hp.keys()
            and len(trial_record.values) in (0, len(objectives))
        ]
    )
    return study


def frozen(
    trial: Trial, parameters: Mapping[str, Hyperparameter], reported: Mapping[int, float]
) -> FrozenTrial:
    """Return a trial as Optuna keeps it: a pruned one has its last report for its value. Hyperparameters
    outside their distributions are attributes `hp.NAME`."""
    values = trial.values or None
    if trial.state is TrialState.PRUNED and reported and not values:
        values = [reported[max(reported)]]
    params, distributions, apart = _drawn(trial.hp, parameters)
    ended = trial.state is not TrialState.RUNNING  # one that is tried again has ended before
    return FrozenTrial(
        number=trial.number,
        state=STATES[trial.state],
        value=None,
        values=values,
        datetime_start=_moment(trial.began),
        datetime_complete=_moment(trial.ended or trial.began) if ended else None,
        params=params,
        distributions=distributions,
        user_attrs={**apart, **({"message": trial.message} if trial.message else {})},
        system_attrs={"constraints": tuple(trial.excess)} if trial.excess else {},
        intermediate_values=dict(reported),
        trial_id=0,
    )


def _drawn(
    hp: Mapping[str, Any], parameters: Mapping[str, Hyperparameter]
) -> tuple[dict[str, Any], dict[str, BaseDistribution], dict[str, Any]]:
    """Return the parameters of a trial and their distributions; apart, those that do not lie in theirs."""
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    apart: dict[str, Any] = {}
    for name, value in hp.items():
        spec = parameters[name]
        listed = spec.listed if spec.type in ("choice", "bool") else None
        space = distribution(spec) if listed is None else CategoricalDistribution([*map(_plain, listed)])
        plain = value if listed is None else _plain(value)
        try:
            inside = space._contains(space.to_internal_repr(plain))
        except ValueError:
            inside = False
        if inside:
            params[name], distributions[name] = plain, space
        else:
            apart[f"hp.{name}"] = value
    return params, distributions, apart


def _plain(value: Any) -> bool | int | float | str | None:
    """Return a choice as Optuna's storages keep it: lists and mappings as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def _moment(seconds: float) -> datetime:
    """In Optuna's way: the local time, without a zone."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().replace(tzinfo=None)


def importances(study: optuna.Study, objectives: Sequence[tuple[str, bool]]) -> list[Importance]:
    """For each objective what matters, by each evaluator that can be had; none where too few are complete."""
    complete = study.get_trials(deepcopy=False, states=(STATES[TrialState.COMPLETE],))
    if len(complete) < ENOUGH:
        return []
    ranked = []
    for method, make, most in _EVALUATORS:
        judged = optuna.create_study(directions=study.directions)
        judged.add_trials(complete[-most:])
        for place, (reference, small) in enumerate(objectives):
            shares = _shares(judged, make, place, 1 if small else -1)
            if shares:
                ranked.append(Importance(method, reference, shares, min(len(complete), most)))
    return ranked


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


_EVALUATORS: tuple[tuple[str, Callable[[int], BaseImportanceEvaluator], int], ...] = (
    # Of few trials more than a tenth are the best: five of them, as Optuna's manual advises.
    ("PED-ANOVA", lambda n: PedAnovaImportanceEvaluator(target_quantile=min(0.5, max(0.1, 5 / n))), 2000),
    ("fANOVA", lambda _: FanovaImportanceEvaluator(n_trees=32, seed=0), 100),
)
"""Each with the most trials that it is given, the last ones: fANOVA takes 50 s for a thousand."""
