"""What a new search is told of earlier runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.controller.warm_start import WarmStart, begin_searches
from diel.workflow.load import load_text
from tests.searched import MATERIALS, SEARCH, search


def begins(folder: Path, warm: str, text: str = SEARCH, name: str = "w") -> WarmStart:
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


def test_how_far_trials_are_beyond_is_told_by_the_constraints_that_a_search_has_now(runs: Path) -> None:
    told = begins(runs, "w-1, constraints: [f.loss <= 1, f.loss >= 0.5]").earlier["trial"]
    assert [one["excess"] for one in told] == [[3.0, -3.5], [-0.75, 0.25], [8.0, -8.5]]


def test_a_trial_that_does_not_tell_how_far_it_is_beyond_is_not_taken_for_a_good_one(runs: Path) -> None:
    assert begins(runs, "project, constraints: [f.size <= 1]").earlier["trial"] == []
    with pytest.raises(
        UsageError, match=r"w-1 has no complete trial over x that was judged by f\.loss, f\.size"
    ):
        begins(runs, "w-1, constraints: [f.size <= 1]")


def test_a_search_without_it_is_told_nothing(runs: Path) -> None:
    assert begins(runs, "", MATERIALS).earlier == {}
