"""The form of a journal's records: what the fold takes for granted of each event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diel.form import (
    ANY,
    COUNT,
    COUNTS,
    LIST,
    MAP,
    NUMBER,
    TEXT,
    Form,
    flaw_in,
    is_count,
    is_text,
    list_of,
    rows,
)
from diel.journal.axis_history import AxisFacts, TrialState
from diel.journal.surrogate import is_told
from diel.states import RunState

MOST_TASKS = 10**9
"""No stage has more: each task takes a byte of memory."""


def _is_facts(value: Any) -> bool:
    try:
        AxisFacts(**value)
    except TypeError:
        return False
    return True


def _is_index(value: Any) -> bool:
    return is_count(value) and value < MOST_TASKS


_INDEX = ("a task's index", _is_index)
_TOTAL = ("a number of tasks", _is_index)
_INDICES = ("a list of tasks", list_of(_is_index))
_RANGES = ("pairs of tasks", lambda value: bool(value) and rows(_is_index, _is_index)(value))
_NUMBERED = ("tasks, each with its attempt", rows(_is_index, is_count))
_TASK = {"stage": TEXT, "index": _INDEX}
_ATTEMPT = {**_TASK, "attempt": COUNT, "time": NUMBER}
_VERDICT = {"stage": TEXT, "tasks": _RANGES}
_COURSE = {
    "axis": TEXT,
    "context": ("a list of points", list_of(lambda value: isinstance(value, (int, str)))),
}
_TRIAL = {**_COURSE, "number": COUNT}
_RUN_STATE = ("a state of a run", lambda value: value in list(RunState))
_TRIAL_STATE = ("a state of a trial", lambda value: value in list(TrialState))
_ADOPTED = ("tasks, each with its attempt and worker", rows(is_text, _is_index, is_count, is_text))
_STAGING = {"copied": COUNT, "bytes": COUNT, "folder": TEXT, "warning": TEXT}

FORMS: dict[str, Form] = {
    "controller": {"epoch": COUNT, "time": NUMBER},
    "block": {"block": TEXT, "state": TEXT},
    "scheduler": {"message": TEXT},
    "trouble": {"message": TEXT},
    "adopted": {"tasks": _ADOPTED, "time": NUMBER},
    "stage": {"stage": TEXT, "kind": TEXT, "total": _TOTAL},
    "queued": {"stage": TEXT, "tasks": _INDICES, "time": NUMBER},
    "start": _ATTEMPT,
    "fail": _ATTEMPT,
    "release": {"stage": TEXT, "tasks": _INDICES, "bundle": COUNT},
    "done": _TASK,
    "cached": {**_TASK, "run": TEXT},
    "dropped": {"stage": TEXT, "output": TEXT, "tasks": _RANGES},
    "gone": {"stage": TEXT, "tasks": _NUMBERED},
    "failed": _VERDICT,
    "skipped": _VERDICT,
    "cancelled": _VERDICT,
    "tolerated": {**_VERDICT, "cause": TEXT},
    "fenced": {"stage": TEXT, "tasks": _NUMBERED},
    "end": {"state": _RUN_STATE, "time": NUMBER},
    "staging": {"node": TEXT, "time": NUMBER, **_STAGING},
    "axis": {"axis": TEXT, "facts": ("the facts of an axis", _is_facts)},
    "begin": {**_COURSE, "seed": ANY, "time": NUMBER},
    "trial": {**_TRIAL, "hp": MAP, "time": NUMBER},
    "reported": {**_TRIAL, "step": COUNT, "value": NUMBER},
    "judged": {**_TRIAL, "state": _TRIAL_STATE, "time": NUMBER},
    "round": {**_TRIAL, "holds": ANY, "values": ANY, "time": NUMBER},
    "stopped": {**_COURSE, "message": TEXT},
    "closed": {**_COURSE, "points": COUNT, "reason": TEXT},
    "reopened": {**_COURSE, "trials": COUNTS},
    "spared": {**_COURSE, "cause": TEXT},
    "handover": {},
    "service": {},
    "worker": {},
}
_OPTIONAL: Form = {
    "attempt": COUNT,
    "attempts": COUNTS,
    "bundle": COUNT,
    "factors": LIST,
    "parts": ANY,
    "resources": MAP,
    "seconds": NUMBER,
    "surrogate": ("what is told of a surrogate", is_told),
    "taken": COUNT,
}


def flaw_of(record: Mapping[str, Any]) -> str:
    """What is wrong with a record's form; empty where nothing is."""
    event = record["event"]
    if not isinstance(event, str):
        return f"`event` is {event!r:.60}: expected a text"
    flaw = flaw_in(record, FORMS.get(event, {}), _OPTIONAL)
    return f"a record of `{event}`: {flaw}" if flaw else ""
