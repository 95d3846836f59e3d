"""Optuna: a searcher by ask and tell; and a search as one of its studies, made of what the journal says."""

import json
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import optuna
from optuna import distributions, pruners, samplers
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from diel.base.errors import UsageError
from diel.base.states import TrialState
from diel.base.values import spelled
from diel.controller.search.searcher import Searcher, Space, grid_points, place_of
from diel.store.journal.axis_history import Course, Trial
from diel.workflow.models import Hyperparameter, Search

STATES = {
    TrialState.RUNNING: optuna.trial.TrialState.RUNNING,
    TrialState.COMPLETE: optuna.trial.TrialState.COMPLETE,
    TrialState.PRUNED: optuna.trial.TrialState.PRUNED,
    TrialState.FAILED: optuna.trial.TrialState.FAIL,
}
_PRUNERS: dict[str, type[pruners.BasePruner]] = {
    "median": pruners.MedianPruner,
    "percentile": pruners.PercentilePruner,
    "hyperband": pruners.HyperbandPruner,
    "asha": pruners.SuccessiveHalvingPruner,
    "none": pruners.NopPruner,
}
_PLACED = ("cmaes", "nsga2", "qmc")
"""Samplers that draw all of a trial at once, and note beside it its place in their sequence."""


class OptunaSearcher(Searcher):
    """Trials from one of Optuna's samplers, in a study that lives in memory."""

    version = optuna.__version__

    def __init__(self, search: Search, space: Space, seed: int) -> None:
        super().__init__(search, space, seed)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._lists = {
            name: spec.listed if search.sampler.name == "grid" or spec.type in ("choice", "bool") else None
            for name, spec in space.parameters.items()
        }
        """The values of hyperparameters that are drawn by their place in a list."""
        self._grid = grid_points(space, seed) if search.sampler.name == "grid" else None
        self._earlier: list[optuna.trial.FrozenTrial] = []
        self._excess: dict[int, list[float]] = {}
        """How far trials are beyond the bounds of constraints, by their number in the study."""
        self._study = self._new_study(seed)
        self._first = deque(search.enqueue or ())
        self._running: dict[int, optuna.Trial] = {}
        self._given_up: set[int] = set()

    def _new_study(self, seed: int) -> optuna.Study:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which samplers Optuna calls experimental is in its manual
            study = optuna.create_study(
                study_name=f"diel-{self.seed}",  # Hyperband draws a trial's bracket from it
                sampler=_sampler(self.search, seed, self._earlier, self._constraints),
                pruner=_PRUNERS[self.search.pruner.name](**self.search.pruner.arguments),
                directions=["minimize" if small else "maximize" for _, small in self.search.objectives],
            )
        study.add_trials(self._earlier)
        return study

    def _constraints(self, trial: optuna.trial.FrozenTrial) -> list[float]:
        return self._excess.get(trial.number, [0.0] * len(self.search.bounds))

    def learn(self, earlier: Sequence[Mapping[str, Any]]) -> None:
        fitting = [
            (trial, frozen_trial) for trial in earlier if (frozen_trial := self._frozen(trial)) is not None
        ]
        self._earlier = [frozen_trial for _, frozen_trial in fitting]
        bounded = len(self.search.bounds)
        self._excess = {
            number: trial["excess"]
            for number, (trial, _) in enumerate(fitting)
            if len(trial["excess"]) == bounded
        }
        self._study = self._new_study(self.seed)

    def _frozen(self, earlier: Mapping[str, Any]) -> optuna.trial.FrozenTrial | None:
        """Return a trial of an earlier run; None if it does not lie in the space of this search."""
        drawn: dict[str, Any] = {}
        for name in self.space.parameters:
            if self.space.is_drawn(name, drawn):
                drawn[name] = earlier["hp"].get(name)
        if drawn.keys() != earlier["hp"].keys():
            return None
        try:
            spaces = {name: self._distribution(name) for name in drawn}
            lists = {name: self._lists[name] for name in drawn}
            params = {
                name: drawn[name] if of is None else place_of(drawn[name], of) for name, of in lists.items()
            }
            system = {"constraints": tuple(earlier["excess"])} if self.search.bounds else {}
            return optuna.trial.create_trial(
                params=params, distributions=spaces, values=earlier["values"], system_attrs=system
            )
        except (ValueError, TypeError, StopIteration):
            return None

    def constrain(self, number: int, excess: list[float]) -> None:
        self._excess[number + len(self._earlier)] = excess

    def ask(self) -> dict[str, Any] | None:
        if self._first:
            enqueued = self._first.popleft()
            return self._repeat(
                {name: self.space.parameters[name].accept(enqueued[name]) for name in enqueued}
            )
        if self._grid is None:
            return self._draw({})
        point = next(self._grid, None)
        return None if point is None else self._repeat(point)

    def _repeat(self, hp: dict[str, Any]) -> dict[str, Any]:
        lists = {name: self._lists[name] for name in hp}
        point = {name: hp[name] if of is None else place_of(hp[name], of) for name, of in lists.items()}
        self._study.enqueue_trial(point)
        return self._draw(hp)

    def _draw(self, known: Mapping[str, Any]) -> dict[str, Any]:
        trial = self._study.ask()
        self._running[trial.number - len(self._earlier)] = trial
        drawn: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.search.sampler.name in _PLACED:
                _ = trial.relative_params  # its place is noted, even where nothing of it is used
            for name in self.space.parameters:
                if self.space.is_drawn(name, drawn):
                    value, listed = trial._suggest(name, self._distribution(name)), self._lists[name]
                    spec, exact = (
                        self.space.parameters[name],
                        known.get(name, value),
                    )  # beyond 2^53 Optuna rounds
                    drawn[name] = spec.nearest(exact) if listed is None else listed[value]
        return drawn

    def _distribution(self, name: str) -> distributions.BaseDistribution:
        """Return what a hyperparameter is drawn from; its place in a list, where it has one."""
        listed = self._lists[name]
        if listed is None:
            return distribution(self.space.parameters[name])
        if self._grid is not None:  # whose places are told to the study, not drawn
            return distributions.IntDistribution(0, len(listed) - 1)
        return distributions.CategoricalDistribution(range(len(listed)))

    def report(self, number: int, step: int, value: float) -> bool:
        trial = self._running[number]
        trial.report(value, step)
        given_up = trial.should_prune()
        if given_up:
            self._given_up.add(number)
        return given_up

    def is_given_up(self, number: int) -> bool:
        return number in self._given_up

    def tell(self, number: int, state: TrialState, values: list[float]) -> None:
        self._running.pop(number, None)
        self._given_up.discard(number)
        self._study.tell(number + len(self._earlier), values or None, STATES[state])

    def rebuild(self, course: Course) -> None:
        """Replay a course with its own trials where Optuna would have proposed others."""
        tried = [trial.hp for trial in course.trials]
        self._first = deque((self.search.enqueue or ())[len(tried) :])
        if self._grid is not None:
            self._grid = (point for point in grid_points(self.space, self.seed) if point not in tried)
        # Known values are not drawn, so that the same seed would draw them again for the trials to come;
        # what keeps its place in a sequence needs the same sequence.
        placed = self.search.sampler.name in ("cmaes", "qmc")
        self._study = self._new_study(self.seed if placed else (self.seed + len(tried)) % 2**32)
        self._running.clear()
        self._given_up.clear()
        for number, *rest in course.told:
            if rest:
                self.hear(course.trials[number], rest[0])
            else:
                self._repeat(tried[number])


def distribution(spec: Hyperparameter) -> distributions.BaseDistribution:
    """Return what a number is drawn from."""
    assert spec.low is not None
    assert spec.high is not None
    low, high = spec.low, spec.high if spec.step is None else spec.nearest(spec.high)
    if spec.type == "int":
        return distributions.IntDistribution(int(low), int(high), log=spec.log, step=int(spec.step or 1))
    return distributions.FloatDistribution(low, high, log=spec.log, step=spec.step)


def _sampler(
    search: Search,
    seed: int,
    earlier: Sequence[optuna.trial.FrozenTrial],
    constraints: Callable[[optuna.trial.FrozenTrial], Sequence[float]],
) -> samplers.BaseSampler:
    startup, options = _some(n_startup_trials=search.startup), search.sampler.arguments
    bounded = _some(constraints_func=constraints if search.bounds else None)
    match search.sampler.name:
        case "random" | "grid":  # a grid's points are told to the study
            return samplers.RandomSampler(seed=seed)
        case "tpe":
            return samplers.TPESampler(seed=seed, **startup, **bounded, **options)
        case "cmaes":
            options = {**_some(source_trials=[*earlier] or None), **options}
            return samplers.CmaEsSampler(
                seed=seed, popsize=search.population, warn_independent_sampling=False, **startup, **options
            )
        case "nsga2":
            return samplers.NSGAIISampler(
                seed=seed, **_some(population_size=search.population), **bounded, **options
            )
        case "gp":
            return samplers.GPSampler(seed=seed, **startup, **bounded, **options)
        case "qmc":
            options = {"scramble": True, **options}
            return samplers.QMCSampler(seed=seed, warn_independent_sampling=False, **options)
    raise UsageError(f"Optuna has no sampler '{search.sampler.name}'")


def _some(**options: Any) -> dict[str, Any]:
    """Return the given arguments only, so that Optuna's defaults hold for the others."""
    return {name: value for name, value in options.items() if value is not None}


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
    """Return a trial as Optuna keeps it, with attributes `hp.NAME` for what is outside its distribution."""
    values = trial.values or None
    if trial.state is TrialState.PRUNED and reported and not values:
        values = [reported[max(reported)]]
    params, spaces, apart = _drawn(trial.hp, parameters)
    ended = trial.state is not TrialState.RUNNING  # one that is tried again has ended before
    return FrozenTrial(
        number=trial.number,
        state=STATES[trial.state],
        value=None,
        values=values,
        datetime_start=_moment(trial.began),
        datetime_complete=_moment(trial.ended or trial.began) if ended else None,
        params=params,
        distributions=spaces,
        user_attrs={**apart, **({"message": trial.message} if trial.message else {})},
        system_attrs={"constraints": tuple(trial.excess)} if trial.excess else {},
        intermediate_values=dict(reported),
        trial_id=0,
    )


def _drawn(
    hp: Mapping[str, Any], parameters: Mapping[str, Hyperparameter]
) -> tuple[dict[str, Any], dict[str, distributions.BaseDistribution], dict[str, Any]]:
    """Return the parameters of a trial and their distributions; apart, those that do not lie in theirs."""
    params: dict[str, Any] = {}
    spaces: dict[str, distributions.BaseDistribution] = {}
    apart: dict[str, Any] = {}
    for name, value in hp.items():
        spec = parameters[name]
        listed = spec.listed if spec.type in ("choice", "bool") else None
        space: distributions.BaseDistribution
        if listed is None:
            space, plain = distribution(spec), value
        else:
            plain = _plain(value)
            labels = [*map(_plain, listed)]
            if len({*labels}) < len(labels):  # 1 and true are one choice for Optuna
                labels = [*spelled(listed)]
                plain = dict(zip(map(json.dumps, listed), labels, strict=True)).get(json.dumps(value))
                apart[f"hp.{name}"] = value
            space = distributions.CategoricalDistribution(labels)
        try:
            inside = space._contains(space.to_internal_repr(plain))
        except ValueError:
            inside = False
        if inside and space.to_external_repr(space.to_internal_repr(plain)) == plain:
            params[name], spaces[name] = plain, space
        else:
            apart[f"hp.{name}"] = value
    return params, spaces, apart


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
    for method, most in _MOST_TRIALS.items():
        judged = optuna.create_study(directions=study.directions)
        judged.add_trials(complete[-most:])
        for place, (reference, small) in enumerate(objectives):
            shares = _shares(judged, method, place, 1 if small else -1)
            if shares:
                ranked.append(Importance(method, reference, shares, min(len(complete), most)))
    return ranked


_MOST_TRIALS = {"PED-ANOVA": 2000, "fANOVA": 100}
"""The most trials that an evaluator is given, the last ones: fANOVA takes 50 s for a thousand."""


def _shares(study: optuna.Study, method: str, place: int, sign: int) -> dict[str, float]:
    """Nothing where the evaluator cannot tell: all values are alike, or scikit-learn is not installed."""
    from optuna import importance  # here: it loads scikit-learn, which no search needs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that low is good is what the sign is for
        try:
            evaluator: importance.BaseImportanceEvaluator
            if method == "fANOVA":
                evaluator = importance.FanovaImportanceEvaluator(n_trees=32, seed=0)
            else:  # of few trials more than a tenth are the best: five of them, as Optuna's manual advises
                best = min(0.5, max(0.1, 5 / len(study.trials)))
                evaluator = importance.PedAnovaImportanceEvaluator(target_quantile=best)
            shares = importance.get_param_importances(
                study, evaluator=evaluator, target=lambda trial: sign * trial.values[place]
            )
        except (ValueError, RuntimeError, ImportError):
            return {}
    return {name: round(float(share), 4) for name, share in shares.items()}
