"""What a searcher inherits, and a search whose package is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.errors import DielError, UsageError
from diel.journal.axis_history import Course, Trial
from diel.load import load_text
from diel.search import Searcher
from diel.search.searcher import refuse_unsearchable
from diel.states import TrialState
from tests.search.playing import search, space
from tests.searched import SEARCH


class Halves(Searcher):
    """Halves its interval twice."""

    def ask(self) -> dict[str, Any] | None:
        self.seed += 1
        return {"x": 0.5**self.seed} if self.seed < 3 else None

    def tell(self, number: int, state: TrialState, values: list[float]) -> None:
        raise AssertionError("nothing has ended")


def test_a_searcher_needs_to_write_no_more_than_ask_and_tell() -> None:
    found = search("random")
    halves = Halves(found, space({"x": {"type": "float", "low": 0, "high": 1}}), 0)
    assert Halves.refusal(found, {}) == ""
    assert not halves.report(0, 1, 0.5)
    assert not halves.is_given_up(0)
    assert [halves.ask(), halves.ask(), halves.ask()] == [{"x": 0.5}, {"x": 0.25}, None]


class Changed(Halves):
    """A later version, which begins elsewhere."""

    def ask(self) -> dict[str, Any] | None:
        return {"x": 0.75}


def test_a_course_that_another_version_made_is_not_gone_on_with() -> None:
    course = Course((), trials=[Trial(0, {"x": 0.5}, began=0.0)], told=[[0]])
    line = space({"x": {"type": "float", "low": 0, "high": 1}})
    Halves(search("random"), line, 0).replay(course)
    with pytest.raises(DielError, match="proposes other trials"):
        Changed(search("random"), line, 0).replay(course)


def test_a_search_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = load_text(f"diel: 1\nname: w\n{SEARCH}", Path("w.yaml")).spec
    refuse_unsearchable(workflow)
    monkeypatch.setattr("diel.search.searcher.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"axis 'trial' .* needs optuna: .*pip install 'diel\[search\]'"):
        refuse_unsearchable(workflow)
