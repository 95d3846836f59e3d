"""What a new search is told of earlier runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.controller.warm import Begins, begin_searches
from diel.errors import UsageError
from diel.load import load_text
from tests.searched import MATERIALS, SEARCH, search


def begins(folder: Path, warm: str, text: str = SEARCH, name: str = "w") -> Begins:
    text = text.replace("pruner: median", f"warm_start: {warm}")
    return begin_searches(load_text(f"diel: 1\nname: {name}\n{text}", Path("w.yaml")), folder, anew=False)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """With one run, of which three trials are complete."""
    return search(tmp_path).paths.root.parent


def test_a_search_is_told_the_complete_trials_of_a_run_or_of_the_workflows_runs(runs: Path) -> None:
    told = begins(runs, "w-1").earlier["trial"]
    assert [(one["hp"], one["values"], one["at"]) for one in told] == [
        ({"x": 2.0}, [4.0], {}),
        ({"x": 0.5}, [0.25], {}),
        ({"x": -3.0}, [9.0], {}),
    ]
    assert begins(runs, "project").earlier["trial"] == told
    assert begins(runs, "project", name="other").earlier["trial"] == []


def test_a_run_that_is_not_there_or_that_searched_for_something_else_is_refused(runs: Path) -> None:
    with pytest.raises(UsageError, match=r"^w\.yaml:9:94: axes\.trial\.search\.warm_start: no run 'w-7'"):
        begins(runs, "w-7")
    with pytest.raises(UsageError, match=r"w-1 has no complete trial over x that was judged by end\.v"):
        begins(runs, "w-1", SEARCH.replace("minimize: f.loss", "minimize: end.v"))


def test_a_search_without_it_is_told_nothing(runs: Path) -> None:
    assert begins(runs, "", MATERIALS).earlier == {}
