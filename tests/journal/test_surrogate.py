"""The sum of the records of a stage with a surrogate."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from diel.store.journal.history import History
from diel.store.journal.surrogate import SurrogateHistory, bound_of
from tests.record import as_record

FACTS = {"service": "serve", "training": ["train"], "simulations": ["begin"]}


def done(index: int, seconds: float, **surrogate: Any) -> dict[str, Any]:
    record = {"event": "done", "stage": "s", "index": index, "attempt": 1, "seconds": seconds}
    return {**record, "surrogate": surrogate}


def fold(*records: dict[str, Any]) -> SurrogateHistory:
    history = History()
    for record in records:
        history.apply(as_record(record))
    found = history.stage("s").surrogate
    assert found is not None
    return found


def test_answers_and_simulations_are_counted_apart_with_their_time() -> None:
    found = fold(
        {"event": "stage", "stage": "s", "kind": "simulation", "total": 3, "surrogate": FACTS},
        done(0, 0.5, asked=0.5, used=True),
        done(1, 4.0, asked=1.0, used=False),
        done(2, 2.0, asked=1.0, used=False, message="it does not answer"),
    )
    assert (found.service, found.training, found.simulations) == ("serve", ("train",), ("begin",))
    assert (found.answered, found.answered_seconds) == (1, 0.5)
    assert (found.simulated, found.simulated_seconds, found.vain_seconds) == (2, 4.0, 2.0)
    assert (found.unanswered, found.message) == (1, "it does not answer")


def test_a_result_counts_once_whatever_was_known_before_it() -> None:
    answer = done(0, 0.5, asked=0.5, used=True)
    facts = {"event": "stage", "stage": "s", "kind": "simulation", "total": 3, "surrogate": FACTS}
    assert fold(answer, facts, answer) == fold(facts, answer)


AUDITED = {
    "event": "stage",
    "stage": "s",
    "kind": "simulation",
    "total": 9,
    "surrogate": {**FACTS, "tolerance": 0.5},
}


def audited(index: int, error: float | None) -> dict[str, Any]:
    return done(index, 1.0, asked=0.1, used=False, error=error, answer="k")


@pytest.mark.parametrize(("errors", "off"), [([0.1, 0.5], False), ([0.1, 0.6], True), ([None], True)])
def test_audits_beyond_the_tolerance_turn_it_off_in_whatever_order(
    errors: list[float | None], off: bool
) -> None:
    records = [AUDITED, *(audited(index, error) for index, error in enumerate(errors))]
    for order in (records, records[::-1]):
        assert fold(*order).is_off == off


def test_an_answer_that_is_made_anew_is_one_no_more_and_its_audits_stay() -> None:
    answer = done(0, 0.1, asked=0.1, used=True)
    gone = {"event": "gone", "stage": "s", "tasks": [[0, 1]]}
    again = {**done(0, 2.0, asked=0.0, used=False), "attempt": 2}
    records = [AUDITED, answer, audited(1, 0.7), gone, again]
    for order in (records, [AUDITED, gone, again, audited(1, 0.7), answer]):
        found = fold(*order)
        assert (found.answered, found.simulated, found.is_off) == (0, 2, True)


def test_a_result_that_stays_is_marked_until_it_is_made_anew() -> None:
    history = History()
    doubted = {"event": "doubted", "stage": "s", "tasks": [[1, 1], [2, 0]]}
    records = [
        doubted,
        done(1, 1.0, asked=0.0, used=False),
        {**done(2, 1.0, asked=0.0, used=False), "event": "cached", "run": "w-1"},
    ]
    for record in records:
        history.apply(as_record(record))
    assert history.stage("s").stays() == [1, 2]
    assert history.has_suspects()
    assert not history.is_doubted()
    history.apply(as_record({"event": "gone", "stage": "s", "tasks": [[1, 1]]}))
    history.apply(as_record({**done(1, 1.0, asked=0.0, used=False), "attempt": 2}))
    assert history.stage("s").stays() == [2]


# --- the bound ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "share"), [(1, 0.05), (10, 0.741134), (58, 0.949659), (59, 0.95), (5000, 0.95)]
)
def test_few_audits_speak_for_a_smaller_share_of_the_answers(count: int, share: float) -> None:
    assert bound_of([1.0] * count).share == pytest.approx(share, abs=1e-5)


@pytest.mark.parametrize(("count", "left_out"), [(59, 0), (92, 0), (93, 1), (124, 2), (100_000, 4886)])
def test_of_many_audits_the_largest_errors_are_left_out(count: int, left_out: int) -> None:
    """Wilks's numbers: 59, 93 and 124 are the fewest of which none, one and two can be."""
    assert bound_of(range(count)).error == count - 1 - left_out


def test_without_an_audit_nothing_is_bounded() -> None:
    assert bound_of([]) == (math.inf, 0.0)


DRAWS: dict[str, Callable[[random.Random, float], float]] = {
    "gauss": lambda chance, passed: abs(chance.gauss(0, 1)),
    "pareto": lambda chance, passed: chance.paretovariate(0.5),
    "rarely": lambda chance, passed: 100.0 if chance.random() < 0.06 else 0.01 * chance.random(),
    "drifts": lambda chance, passed: abs(chance.gauss(0, 1)) * (1 if passed < 0.9 else 50),
}
"""An error, by the part of the run that has passed."""


@pytest.mark.parametrize("share", [0.03, 0.2, 0.6])
@pytest.mark.parametrize("draw", DRAWS)
def test_the_bound_holds_for_all_answers_in_nine_of_ten_trials(draw: str, share: float) -> None:
    """Of 100 runs with 500 answers each; it is made to hold in 95 of 100, of whatever distribution."""
    held = 0
    for seed in range(100):
        chance = random.Random(seed)
        errors = [DRAWS[draw](chance, at / 500) for at in range(500)]
        bound = bound_of([error for error in errors if chance.random() < share])
        held += sum(error <= bound.error for error in errors) >= bound.share * len(errors)
    assert held >= 90
