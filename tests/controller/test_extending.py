"""Which searches can be given more trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.controller.invalidation import read_trials
from diel.errors import UsageError
from diel.results import RunReader
from tests.searched import LOOP, MATERIALS, SEARCH, Searched, search


def test_a_number_is_for_the_only_search_and_an_axis_can_be_named(tmp_path: Path) -> None:
    run = RunReader(search(tmp_path).paths)
    assert read_trials(run, ["40"]) == read_trials(run, ["trial=40"]) == {"trial": 40}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("5", "'trial' has 6 trials: give it more"),
        ("many", "expected a number of trials, such as --trials 40"),
        ("0", "expected a number of trials"),
        ("trail=40", "no search 'trail'; did you mean 'trial'?"),
    ],
)
def test_what_is_no_larger_number_of_trials_is_refused(tmp_path: Path, said: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"--trials {said}: .*{why}|--trials {said}: {why}"):
        read_trials(RunReader(search(tmp_path).paths), [said])


def test_two_numbers_for_one_search_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--trials trial=50: how many 'trial' is to have is said twice"):
        read_trials(RunReader(search(tmp_path).paths), ["40", "trial=50"])


def refusal(text: str, folder: Path, reason: str = "", said: str = "40") -> str:
    run = Searched(folder, text)
    if reason:
        run.about("begin", seed=1).trial(0, 0.5).score(0, 1.0)
        run.about("closed", points=1, reason=reason, failed=False)
    with pytest.raises(UsageError) as refused:
        read_trials(RunReader(run.paths), [said])
    return str(refused.value)


def test_a_search_need_not_be_the_first_axis_of_its_stages(tmp_path: Path) -> None:
    assert read_trials(RunReader(Searched(tmp_path, MATERIALS).paths), ["40"]) == {"trial": 40}


def test_a_run_without_a_search_has_no_trials(tmp_path: Path) -> None:
    assert "no axis of its workflow is a search" in refusal(LOOP, tmp_path)


def test_a_search_that_met_its_goal_is_over(tmp_path: Path) -> None:
    assert "another reason than its trials: its `until` held" in refusal(SEARCH, tmp_path, "until")


def test_a_search_on_which_another_axis_rests_is_refused(tmp_path: Path) -> None:
    text = SEARCH.replace(
        "  trial:\n", "  next: {search: {trials: 2, minimize: end.v, parameters: [x]}}\n  trial:\n"
    )
    text = text.replace("  end:\n", "  end:\n    over: [next]\n    outputs: {v: {value: float}}\n")
    assert "what 'trial' found has decided on 'next'" in refusal(text, tmp_path, said="trial=40")


def test_trials_that_go_on_from_each_other_can_be_more(tmp_path: Path) -> None:
    text = SEARCH.replace("pruner: median", "sampler: pbt, population: 2")
    text = text.replace(
        "sub: {over: [trial, fold], command",
        "sub: {over: [trial, fold], inputs: {v: {from: sub.v, at: {trial: previous}, initially: 0}}, command",
    )
    assert read_trials(RunReader(Searched(tmp_path, text).paths), ["8"]) == {"trial": 8}
