"""Optuna as a searcher, by its ask and tell: the only file that imports it."""

from __future__ import annotations

import math
import warnings
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import (
    BaseSampler,
    CmaEsSampler,
    GPSampler,
    GridSampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)

from diel.journal.axis_history import Course, TrialState
from diel.searchers.space import Space
from diel.spec import Hyperparameter, Search

_STATES = {
    TrialState.RUNNING: optuna.trial.TrialState.RUNNING,
    TrialState.COMPLETE: optuna.trial.TrialState.COMPLETE,
    TrialState.PRUNED: optuna.trial.TrialState.PRUNED,
    TrialState.FAILED: optuna.trial.TrialState.FAIL,
}
END = -1
"""In a course's `told`: the end of a trial."""


class OptunaSearcher:
    """Trials from one of Optuna's samplers, in a study that lives in memory.

    The journal is what survives: a searcher comes back to its random state by being asked and told the same.
    """

    def __init__(self, search: Search, space: Space, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._search = search
        self._space = space
        self._seed = seed
        self._grid = search.sampler == "grid"
        self._study = self._new_study()
        self._running: dict[int, optuna.Trial] = {}

    def _new_study(self) -> optuna.Study:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which samplers Optuna calls experimental is in its manual
            return optuna.create_study(
                sampler=_sampler(self._search, self._space, self._seed),
                pruner=_pruner(self._search),
                directions=["minimize" if small else "maximize" for _, small in self._search.objectives],
            )

    def ask(self) -> dict[str, Any] | None:
        sampler = self._study.sampler
        if isinstance(sampler, GridSampler) and sampler.is_exhausted(self._study):
            return None
        trial = self._study.ask()
        self._running[trial.number] = trial
        drawn: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, given in self._space.parameters.items():
                if self._space.is_drawn(name, drawn):
                    drawn[name] = self._draw(trial, name, given)
        return drawn

    def _draw(self, trial: optuna.Trial, name: str, given: Hyperparameter) -> Any:
        listed = given.listed if self._grid or given.type in ("choice", "bool") else None
        if listed is not None:
            return listed[trial._suggest(name, _distribution(given, self._grid))]
        return trial._suggest(name, _distribution(given, self._grid))

    def report(self, number: int, step: int, value: float) -> bool:
        trial = self._running[number]
        trial.report(value, step)
        return bool(trial.should_prune())

    def tell(self, number: int, state: TrialState, values: list[float]) -> None:
        self._running.pop(number, None)
        self._study.tell(number, values or None, _STATES[state])

    def replay(self, course: Course) -> None:
        for number, *rest in course.told:
            trial = course.trials[number]
            if not rest:
                if self.ask() != trial.hp:
                    self._rebuild(course)
                    return
            elif rest[0] == END:
                self.tell(number, trial.state, trial.values)
            else:
                self.report(number, rest[0], trial.reported[rest[0]])

    def _rebuild(self, course: Course) -> None:
        """Takes the trials over as they are, where this version of Optuna would have proposed others."""
        self._study = self._new_study()
        self._running.clear()
        for trial in course.trials:
            drawn = {name: self._space.parameters[name] for name in trial.hp}
            made = optuna.trial.create_trial(
                state=_STATES[trial.state],
                values=trial.values or None,
                params={name: self._internal(given, trial.hp[name]) for name, given in drawn.items()},
                distributions={name: _distribution(given, self._grid) for name, given in drawn.items()},
                intermediate_values=trial.reported,
            )
            self._study.add_trial(made)

    def _internal(self, given: Hyperparameter, value: Any) -> Any:
        listed = given.listed if self._grid or given.type in ("choice", "bool") else None
        return value if listed is None else listed.index(value)


def _distribution(given: Hyperparameter, grid: bool) -> BaseDistribution:
    """What a hyperparameter is drawn from; of listed values their numbers are drawn."""
    if grid or given.type in ("choice", "bool"):
        return CategoricalDistribution(range(len(given.listed or ())))
    assert given.low is not None
    assert given.high is not None
    low, high = given.low, given.high
    if given.step is not None:
        high = low + math.floor((high - low) / given.step + 1e-9) * given.step
    if given.type == "int":
        return IntDistribution(int(low), int(high), log=given.log, step=int(given.step or 1))
    return FloatDistribution(low, high, log=given.log, step=given.step)


def _sampler(search: Search, space: Space, seed: int) -> BaseSampler:
    startup = _some(n_startup_trials=search.startup)
    match search.sampler:
        case "random":
            return RandomSampler(seed=seed)
        case "grid":
            listed = {name: list(range(len(given.listed or ()))) for name, given in space.parameters.items()}
            return GridSampler(listed, seed=seed)
        case "tpe":
            return TPESampler(seed=seed, **startup)
        case "cmaes":
            return CmaEsSampler(
                seed=seed, popsize=search.population, warn_independent_sampling=False, **startup
            )
        case "nsga2":
            return NSGAIISampler(seed=seed, **_some(population_size=search.population))
        case "gp":
            return GPSampler(seed=seed, **startup)
        case "qmc":
            return QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)


def _some(**given: Any) -> dict[str, Any]:
    """What is there of some arguments, so that Optuna's own defaults hold for the others."""
    return {name: value for name, value in given.items() if value is not None}


def _pruner(search: Search) -> BasePruner:
    match search.pruner:
        case "median":
            return MedianPruner()
        case "hyperband":
            return HyperbandPruner()
        case "none":
            return NopPruner()
