"""What a resumed run makes again: results that are outdated, and those whose files are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.controller.invalidation import find_missing, find_outdated, read_trials, write_again
from diel.observe.results import RunReader
from tests.handmade import Handmade
from tests.searched import LOOP, MATERIALS, SEARCH, Searched, search

TOLERANT = """
axes: {n: {range: 3}}
stages:
  work: {over: [n], command: [x], outputs: {v: {value: int}}}
  total: {command: [x, "${{ inputs.v }}"], inputs: {v: {from: work.v, min_success: 0.5}}, outputs: {t: {value: int}}}
  seen: {command: [x, "${{ total.t }}"]}
  apart: {command: [x, "${{ inputs.v }}"], inputs: {v: {from: work.v, at: {n: 0}}}}
"""


def view(run: Handmade) -> RunReader:
    return RunReader(run.paths)


def went_on_without(folder: Path) -> Handmade:
    """A run in which one of three tasks failed, and what follows did without it."""
    run = Handmade(folder, TOLERANT).stage("work", 3)
    for name in ("total", "seen", "apart"):
        run.stage(name, 1)
    run.done("work", 0, v=1).done("work", 1, v=2).failed("work", 2)
    return run.done("total", 0, t=3).done("seen", 0).done("apart", 0)


def test_what_went_on_without_a_task_that_is_tried_again_is_made_again(tmp_path: Path) -> None:
    run = went_on_without(tmp_path)
    found, _ = find_outdated(view(run), {})
    assert found == {"total": {0: 1}, "seen": {0: 1}}
    write_again(run.paths, 1, [found])
    history = RunReader(run.paths).history
    assert [history.stages[name].state(0).label for name in ("total", "seen", "apart")] == [
        "waiting",
        "waiting",
        "done",
    ]


def test_what_is_tolerated_has_nothing_made_again(tmp_path: Path) -> None:
    run = went_on_without(tmp_path).write("tolerated", stage="work", tasks=[[2, 2]], cause="`min_success`")
    assert find_outdated(view(run), {}) == ({}, {})


FILES = """
axes: {n: {range: 2}}
stages:
  made: {over: [n], command: [x], outputs: {out: out.txt}}
  reads: {over: [n], command: [cat, "${{ made.out }}"]}
"""


@pytest.fixture
def files(tmp_path: Path) -> Handmade:
    """Both files are gone; one was read, the task that reads the other failed."""
    run = Handmade(tmp_path, FILES).stage("made", 2).stage("reads", 2)
    for index in range(2):
        run.done("made", index, {"out": f"text {index}"})
        (run.paths.task_dir("made", index, 1) / "out.txt").unlink()
    return run.done("reads", 0).failed("reads", 1)


def test_a_file_that_is_gone_is_made_again_only_where_it_is_still_read(files: Handmade) -> None:
    found, made, texts = find_missing(view(files))
    assert (found, texts) == (
        {"made": {1: 1}},
        [f"{files.paths.run_id}/tasks/made/1/out.txt of made/1: it is gone"],
    )
    write_again(files.paths, 1, [found], remade=made)
    assert find_missing(view(files)) == ({}, {}, []), "it waits to be made"


def test_the_files_of_which_an_axis_was_made_are_always_needed(tmp_path: Path) -> None:
    text = """
axes: {part: {from: split.parts}}
stages:
  split: {command: [x], outputs: {parts: parts.csv}}
  each: {over: [part], command: [x]}
"""
    run = Handmade(tmp_path, text).stage("split", 1).done("split", 0, {"parts": "part\n1\n"})
    run.paths.axes.mkdir()
    run.paths.axis("part").write_text('{"part": 1}\n')
    run.stage("each", 1).done("each", 0)
    assert find_missing(view(run))[0] == {}
    (run.paths.task_dir("split", 0, 1) / "parts.txt").unlink()
    assert find_missing(view(run))[0] == {"split": {0: 1}}


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
