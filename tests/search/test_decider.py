"""A loop while its run goes on, without workers: whether there is another round, and after a kill too."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.store.journal.axis_history import Course
from diel.store.project.requests import ask_cancel
from diel.tasks.points.adaptive import PointState
from tests.controller.bench import Bench

LOOP = """
axes: {round: {loop: {max: 3, until: f.value < 1}}}
stages:
  f: {command: 'run > $DIEL_RESULT', over: [round]}
  last: {command: [echo, "${{ inputs.value }}"], inputs: {value: {from: f.value, at: {round: last}}}}
"""


@pytest.fixture
def here(workspace: Path) -> Bench:
    return Bench(workspace, LOOP)


def course(of: Bench) -> Course:
    return of.ledger.history.axis("round").courses[()]


def standing(of: Bench) -> list[PointState]:
    return [of.stages.runs["f"].standing(index) for index in range(3)]


@pytest.mark.parametrize(
    ("values", "reason"), [((2.0, 0.5), "until"), ((2.0, 2.0, 2.0), "max"), ((0.5,), "until")]
)
def test_a_controller_killed_between_a_rounds_verdict_and_the_loops_end_changes_nothing(
    here: Bench, values: tuple[float, ...], reason: str
) -> None:
    for number, value in enumerate(values):
        here.done("f", number, value=value)
    before = standing(here)
    here.killed_before("closed")
    assert (course(here).points, course(here).reason) == (len(values), reason)
    assert standing(here) == before
    assert here.resolve("last").command == ("echo", str(values[-1]))


def test_a_controller_killed_before_the_next_round_goes_on_with_it(here: Bench) -> None:
    here.done("f", 0, value=2.0)
    here.done("f", 1, value=0.5)
    here.killed_before("round")
    assert (course(here).points, len(course(here).rounds)) == (2, 2)


def test_a_round_that_was_cancelled_with_its_run_does_not_fail_the_loop(here: Bench) -> None:
    ask_cancel(here.paths)
    here.cancelled("f", 0)
    assert not course(here).over
