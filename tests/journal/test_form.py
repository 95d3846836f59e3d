"""A damaged record is found by its type; whole ones, of every kind, are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import pytest

from diel.store.journal.form import KINDS, flaw_of
from diel.store.journal.history import History
from tests.record import as_record
from tests.throwaway import Project

LOOP = """
    axes:
      round: {loop: {until: step.y > 2, max: 5}}
    stages:
      step:
        over: [round]
        inputs: {x: {from: step.y, at: {round: previous}, initially: 1}}
        command: |
          printf '{"y": %s}' ${{ inputs.x + 1 }} > "$DIEL_RESULT"
        outputs: {y: {value: int}}
      bad: {command: [false], retries: 1}
      after: {command: [x], after: [bad]}
"""

DONE = {"event": "done", "stage": "s", "index": 1, "attempt": 1, "time": 1.0, "seconds": 1.0, "key": "k"}


def test_what_controllers_and_workers_write_is_of_its_type(tmp_path: Path) -> None:
    found = Project(tmp_path, "w").workflow(LOOP).run(code=1).records()
    assert [flaw for record in found if (flaw := flaw_of(record))] == []
    wanted = {"controller", "stage", "queued", "start", "done", "fail", "failed", "skipped", "axis", "round"}
    assert wanted <= {record["event"] for record in found}


@pytest.mark.parametrize("event", KINDS)
def test_each_kind_says_what_it_is_and_misses_what_it_must_have(event: str) -> None:
    kind: Any = KINDS[event]
    must = [key for key in get_type_hints(kind) if key in kind.__required_keys__ and key != "event"]
    must += ["time"] if "time" in kind.__optional_keys__ else []
    flaw = flaw_of({"event": event})
    assert flaw.startswith(f"a record of `{event}`: `{must[0]}` is missing: expected ") if must else not flaw


@pytest.mark.parametrize(
    ("changed", "flaw"),
    [
        ({"index": -1}, "`index` is -1: expected a task's index"),
        ({"index": 10**9}, "expected a task's index"),
        ({"attempt": "1"}, "`attempt` is '1': expected a whole number"),
        ({"values": []}, "`values` is []: expected an object"),
        ({"values": {"e": [1]}, "output": 1}, "`output` is 1: expected true or false"),
        ({"parts": ["a"]}, "`parts` is ['a']: expected a list"),
        ({"surrogate": {"asked": 1.0}}, "`surrogate` is {'asked': 1.0}: expected an object"),
        ({"origin": [0, "1"]}, "`origin` is [0, '1']: expected a list, each a whole number"),
        ({"seconds": None}, "`seconds` is None: expected a number"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_with_what_was_expected(changed: dict[str, Any], flaw: str) -> None:
    assert flaw_of(DONE) == ""
    assert flaw in flaw_of({**DONE, **changed})


@pytest.mark.parametrize(
    ("record", "flaw"),
    [
        ({"event": "dropped", "stage": "s", "output": "o", "tasks": [[1]]}, "expected pairs of tasks"),
        ({"event": "adopted", "tasks": [["s", 0, 1, 2]]}, "expected tasks, each with its attempt and worker"),
        ({"event": "end", "state": "tired"}, "`state` is 'tired': expected a state of a run"),
        ({"event": 3}, "`event` is 3: expected a text"),
    ],
    ids=str,
)
def test_lists_and_states_are_looked_into(record: dict[str, Any], flaw: str) -> None:
    assert flaw in flaw_of(record)


def test_a_record_without_the_time_that_the_ledger_stamps_is_damaged() -> None:
    record = {"event": "queued", "stage": "s", "tasks": [0]}
    with pytest.raises(KeyError):
        History().apply(as_record(record))
    assert flaw_of(record) == "a record of `queued`: `time` is missing: expected a number"
    assert flaw_of({**record, "time": 1.0}) == ""


def test_a_kind_that_only_a_newer_diel_writes_is_left_alone() -> None:
    history, record = History(), {"event": "invented", "stage": "s", "axis": "t", "tasks": [[0, 1]]}
    history.apply(as_record(record))
    assert history == History()
    assert flaw_of(record) == ""
