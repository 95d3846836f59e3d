"""What a run has besides stages: nothing of a feature runs for a run that does not use it."""

from __future__ import annotations

from diel.journal.history import History
from diel.status.sections import SECTIONS
from tests.entered import entered


def test_the_end_of_a_run_enters_no_feature_that_it_does_not_use() -> None:
    history = History()
    files = entered(lambda: [section.summary[0](history) for section in SECTIONS if section.summary])
    assert files <= {"journal/history.py"}
