"""How good the trials of TPE are: no worse than Optuna's own loop, better than random ones.

`python tests/benchmarks search` prints the same for whole runs of commands.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import optuna
import pytest

from diel.base.states import TrialState
from diel.controller.search.optuna import OptunaSearcher
from diel.workflow.models import Hyperparameter
from tests.search.playing import search, space

TRIALS = 60
SEEDS = range(10)
# Dixon and Szego, 1978, as given at https://www.sfu.ca/~ssurjano/optimization.html
A = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
P = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)
Function = Callable[..., float]


def branin(x: float, y: float) -> float:
    bowl = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def hartmann(*x: float) -> float:
    inner = [
        sum(a * (b - c) ** 2 for a, b, c in zip(first, x, second, strict=True))
        for first, second in zip(A, P, strict=True)
    ]
    return -sum(alpha * math.exp(-one) for alpha, one in zip((1, 1.2, 3, 3.2), inner, strict=True))


BRANIN = {"x": (-5.0, 10.0), "y": (0.0, 15.0)}
HARTMANN = {f"x{place}": (0.0, 1.0) for place in range(6)}


def test_the_functions_have_the_least_values_that_are_known() -> None:
    assert branin(math.pi, 2.275) == pytest.approx(0.397887, abs=1e-6)
    assert hartmann(0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573) == pytest.approx(
        -3.32237, abs=1e-5
    )


def best(sampler: str, function: Function, bounds: dict[str, tuple[float, float]], seed: int) -> float:
    """The least value that a search finds."""
    over = space({name: {"type": "float", "low": low, "high": high} for name, (low, high) in bounds.items()})
    searcher = OptunaSearcher(search(sampler), over, seed)
    values = []
    for number in range(TRIALS):
        hp = searcher.ask()
        assert hp is not None
        values.append(function(**hp) if function is branin else function(*hp.values()))
        searcher.tell(number, TrialState.COMPLETE, [values[-1]])
    return min(values)


def best_of_optuna(function: Function, bounds: dict[str, tuple[float, float]], seed: int) -> float:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(
        lambda trial: function(*(trial.suggest_float(name, *bounds[name]) for name in bounds)),
        n_trials=TRIALS,
    )
    return study.best_value


@pytest.mark.parametrize(("function", "bounds"), [(branin, BRANIN), (hartmann, HARTMANN)])
def test_the_best_of_sixty_trials_by_tpe(function: Function, bounds: dict[str, tuple[float, float]]) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ours = [best("tpe", function, bounds, seed) for seed in SEEDS]
    assert median(ours) < median(best("random", function, bounds, seed) for seed in SEEDS)
    own = [best_of_optuna(function, bounds, seed) for seed in SEEDS[:3]]
    assert ours[:3] == own, "trial by trial the same"


# --- pairs with Optuna's own loop -----------------------------------------------------------------------


def mixed(rate: float, width: int, kind: int) -> float:
    """A training's score, more or less: a logarithm, a whole number, a choice."""
    return (math.log10(rate) + 2.5) ** 2 + (width - 37) ** 2 / 400 + (0.5, 0.0, 1.5)[kind]


MIXED: dict[str, dict[str, Any]] = {
    "rate": {"type": "float", "low": 1e-5, "high": 0.1, "log": True},
    "width": {"type": "int", "low": 8, "high": 128},
    "kind": {"type": "choice", "choices": [0, 1, 2]},
}
ALL: dict[str, tuple[Function, dict[str, dict[str, Any]]]] = {
    "branin": (
        branin,
        {name: {"type": "float", "low": low, "high": high} for name, (low, high) in BRANIN.items()},
    ),
    "hartmann": (
        lambda **x: hartmann(*x.values()),
        {name: {"type": "float", "low": low, "high": high} for name, (low, high) in HARTMANN.items()},
    ),
    "mixed": (mixed, MIXED),
}
OWN: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
    "nsga2": lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=10),
    "qmc": lambda seed: optuna.samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False),
    "gp": lambda seed: optuna.samplers.GPSampler(seed=seed),
}


def pair(sampler: str, function: str, seed: int, trials: int) -> tuple[float, float]:
    """The best values that diel and Optuna's own loop find."""
    score, given = ALL[function]
    searcher = OptunaSearcher(
        search(sampler, **{"population": 10} if sampler == "nsga2" else {}), space(given), seed
    )
    values = []
    for number in range(trials):
        values.append(score(**(searcher.ask() or {})))
        searcher.tell(number, TrialState.COMPLETE, [values[-1]])
    drawn = space(given).parameters
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which samplers Optuna calls experimental
        study = optuna.create_study(sampler=OWN[sampler](seed))
        study.optimize(
            lambda trial: score(**{name: suggested(trial, name, one) for name, one in drawn.items()}), trials
        )
    return min(values), study.best_value


def suggested(trial: optuna.Trial, name: str, given: Hyperparameter) -> Any:
    if given.type == "choice":
        return trial.suggest_categorical(name, given.listed or ())
    low, high = given.low or 0.0, given.high or 0.0
    if given.type == "int":
        return trial.suggest_int(name, int(low), int(high), log=given.log)
    return trial.suggest_float(name, low, high, log=given.log)


@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("sampler", ["random", "tpe", "cmaes", "nsga2", "qmc"])
def test_the_best_value_is_that_of_optunas_own_loop(sampler: str, function: str) -> None:
    ours, own = pair(sampler, function, 0, 15)
    assert ours == own


@pytest.mark.campaign
@pytest.mark.parametrize("function", ALL)
@pytest.mark.parametrize("sampler", OWN)
def test_the_best_values_of_five_seeds_are_those_of_optunas_own_loop(sampler: str, function: str) -> None:
    pairs = [pair(sampler, function, seed, 16 if sampler == "gp" else 40) for seed in range(5)]
    assert [ours for ours, _ in pairs] == [own for _, own in pairs]
