"""A search or loop of a run: which of its points there are, which are lost, which are picked."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.states import TrialState
from diel.store.journal.snapshot import read_run
from diel.tasks.points.adaptive import Adaptive, PointState, adaptive_axes
from diel.workflow.models import Choice
from tests.searched import LOOP, MATERIALS, SEARCH, Searched, loop, search


def axis_of(run: Searched) -> Adaptive:
    """The only search or loop of a run, as its journal has it by now."""
    (axis,) = adaptive_axes(run.spec, read_run(run.paths).history).values()
    return axis


def standings(axis: Adaptive) -> list[PointState]:
    return [axis.standing({axis.label: place}) for place in range(6)]


def test_trials_that_were_asked_for_are_open_and_a_pruned_one_is_closed(tmp_path: Path) -> None:
    run = search(tmp_path)
    opened, closed, waiting = PointState.OPEN, PointState.CLOSED, PointState.WAITING
    assert standings(axis_of(run)) == [opened, opened, opened, closed, opened, waiting]
    run.about("closed", points=5, reason="trials", failed=False)
    assert standings(axis_of(run))[5] is closed


@pytest.mark.parametrize("text", [SEARCH, LOOP])
def test_nothing_is_there_before_the_first_record(tmp_path: Path, text: str) -> None:
    axis = axis_of(Searched(tmp_path, text))
    assert set(standings(axis)) == {PointState.WAITING}
    assert not axis.is_over({axis.label: 0})
    assert not axis.has_failed({axis.label: 0})


def test_the_best_trials_are_picked_in_their_order_and_hand_on_what_was_set(tmp_path: Path) -> None:
    axis = axis_of(search(tmp_path))
    assert axis.chosen({}, Choice("best")) == (1,)
    assert axis.chosen({}, Choice("top", 2)) == (1, 0)
    assert axis.hyperparameters({"trial": 2}) == {"x": -3.0}
    assert axis.hyperparameters({"trial": 5}) == {}


def test_a_trial_that_was_pruned_is_lost_once_the_search_is_over_and_others_go_on(tmp_path: Path) -> None:
    run = search(tmp_path)
    assert not axis_of(run).is_lost({"trial": 3})
    axis = axis_of(run.about("closed", points=5, reason="trials", failed=False))
    assert [axis.is_lost({"trial": place}) for place in (1, 3)] == [False, True]
    assert axis.went_on_without({"trial": 3})
    assert axis.is_over({"trial": 3})


def test_a_search_goes_its_own_way_for_each_point_of_its_judges_other_axes(tmp_path: Path) -> None:
    run = Searched(tmp_path, MATERIALS).about("begin", 1, seed=1)
    for number, (loss, time) in enumerate([(1.0, 3.0), (2.0, 4.0), (3.0, 1.0)]):
        run.trial(number, 0.0, 1).score(number, loss, time, context=(1,))
    axis = axis_of(run)
    assert axis.judge.context == ("material",)
    assert axis.standing({"material": 0, "trial": 0}) is PointState.WAITING
    assert axis.standing({"material": 1, "trial": 0}) is PointState.OPEN
    assert axis.chosen({"material": 1}, Choice("pareto")) == (0, 2)
    assert axis.chosen({"material": 0}, Choice("pareto")) == ()


def test_a_round_is_there_once_the_one_before_was_judged(tmp_path: Path) -> None:
    axis = axis_of(loop(tmp_path, over=False))
    opened, waiting = PointState.OPEN, PointState.WAITING
    assert standings(axis) == [opened, opened, opened, opened, waiting, waiting]
    assert (axis.at_once, axis.size, axis.axis.may_end_early) == (1, 100, True)


def test_the_last_round_of_a_loop_that_ended_is_picked_and_no_other_comes(tmp_path: Path) -> None:
    axis = axis_of(loop(tmp_path, over=True))
    assert standings(axis) == [PointState.OPEN] * 3 + [PointState.CLOSED] * 3
    assert axis.chosen({}, Choice("last")) == (2,)
    assert not axis.is_lost({"round": 2})


def test_the_round_at_which_a_loop_failed_is_lost(tmp_path: Path) -> None:
    axis = axis_of(loop(tmp_path, over=False).about("closed", points=4, reason="failed", failed=True))
    assert axis.has_failed({})
    assert [axis.is_lost({"round": place}) for place in (2, 3)] == [False, True]
    assert not axis.went_on_without({"round": 3})


def test_a_loop_without_a_condition_has_all_its_rounds_at_once(tmp_path: Path) -> None:
    axis = axis_of(Searched(tmp_path, LOOP.replace(', until: "${{ check.error < 0.1 }}"', "")))
    assert set(standings(axis)) == {PointState.OPEN}
    assert axis.is_over({"round": 0})
    assert axis.chosen({}, Choice("last")) == (99,)


def test_an_axis_that_no_stage_runs_over_is_not_followed(tmp_path: Path) -> None:
    text = LOOP.replace("axes:\n", "axes:\n  idle: {loop: {max: 3}}\n")
    run = Searched(tmp_path, text)
    assert set(run.axes) == {"round"}


def test_what_is_written_down_of_a_search_says_how_it_is_judged(tmp_path: Path) -> None:
    run = search(tmp_path)
    facts = run.axes["trial"].facts(run.spec)
    assert (facts.parallel, facts.pruner, facts.objectives) == (2, "median", [["f.loss", True]])
    course = axis_of(run).course({})
    assert course.trials[4].state is TrialState.RUNNING
