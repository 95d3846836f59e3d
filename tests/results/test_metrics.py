"""What tasks reported, as rows: with their points, of failed tasks and earlier attempts too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.base.values import clock
from diel.observe.results import RunReader, list_metrics, list_trials
from diel.observe.results.attempts import curves
from diel.store.table import csv_text, render
from tests.handmade import Handmade
from tests.searched import MATERIALS, Searched, loop, search

FLOW = """
axes: {depth: {values: [2.5, 4.0]}, seed: {range: 2}}
stages:
  train: {over: [depth, seed], command: [x], outputs: {loss: {value: float}}}
"""


def report(run: Handmade, index: int, *lines: str, attempt: int = 1) -> None:
    folder = run.paths.task_dir("train", index, attempt)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    """One task that did it at its second attempt, one that failed, two that reported nothing."""
    run = Handmade(tmp_path, FLOW).stage("train", 4).done("train", 1, loss=1.0).failed("train", 2)
    report(run, 1, '{"step": 0, "loss": 9}', '{"step": 1, "loss": 8}')
    report(run, 1, '{"step": 1, "loss": 4.0, "time": 5}', attempt=2)
    report(run, 2, '{"loss": 7, "phase": "warm"}', '{"loss": 1')
    return run


def test_a_row_is_a_value_with_its_task_point_attempt_and_step(run: Handmade) -> None:
    found = list_metrics(RunReader(run.paths), "train")
    assert found.columns == ("task", "depth", "seed", "attempt", "metric", "step", "value", "time")
    assert found.rows == [
        ("train/1", 2.5, 1, 1, "loss", 0, 9, None),
        ("train/1", 2.5, 1, 1, "loss", 1, 8, None),
        ("train/1", 2.5, 1, 2, "loss", 1, 4.0, 5.0),
        ("train/2", 4.0, 0, 1, "loss", 0, 7, None),
        ("train/2", 4.0, 0, 1, "phase", 0, "warm", None),
    ]
    assert found.missing == {"train": "2 of 4 tasks of 'train' have reported nothing"}


def test_people_see_when_it_was_said_as_a_date_and_programs_as_seconds(run: Handmade) -> None:
    report(run, 3, '{"loss": 1, "time": 1795739111.5}')
    found = list_metrics(RunReader(run.paths), "train", at={"seed": 1, "depth": 4.0})
    assert list(render(found))[-1].endswith(f"  {clock(1795739111.5)}")
    assert json.dumps(found.rows[0][-1]) == "1795739111.5"
    assert csv_text(found).endswith(",1795739111.5\n")


def test_a_point_chooses_tasks_and_a_limit_rows(run: Handmade) -> None:
    at_depth = list_metrics(RunReader(run.paths), "train", limit=1, at={"depth": 4.0})
    assert [row[0] for row in at_depth.rows] == ["train/2"]
    assert at_depth.missing == {"train": "1 of 2 tasks of 'train' have reported nothing"}


def test_a_curve_has_the_later_attempts_value_where_both_have_one(run: Handmade) -> None:
    found = curves(RunReader(run.paths), "train", range(4))
    assert found == {1: {"loss": {0: (9.0, None), 1: (4.0, 5.0)}}, 2: {"loss": {0: (7.0, None)}}}


def test_what_is_from_the_cache_is_read_where_it_was_made_in_all_attempts(
    run: Handmade, tmp_path: Path
) -> None:
    again = Handmade(tmp_path, FLOW, "w-2").stage("train", 4)
    again.write(
        "cached",
        stage="train",
        index=3,
        key="0" * 32,
        seconds=1.0,
        values={"loss": 1},
        run="w-1",
        origin=[1, 2],
    )
    assert curves(RunReader(again.paths), "train", range(4)) == {3: {"loss": {0: (9.0, None), 1: (4.0, 5.0)}}}


def test_a_stage_that_is_not_there_is_told_with_the_nearest(run: Handmade) -> None:
    with pytest.raises(UsageError, match="no stage 'trian'; metrics are a stage's; did you mean 'train'"):
        list_metrics(RunReader(run.paths), "trian")


def rows(run: Searched, *names: str) -> list[tuple[object, ...]]:
    found = list_trials(RunReader(run.paths), "trial")
    return [tuple(row[name] for name in names) for row in found.mappings()]


def test_every_trial_has_a_row_with_its_state_score_and_last_step(tmp_path: Path) -> None:
    run = search(tmp_path, alive=True)
    assert rows(run, "trial", "state", "f.loss", "hp.x", "last_step", "last_value") == [
        (0, "complete", 4.0, 2.0, 0, 40.0),
        (1, "complete", 0.25, 0.5, 0, 2.5),
        (2, "complete", 9.0, -3.0, 0, 90.0),
        (3, "pruned", None, 4.5, 0, 200.0),
        (4, "running", None, 1.5, None, None),
    ]
    assert rows(run, "message")[3] == ("f.loss was 200 at step 0",)


def test_a_trial_under_way_waits_once_the_controller_is_gone(tmp_path: Path) -> None:
    assert rows(search(tmp_path), "state")[-1] == ("waiting",)


def test_without_a_pruner_the_last_step_is_that_of_the_tasks_metrics(tmp_path: Path) -> None:
    run = search(tmp_path)
    folder = run.paths.task_dir("f", 4, 1)
    folder.mkdir(parents=True)
    (folder / ".metrics.jsonl").write_text('{"loss": 8.5, "step": 10}\n{"loss": 7.5, "step": 20}\n')
    assert rows(run, "last_step", "last_value")[-1] == (20, 7.5)


def test_searches_at_several_points_have_their_parameters_and_every_objective(tmp_path: Path) -> None:
    run = Searched(tmp_path, MATERIALS)
    for place, material in enumerate(("Si", "Ge")):
        run.about("begin", place, seed=1, at={"material": material}).trial(0, 1.0, place)
        run.score(0, 2.0, 3.0 + place, context=(place,))
    names = ("material", "trial", "f.loss", "f.time", "hp.x")
    assert rows(run, *names) == [("Si", 0, 2.0, 3.0, 1.0), ("Ge", 0, 2.0, 4.0, 1.0)]


def test_which_search_is_meant_is_told_where_it_is_not_said(tmp_path: Path) -> None:
    run = RunReader(search(tmp_path).paths)
    assert list_trials(run).columns[0] == "trial"
    with pytest.raises(UsageError, match="no search 'trail'; did you mean 'trial'"):
        list_trials(run, "trail")


def test_people_see_when_a_trial_began_as_a_date_and_programs_as_a_number(tmp_path: Path) -> None:
    found = list_trials(RunReader(search(tmp_path).paths), "trial", 1)
    assert re.search(r" 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d ", list(render(found))[-1])
    assert json.loads(json.dumps(next(found.mappings())["began"])) > 1e9


def test_a_run_without_a_search_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no axis of its workflow is a search"):
        list_trials(RunReader(loop(tmp_path, over=True).paths))
