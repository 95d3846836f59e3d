"""Population-based training: who goes on from whom, and a schedule that no constant value reaches."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

from diel.base.states import TrialState
from diel.controller.search.pbt import PopulationSearcher
from diel.store.journal.axis_history import Course, Trial
from tests.search.playing import EVERYTHING, search, space

RATE = {"rate": {"type": "float", "low": 1e-3, "high": 1, "log": True}}
STEEP = [0.02 * 50 ** (place / 47) for place in range(48)]
STEPS, GENERATIONS, MEMBERS = 15, 16, 8


def population(seed: int = 0, over: Mapping[str, Any] = RATE, **more: Any) -> PopulationSearcher:
    given = search({"name": "pbt", **more}, population=MEMBERS, parameters=tuple(over))
    return PopulationSearcher(given, space(over), seed)


def trained(searcher: PopulationSearcher, trials: int, failing: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Trials one after the other, whose number is their loss."""
    asked = []
    for number in range(trials):
        asked.append(searcher.ask() or {})
        failed = number in failing
        state = TrialState.FAILED if failed else TrialState.COMPLETE
        searcher.tell(number, state, [] if failed else [float(number % MEMBERS)])
    return asked


def test_the_bad_go_on_from_the_good_and_the_others_from_themselves() -> None:
    searcher = population(share=0.25)
    asked = trained(searcher, 2 * MEMBERS)
    parents = [searcher.parent(number) for number in range(2 * MEMBERS)]
    assert parents[:MEMBERS] == [None] * MEMBERS
    assert parents[MEMBERS : 2 * MEMBERS - 2] == [*range(MEMBERS - 2)]
    assert {*parents[-2:]} <= {0, 1}
    assert asked[MEMBERS : 2 * MEMBERS - 2] == asked[: MEMBERS - 2]
    for hp, parent in zip(asked[-2:], parents[-2:], strict=True):
        assert parent is not None
        assert hp != asked[parent]


def test_a_member_that_failed_goes_on_from_another_and_begins_anew_if_all_have_failed() -> None:
    searcher = population()
    trained(searcher, MEMBERS + 1, failing=(0,))
    assert searcher.parent(MEMBERS) == 1
    searcher = population()
    trained(searcher, MEMBERS + 1, failing=tuple(range(MEMBERS)))
    assert searcher.parent(MEMBERS) is None


def test_a_member_does_one_trial_after_the_other_and_nobody_waits_for_a_slow_one() -> None:
    searcher = population()
    for _ in range(MEMBERS):
        searcher.ask()
    for number in range(1, 4):
        searcher.tell(number, TrialState.COMPLETE, [1.0])
    assert [searcher.ask() is not None and searcher.parent(number) for number in (8, 9, 10)] == [1, 2, 1]


def test_all_kinds_of_hyperparameters_stay_in_their_bounds() -> None:
    over = space(EVERYTHING)
    for hp in trained(population(3, EVERYTHING, share=0.5, resample=0.1), 20 * MEMBERS):
        for name, value in hp.items():
            given = over.parameters[name]
            assert value in given.listed if given.listed else given.low <= value <= given.high, name


def test_who_takes_a_course_over_goes_on_as_it_would_have() -> None:
    first, second = population(5), population(5)
    asked = trained(first, 30)
    trials = [
        Trial(number, hp, 0.0, TrialState.COMPLETE, [float(number % MEMBERS)])
        for number, hp in enumerate(asked)
    ]
    second.replay(Course((), trials=trials, told=[one for n in range(30) for one in ([n], [n, -1])]))
    assert (first.ask(), first.parent(30)) == (second.ask(), second.parent(30))


def descended(at: list[float], rate: float, steps: int, seed: str) -> list[float]:
    draw = random.Random(seed)
    for _ in range(steps):
        at = [x - rate * (steep * x + draw.gauss(0, 0.5)) for x, steep in zip(at, STEEP, strict=True)]
    return at


def loss(at: list[float]) -> float:
    return math.fsum(steep * x * x for x, steep in zip(at, STEEP, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_population_follows_a_schedule_that_no_constant_value_reaches(seed: int) -> None:
    """Large steps come near soon, small ones come nearest: noise keeps each constant size away."""
    begin = [1.0] * len(STEEP)
    constants = [10 ** (-3 + place / 5) for place in range(16)]
    steps = STEPS * GENERATIONS
    best = min(loss(descended(begin, rate, steps, f"{seed} {rate}")) for rate in constants)
    searcher = population(seed, factor=1.5, share=0.25)
    states: dict[int, list[float]] = {}
    rates: dict[int, float] = {}
    for number in range(MEMBERS * GENERATIONS):
        rates[number] = (searcher.ask() or {})["rate"]
        parent = searcher.parent(number)
        at = begin if parent is None else states[parent]
        states[number] = descended(at, rates[number], STEPS, f"{seed} {number}")
        searcher.tell(number, TrialState.COMPLETE, [loss(states[number])])
    last = min(range(MEMBERS * (GENERATIONS - 1), MEMBERS * GENERATIONS), key=lambda one: loss(states[one]))
    assert loss(states[last]) < best
    line = [last]
    while (parent := searcher.parent(line[-1])) is not None:
        line.append(parent)
    assert len(line) == GENERATIONS
    assert rates[last] < max(rates[one] for one in line) / 2
