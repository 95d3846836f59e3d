"""Searches and loops as lines for people, as narrow as the terminal is."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from diel.status import read_status
from diel.status.axis_lines import axis_lines, sparkline
from diel.status.columns import width_of
from tests.cli.call import call
from tests.screen import Terminal
from tests.searched import MATERIALS, SEARCH, Searched, loop, search
from tests.throwaway import Project

Capture = pytest.CaptureFixture[str]


def lines(run: Searched, width: int = 100, rows: int = 8) -> list[str]:
    return [click.unstyle(line) for line in axis_lines(read_status(run.paths).axes, width, rows)]


def test_a_search_shows_counts_the_best_trial_and_a_row_a_running_one(tmp_path: Path) -> None:
    head, best, running, pruned = lines(search(tmp_path, alive=True))
    assert head == "trial  tpe, minimize f.loss · 5 of 6 trials: 3 complete, 1 running, 1 pruned"
    assert best.split() == ["best", "trial", "1", "0.25", "x=0.5"]
    assert running.split()[:3] == ["runs", "trial", "4"]
    assert running.split()[-3:] == ["1/3", "tasks", "x=1.5"]
    assert pruned.split(maxsplit=3) == ["pruned", "trial", "3", "f.loss was 200 at step 0  x=4.5"]


def test_a_pruner_that_heard_nothing_is_told_when_the_search_is_over(tmp_path: Path) -> None:
    run = Searched(tmp_path, SEARCH).about("begin", seed=1).trial(0, 1.0).score(0, 1.0)
    assert "no trial reported" not in lines(run, 200)[0]
    run.about("closed", points=1, reason="trials", failed=False)
    assert lines(run, 200)[0].endswith("; nothing was pruned, because no trial reported f.loss on its way")


def test_a_loop_shows_its_round_and_the_course_of_its_values(tmp_path: Path) -> None:
    assert lines(loop(tmp_path, over=False)) == [
        "round  loop until check.error < 0.1 · round 3 of at most 100, 3 done",
        "  check.error  █▃▁  0.8 → 0.4 → 0.2",
    ]


def test_a_loop_that_is_over_says_why(tmp_path: Path) -> None:
    assert lines(loop(tmp_path, over=True))[0].endswith("· over after 3 rounds: `until` held in round 2")


@pytest.mark.parametrize("width", [20, 40, 79])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    run = search(tmp_path, alive=True)
    assert all(width_of(line) <= width for line in lines(run, width))


def test_more_running_trials_than_there_is_room_for_are_counted(tmp_path: Path) -> None:
    run = search(tmp_path, alive=True).trial(5, -1.0)
    assert lines(run, rows=1)[-1] == "  … 1 more running"


def test_one_search_for_each_point_has_a_row_each(tmp_path: Path) -> None:
    run = Searched(tmp_path, MATERIALS, alive=True)
    for place, material in enumerate(("Si", "Ge")):
        run.about("begin", place, seed=1, at={"material": material})
        run.trial(0, 1.0, place).score(0, 1.0, 2.0, context=(place,))
    head, *rows = lines(run)
    assert head.endswith("for each material · 2 running")
    assert [row.split()[1] for row in rows] == ["Si", "Ge"]
    assert lines(run, rows=1)[-1] == "  … 1 more"


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([1.0, 0.5, 0.0], "█▅▁"),
        ([2, 2, 2], "▁▁▁"),
        ([1.0], ""),
        ([1.0, "text"], ""),
        ([1.0, float("inf")], ""),
        ([True, False], ""),
    ],
)
def test_a_sparkline_is_drawn_of_numbers_alone(values: list[object], drawn: str) -> None:
    assert sparkline(values) == drawn


def test_status_tells_of_them_below_the_stages(tmp_path: Path, workspace: Path, capsys: Capture) -> None:
    loop(tmp_path, over=True)
    said = call(capsys, "status").out
    assert "w-1 succeeded · 6 of 7 tasks · 1 skipped" in said
    assert "check  analysis  ██████████   3/3" in said
    assert "check.error  █▄▁  0.8 → 0.4 → 0.05" in said
    assert "omitted  97  3-99" in call(capsys, "status", "check").out
    assert "6/7" in call(capsys, "list").out


def test_a_run_that_failed_with_all_tasks_done_is_not_told_to_resume(
    tmp_path: Path, workspace: Path, capsys: Capture
) -> None:
    run = Searched(tmp_path, SEARCH).about("begin", seed=1).trial(0, 1.0)
    run.about("judged", number=0, state="failed", message="f.loss is nan; expected a finite number")
    run.about("closed", points=1, reason="no trial has a score", failed=True).end("failed")
    said = call(capsys, "status").out
    assert "nothing was pruned" not in said
    assert said.splitlines()[-1].startswith("next: fix the workflow and `diel run` it again")


FLOW = """
    hyperparameters:
      x: {type: float, low: -5, high: 5}
    axes:
      trial:
        search: {sampler: random, trials: 4, parallel: 2, seed: 1, minimize: f.loss, parameters: [x]}
      round: {loop: {max: 9, until: "${{ check.error < 0.3 }}"}}
    stages:
      f:
        over: [trial]
        command: echo '{"loss":' ${{ hp.x * hp.x }} '}' > "$DIEL_RESULT"
        outputs: {loss: {value: float}}
      check:
        over: [round]
        command: echo '{"error":' ${{ 1 / (1 + round) }} '}' > "$DIEL_RESULT"
        outputs: {error: {value: float}}
"""


def test_a_run_tells_of_them_without_a_terminal(tmp_path: Path) -> None:
    said = Project(tmp_path).workflow(FLOW).diel("run", "flow.yaml")
    assert said.splitlines()[0] == "flow-1: up to 13 tasks in 2 stages, on site local"
    assert "trial: 4 trials: 4 complete; best trial " in said
    assert "round: over after 4 rounds: `until` held in round 3" in said
    assert "check: 4 of 4 done" in said
    assert "skipped" not in said


def test_a_run_draws_them_below_its_bars(tmp_path: Path) -> None:
    terminal = Terminal(Project(tmp_path).workflow(FLOW), "run", "flow.yaml")
    assert terminal.end() == 0
    assert "trial  random, minimize f.loss · 4 trials: 4 complete" in terminal.text
    assert "check.error  █▃▂▁  … → 0.5 → 0.33333 → 0.25" in terminal.text
    assert "4/4" in terminal.text
