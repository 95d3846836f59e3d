"""Optuna behind ask and tell: what it proposes, and that it comes back to where it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optuna
import pytest

from diel.base.states import TrialState
from diel.controller.search.optuna import OptunaSearcher, importances, study_of
from diel.store.journal.axis_history import Course, Trial, ranked
from diel.workflow.models import Hyperparameter
from tests.search.playing import EVERYTHING, Play, bowl, course_of, search, space

SAMPLERS = ("random", "tpe", "cmaes", "nsga2", "qmc")
"""Those with any space; grid needs listed values, and gp its time."""
LISTED = {name: EVERYTHING[name] for name in ("drop", "depth", "count", "kind", "bias")}
SMALL = {"population": 4}


def of(sampler: str, **more: Any) -> Any:
    return search(sampler, **(SMALL if sampler in ("cmaes", "nsga2") else {}), **more)


def space_for(sampler: str) -> Any:
    return space(LISTED if sampler == "grid" else EVERYTHING)


@pytest.mark.parametrize("sampler", [*SAMPLERS, "grid"])
def test_each_sampler_keeps_to_types_bounds_steps_and_choices(sampler: str) -> None:
    over = space_for(sampler)
    trials = Play(of(sampler), over).run(40, parallel=3).trials
    assert len(trials) == 40
    for trial in trials:
        assert list(trial) == list(over.parameters)
        for name, value in trial.items():
            given = over.parameters[name]
            assert type(given.accept(value)) is type(value), f"{name}: {value!r}"
            if given.step is not None:
                steps = (value - given.low) / given.step
                assert steps == pytest.approx(round(steps))
    assert len({str(trial) for trial in trials}) > 30, "they differ"


def test_gp_proposes_what_fits_and_comes_back_to_where_it_was() -> None:
    """It needs PyTorch, which takes seconds to load."""
    over = space({name: EVERYTHING[name] for name in ("rate", "depth", "bias")})
    play = Play(search("gp", startup=3), over).run(6)
    assert all(
        over.parameters[name].accept(trial[name]) == trial[name] for trial in play.trials for name in trial
    )
    middle = len(play.records) - 3
    play.go_on(play.take_over(middle), middle)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_conditional_hyperparameter_is_drawn_where_its_condition_holds(sampler: str) -> None:
    over = space(
        {
            "rate": {"type": "float", "low": 0, "high": 1},
            "momentum": {"type": "float", "low": 0, "high": 1, "when": "hp.kind == 'sgd'"},
            "kind": {"type": "choice", "choices": ["adam", "sgd"]},
        }
    )
    trials = Play(of(sampler), over).run(30, parallel=2).trials
    assert all(("momentum" in trial) == (trial["kind"] == "sgd") for trial in trials)
    assert {trial["kind"] for trial in trials} == {"adam", "sgd"}


def test_a_grid_ends_after_each_of_its_points() -> None:
    over = space(LISTED)
    searcher = OptunaSearcher(search("grid"), over, 1)
    points = []
    while (point := searcher.ask()) is not None:
        points.append(point)
        searcher.tell(len(points) - 1, TrialState.COMPLETE, [1.0])
    assert len(points) == len({str(point) for point in points}) == 4 * 3 * 7 * 6 * 2
    assert searcher.ask() is None


def test_a_grid_whose_trials_all_run_at_once_has_each_point_once() -> None:
    searcher = OptunaSearcher(search("grid"), space({"bias": {"type": "bool"}}), 1)
    assert sorted(str(searcher.ask()) for _ in range(2)) == ["{'bias': False}", "{'bias': True}"]
    assert searcher.ask() is None


@pytest.mark.parametrize("sampler", ["nsga2", "tpe", "random", "qmc"])
def test_several_objectives_are_told_in_their_order(sampler: str) -> None:
    given = of(sampler, minimize=("f.error",), maximize=("f.speed",))
    over = space({name: {"type": "float", "low": 0, "high": 1} for name in "abcd"})
    searcher = OptunaSearcher(given, over, 1)
    found = []
    for number in range(60):
        hp = searcher.ask()
        assert hp is not None
        found.append(sum(hp.values()))
        searcher.tell(
            number, TrialState.COMPLETE, [found[-1], 10 - found[-1]]
        )  # small ones are good for both
    if sampler in ("nsga2", "tpe"):
        assert sum(found[-20:]) < 0.75 * sum(found[:20])


# --- Optuna's own loop ------------------------------------------------------------------------

OWN: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed),
    "nsga2": lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=10),
    "qmc": lambda seed: optuna.samplers.QMCSampler(seed=seed, scramble=True),
    "tpe multivariate group": lambda seed: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, group=True
    ),
    "cmaes with_margin": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, with_margin=True),
}
"""By a sampler's name and the options that are true."""


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("sampler", OWN)
def test_the_trials_are_those_of_optuna_s_own_loop(sampler: str) -> None:
    names = ("rate", "drop", "share", "width", "depth", "kind")
    choices = EVERYTHING["kind"]["choices"]

    def objective(trial: optuna.Trial) -> float:
        hp = {
            "rate": trial.suggest_float("rate", 1e-5, 0.1, log=True),
            "drop": trial.suggest_float("drop", 0, 0.3, step=0.1),
            "share": trial.suggest_float("share", -2, 3),
            "width": trial.suggest_int("width", 8, 256, log=True),
            "depth": trial.suggest_int("depth", 1, 5, step=2),
            "kind": choices[trial.suggest_categorical("kind", range(len(choices)))],
        }
        proposed.append(hp)
        return bowl(hp)

    proposed: list[dict[str, Any]] = []
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(sampler=OWN[sampler](11)).optimize(objective, n_trials=40)
    more = {"population": 10} if sampler == "nsga2" else {}
    name, *options = sampler.split()
    given = search({"name": name, **dict.fromkeys(options, True)}, **more)
    searcher = OptunaSearcher(given, space(EVERYTHING, names), 11)
    for number, expected in enumerate(proposed):
        found = searcher.ask()
        assert found is not None
        assert found.pop("drop") == pytest.approx(expected["drop"], abs=1e-12), (
            "which is kept within its bounds"
        )
        assert found == {name: value for name, value in expected.items() if name != "drop"}
        searcher.tell(number, TrialState.COMPLETE, [bowl(expected)])


def test_points_to_try_first_come_first_and_what_they_leave_out_is_proposed() -> None:
    points: list[dict[str, Any]] = [{"kind": True, "count": -3, "rate": 1e-3}, {"kind": [1, 2], "share": 1}]
    for sampler in SAMPLERS:
        given = of(sampler, enqueue=points, parameters=tuple(EVERYTHING), pruner="median")
        play = Play(given, space(EVERYTHING)).run(12, parallel=3)
        for point, trial in zip(points, play.trials, strict=False):
            assert {name: trial[name] for name in point} == point
        assert play.trials[2]["kind"] is not True or play.trials[3]["count"] != -3
        for length in (0, 1, 2, 5):
            play.go_on(play.take_over(length), length)


# --- a search that goes on after its controller was gone ------------------------------------------


@pytest.mark.parametrize("pruner", ["none", "median", "hyperband"])
@pytest.mark.parametrize("sampler", [*SAMPLERS, "grid"])
def test_a_searcher_that_takes_over_goes_on_as_the_first_would_have(sampler: str, pruner: str) -> None:
    play = Play(of(sampler, pruner=pruner), space_for(sampler)).run(24, parallel=3)
    if pruner != "none":
        assert TrialState.PRUNED in play.states.values()
    for length in range(0, len(play.records), 7):
        play.go_on(play.take_over(length), length)


@pytest.mark.parametrize(
    "pruner",
    [
        {"name": "percentile", "percentile": 10, "n_startup_trials": 2},
        {"name": "asha", "reduction_factor": 4, "min_resource": 1},
        {"name": "hyperband", "reduction_factor": 4, "min_resource": 2},
    ],
)
def test_a_pruner_does_what_its_options_say(pruner: dict[str, Any]) -> None:
    """The same as Optuna's own class with these arguments, told the same."""
    kinds = {
        "percentile": optuna.pruners.PercentilePruner,
        "asha": optuna.pruners.SuccessiveHalvingPruner,
        "hyperband": optuna.pruners.HyperbandPruner,
    }
    own = kinds[pruner["name"]](**{key: value for key, value in pruner.items() if key != "name"})
    searcher = OptunaSearcher(
        search("random", pruner=pruner), space({"x": {"type": "float", "low": 0, "high": 1}}), 5
    )
    study = optuna.create_study(
        study_name="diel-5", sampler=optuna.samplers.RandomSampler(seed=5), pruner=own
    )
    given_up = []
    for number in range(30):
        hp, trial = searcher.ask(), study.ask()
        assert hp == {"x": trial.suggest_float("x", 0, 1)}
        for step in range(8):
            value = hp["x"] + 1 / (1 + step)
            trial.report(value, step)
            if trial.should_prune():
                assert searcher.report(number, step, value)
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                searcher.tell(number, TrialState.PRUNED, [])
                given_up.append(number)
                break
            assert not searcher.report(number, step, value)
        else:
            study.tell(trial, hp["x"])
            searcher.tell(number, TrialState.COMPLETE, [hp["x"]])
    assert 3 < len(given_up) < 30


def test_a_trial_is_given_up_whoever_was_told_of_the_report() -> None:
    """The controller may die between a report and the end of its trial."""
    play = Play(search("random", pruner="median"), space({"x": {"type": "float", "low": 0, "high": 1}}))
    play.run(24, parallel=2)
    places = [n for n, record in enumerate(play.records) if record.get("given_up")]
    assert places
    for place in places:
        searcher = play.take_over(place + 1)
        assert searcher.is_given_up(play.records[place]["number"])
        searcher.tell(play.records[place]["number"], TrialState.PRUNED, [])
        assert not searcher.is_given_up(play.records[place]["number"])


def changed(play: Play, length: int, number: int, hp: dict[str, Any]) -> Any:
    """A course in which a trial has other values than this version of Optuna would propose."""
    course = play.course(length)
    course.trials[number].hp = hp
    return course


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_course_that_another_optuna_made_is_gone_on_with(sampler: str) -> None:
    given, over = of(sampler, pruner="median"), space(EVERYTHING)
    play = Play(given, over).run(16, parallel=3)
    length = next(
        n for n in range(30, len(play.records)) if len(running(play, n)) == 2 and some_reported(play, n)
    )
    course = changed(play, length, 2, {**play.trials[2], "share": 1.25})
    known = [trial.hp for trial in course.trials]
    first, second = (OptunaSearcher(given, over, play.seed) for _ in range(2))
    for searcher in (first, second):
        searcher.replay(course)
    fresh = [first.ask() for _ in range(4)]
    assert fresh == [second.ask() for _ in range(4)], "the same for all that take over"
    assert all(point not in known for point in fresh), "known points are not drawn again"
    for number in running(play, length):
        first.report(number, 90, 1.0)
        first.tell(number, TrialState.COMPLETE, [1.0])
    for number in range(len(known), len(known) + 4):
        first.tell(number, TrialState.COMPLETE, [1.0])
    assert first.ask() is not None


def running(play: Play, length: int) -> list[int]:
    trials = play.course(length).trials
    return [trial.number for trial in trials if trial.state is TrialState.RUNNING]


def some_reported(play: Play, length: int) -> bool:
    trials = play.course(length).trials
    return any(trial.reported for trial in trials if trial.state is TrialState.RUNNING)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_what_is_gone_on_with_is_learnt_from() -> None:
    """TPE proposes what it would after the same trials in a study of its own."""
    over = space({"x": {"type": "float", "low": 0, "high": 1}})
    given = search("tpe", startup=5)
    play = Play(given, over).run(20)
    course = changed(play, len(play.records), 3, {"x": 0.125})
    searcher = OptunaSearcher(given, over, 7)
    searcher.replay(course)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=7 + 20, n_startup_trials=5))
    states = {"complete": optuna.trial.TrialState.COMPLETE, "failed": optuna.trial.TrialState.FAIL}
    for trial in course.trials:
        study.add_trial(
            optuna.trial.create_trial(
                state=states[trial.state],
                values=trial.values or None,
                params=trial.hp,
                distributions={"x": optuna.distributions.FloatDistribution(0, 1)},
            )
        )
    assert searcher.ask() == {"x": study.ask().suggest_float("x", 0, 1)}


def test_a_grid_that_is_gone_on_with_visits_what_is_left() -> None:
    over = space({"n": {"type": "int", "low": 1, "high": 12}})
    play = Play(search("grid"), over).run(5)
    other = next({"n": n} for n in range(1, 13) if {"n": n} not in play.trials)
    course = changed(play, len(play.records), 2, other)
    searcher = OptunaSearcher(search("grid"), over, 7)
    searcher.replay(course)
    rest = []
    while (point := searcher.ask()) is not None:
        rest.append(point["n"])
    assert sorted(rest + [trial.hp["n"] for trial in course.trials]) == list(range(1, 13))


def test_a_trial_whose_failure_no_longer_counts_runs_again() -> None:
    """A run that is resumed tries again what had failed: the trial's end is taken out of the course."""
    over = space({"x": {"type": "float", "low": 0, "high": 1}})
    play = Play(search("tpe", startup=3), over).run(8)
    records = [dict(record) for record in play.records]
    lost = next(record for record in records if record["event"] == "judged")
    lost.update(state="failed", values=[], lost=[["f", 0]])
    course = course_of(records)
    course.trials[0].state, course.trials[0].lost = TrialState.RUNNING, []
    course.told.remove([0, -1])
    searcher = OptunaSearcher(play.given, over, 7)
    searcher.replay(course)
    searcher.tell(0, TrialState.COMPLETE, [0.5])
    assert searcher.ask() not in play.trials


# --- what earlier runs found ------------------------------------------------------------------------


def test_a_sampler_learns_from_earlier_trials_that_lie_in_its_space() -> None:
    over = space(
        {"x": {"type": "float", "low": 0, "high": 1}, "kind": {"type": "choice", "choices": ["a", "b"]}}
    )
    found = search("tpe", parameters=("x", "kind"), startup=10)
    near = [{"hp": {"x": 0.7 + 0.001 * n, "kind": "b"}, "values": [0.1], "excess": []} for n in range(10)]
    far = [{"hp": {"x": 0.1 * n, "kind": "a"}, "values": [9.0], "excess": []} for n in range(10)]
    odd = [
        {"hp": {"x": 7.0, "kind": "a"}, "values": [0.0], "excess": []},
        {"hp": {"x": 0.5}, "values": [0.0], "excess": []},
    ]
    searcher = OptunaSearcher(found, over, 7)
    searcher.learn([*near, *odd, *far])
    trials: list[Trial] = []
    for number in range(6):
        trials.append(Trial(number, searcher.ask() or {}, 0.0, TrialState.COMPLETE, [0.5]))
        searcher.tell(number, TrialState.COMPLETE, [0.5])
    assert [trial.hp["kind"] for trial in trials].count("b") >= 5
    again = OptunaSearcher(found, over, 7)
    again.learn([*near, *odd, *far])
    told = [one for number in range(6) for one in ([number], [number, -1])]
    again.replay(Course((), trials=trials, told=told))
    assert again.ask() == searcher.ask()


def test_a_sampler_avoids_what_breaks_a_constraint() -> None:
    """Small is good, and below 0.6 it is forbidden."""
    over = space({"x": {"type": "float", "low": 0, "high": 1}})
    searchers = [
        OptunaSearcher(search("tpe", startup=10, **more), over, 3)
        for more in ({"constraints": ["f.y <= 0"]}, {})
    ]
    drawn: list[list[float]] = []
    for searcher in searchers:
        drawn.append([])
        for number in range(40):
            hp = searcher.ask()
            assert hp is not None
            searcher.constrain(number, [0.6 - hp["x"]])
            searcher.tell(number, TrialState.COMPLETE, [hp["x"]])
            drawn[-1].append(hp["x"])
    kept, free = (sum(x >= 0.6 for x in one[10:]) for one in drawn)
    assert kept >= 15 > 10 > free


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
