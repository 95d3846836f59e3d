"""For Optuna: each search as a study in one SQLite file, its trials as they ran."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial

from diel.axes.adaptive import Searched
from diel.errors import UsageError, counted
from diel.journal.axis_history import Course
from diel.results import Recorded
from diel.results.trials import TrialRun, searches, trials_of
from diel.search.optuna import STATES, distribution
from diel.spec import Hyperparameter
from diel.states import TrialState
from diel.takeout.sqlite import hasten


def write(run: Recorded, into: Path, target: Path) -> list[str]:
    """Writes `optuna.db`. Raises UsageError for a run without a search."""
    found = searches(run)
    if not any(axis.history.courses for axis in found.values()):
        why = "none of its searches has begun" if found else "no axis of its workflow is a search"
        raise UsageError(f"{run.paths.run_id} has no trials for Optuna: {why}")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.RDBStorage(f"sqlite:///{into / 'optuna.db'}")
    hasten(storage.engine)
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which parts Optuna calls experimental is in its manual
        for axis in found.values():
            studies = {id(one): _study(run, axis, one, storage) for one in axis.history.courses.values()}
            trials = list(trials_of(run, axis))
            for tried in trials:
                study = studies[id(tried.course)]
                study.add_trial(_trial(run, axis, tried))
            names = ", ".join(study.study_name for study in studies.values())
            said.append(f"{axis.label}: {counted(len(trials), 'trial')} in the study {names}")
            open_ = sum(tried.trial.state is TrialState.RUNNING for tried in trials)
            if open_:
                said.append(
                    f"{axis.label}: {counted(open_, 'trial')} had no end yet, and is RUNNING for Optuna"
                )
    storage.remove_session()
    storage.engine.dispose()
    return said


def _study(
    run: Recorded, axis: Searched, course: Course, storage: optuna.storages.RDBStorage
) -> optuna.Study:
    """An empty study for one course, named for the run, the search and the point where it ran."""
    at = ",".join(f"{name}={value}" for name, value in course.at.items())
    study = optuna.create_study(
        storage=storage,
        study_name=f"{run.paths.run_id}.{axis.label}" + (f"({at})" if at else ""),
        directions=["minimize" if small else "maximize" for _, small in axis.axis.objectives],
    )
    study.set_metric_names([reference for reference, _ in axis.axis.objectives])
    about = {"run": run.paths.run_id, "workflow": run.run_file.workflow, "sampler": axis.axis.sampler}
    for name, value in {**about, "pruner": axis.axis.pruner, **course.at}.items():
        study.set_user_attr(name, value)
    return study


def _trial(run: Recorded, axis: Searched, tried: TrialRun) -> FrozenTrial:
    trial = tried.trial
    known = {name: run.workflow.hyperparameters[name] for name in trial.hp}
    params, distributions, apart = _drawn(trial.hp, known)
    values = trial.values or None
    if trial.state is TrialState.PRUNED and tried.steps and len(axis.axis.objectives) == 1:
        values = [tried.steps[max(tried.steps)]]  # as Optuna itself keeps a pruned trial
    return FrozenTrial(
        number=trial.number,
        state=STATES[trial.state],
        value=None,
        values=values,
        datetime_start=_time(trial.began),
        datetime_complete=None if trial.ended is None else _time(trial.ended),
        params=params,
        distributions=distributions,
        user_attrs={**apart, **({"message": trial.message} if trial.message else {})},
        system_attrs={},
        intermediate_values=tried.steps,
        trial_id=0,
    )


def _drawn(
    hp: Mapping[str, Any], known: Mapping[str, Hyperparameter]
) -> tuple[dict[str, Any], dict[str, BaseDistribution], dict[str, Any]]:
    """The parameters of a trial and their distributions; apart, those that do not lie in theirs."""
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    apart: dict[str, Any] = {}
    for name, value in hp.items():
        given = known[name]
        listed = given.listed if given.type in ("choice", "bool") else None
        space = distribution(given) if listed is None else CategoricalDistribution([*map(_plain, listed)])
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
    """A choice as Optuna's storages keep it: lists and mappings as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def _time(time: float) -> datetime:
    return datetime.fromtimestamp(time)  # noqa: DTZ006 - Optuna's times are local and without a zone
