"""The sum of the records of a stage with a surrogate."""

from __future__ import annotations

from typing import Any

from diel.journal.history import History
from diel.journal.surrogate import SurrogateHistory
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
