"""Each kind of record is declared once, and what the fold takes for granted of it is declared there."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from diel.journal import records
from diel.journal.form import FORMS
from diel.journal.history import History

KINDS = {get_args(get_type_hints(kind)["event"])[0]: kind for kind in get_args(records.Record)}


def test_every_kind_has_a_form_and_no_form_is_of_another() -> None:
    assert KINDS.keys() == FORMS.keys()


@pytest.mark.parametrize("event", KINDS)
def test_a_form_asks_only_for_fields_that_are_declared(event: str) -> None:
    assert FORMS[event].keys() <= KINDS[event].__annotations__.keys()


def test_a_kind_that_a_newer_diel_writes_is_left_alone() -> None:
    history, record = History(), {"event": "invented", "stage": "s", "tasks": [[0, 1]]}
    newer: Any = record
    history.apply(newer)
    assert history == History()
