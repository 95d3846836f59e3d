"""The effective speedup, worked out by hand from records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.base.paths import RunPaths
from diel.observe.status.surrogate import SurrogateStatus, answered_text, surrogate_of, trouble
from diel.store.journal.history import History
from diel.store.journal.snapshot import read_run
from tests.record import as_record

Record = dict[str, Any]
FACTS = {"service": "serve", "training": ["train"], "simulations": ["begin"]}


def opened(stage: str, total: int, **more: Any) -> Record:
    return {"event": "stage", "stage": stage, "kind": "simulation", "total": total, **more}


def done(stage: str, index: int, seconds: float, **surrogate: Any) -> Record:
    more = {"surrogate": surrogate} if surrogate else {}
    return {"event": "done", "stage": stage, "index": index, "attempt": 1, "seconds": seconds, **more}


# T_sim = (2 + 4 + 6) / 3 = 4 s; T_learn = 3 / 3 = 1 s; T_lookup = (0.2 + 0.4 + 0.4 in vain) / 2 = 0.5 s
RECORDS = [
    opened("simulate", 6, surrogate=FACTS),
    done("begin", 0, 2.0),
    done("train", 0, 3.0),
    done("simulate", 0, 0.2, asked=0.1, uncertainty=0.01, used=True),
    done("simulate", 1, 4.1, asked=0.1, uncertainty=0.5, used=False),
    done("simulate", 2, 0.4, asked=0.3, uncertainty=0.01, used=True),
    done("simulate", 3, 6.3, asked=0.3, uncertainty=None, used=False, message="it does not answer"),
]
SPEEDUP = 4.0 * (2 + 3) / (0.5 * 2 + (4.0 + 1.0) * 3)


def folded(records: list[Record]) -> History:
    history = History()
    for record in records:
        history.apply(as_record(record))
    return history


def document(history: History, stage: str = "simulate") -> dict[str, Any]:
    return standing(history, stage).document()


def standing(history: History, stage: str = "simulate") -> SurrogateStatus:
    known = history.stage(stage).surrogate
    assert known is not None
    return surrogate_of(history, known)


def test_the_terms_and_the_speedup_are_those_of_the_formula() -> None:
    found = document(folded(RECORDS))
    assert (found["n_lookup"], found["n_train"], found["simulated"]) == (2, 3, 2)
    assert [found[term] for term in ("t_sim_s", "t_lookup_s", "t_learn_s")] == pytest.approx([4.0, 0.5, 1.0])
    assert found["speedup"] == pytest.approx(SPEEDUP)


def test_records_count_once_in_whatever_order_they_come() -> None:
    assert document(folded([*reversed(RECORDS), *RECORDS])) == document(folded(RECORDS))


def test_results_from_the_cache_count_with_the_time_that_they_took() -> None:
    cached = [
        record if record["event"] == "stage" else {**record, "event": "cached", "run": "w-1"}
        for record in RECORDS
    ]
    assert document(folded(cached)) == document(folded(RECORDS))


def test_a_snapshot_keeps_the_terms(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "w-2")
    paths.journal.mkdir(parents=True)
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    (paths.journal / "worker-0001-host-1.jsonl").write_text(lines)
    read_run(paths).save()
    (paths.journal / "worker-0001-host-1.jsonl").rename(tmp_path / "gone")
    assert document(read_run(paths).history) == document(folded(RECORDS))


def test_without_a_simulation_no_speedup_is_answered_text() -> None:
    found = standing(folded(RECORDS[:1] + RECORDS[3:4]))
    assert (found.speedup, found.simulation_seconds) == (None, None)
    assert answered_text(found) == "'serve' answered 1 of 1, 0 were simulated"


def test_a_stage_without_a_surrogate_tells_none() -> None:
    assert folded(RECORDS).stage("begin").surrogate is None


def test_questions_without_an_answer_are_answered_text_with_the_last_reason() -> None:
    found = standing(folded(RECORDS))
    assert trouble(found) == "1 question without an answer, the last: it does not answer"
