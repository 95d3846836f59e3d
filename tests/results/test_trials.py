"""The trials of a search as rows, at any moment of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from diel.errors import UsageError
from diel.results import RunReader, list_trials
from diel.table import render
from tests.searched import MATERIALS, Searched, loop, search


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
