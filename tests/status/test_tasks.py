"""Stages and tasks of a run, by name and by state, and what is said of those that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.errors import UsageError
from diel.journal.snapshot import read_run
from diel.states import TaskState
from diel.status import find_task
from diel.status.tasks import failure_lines, mean_text, tasks_by_state, tasks_text
from tests.written import Written


def test_tasks_are_told_by_state_as_ranges(tmp_path: Path) -> None:
    run = Written(tmp_path, alive=True).done(0).done(1).failed(2).work("start", 3)
    stage = read_run(run.paths).history.stage("a")
    found = {state.label: pairs for state, pairs in tasks_by_state(stage).items()}
    assert found == {"running": [[3, 3]], "done": [[0, 1]], "failed": [[2, 2]]}
    assert tasks_by_state(stage, under_way=False)[TaskState.WAITING] == [[3, 3]]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("aa/1", "did you mean 'a'"),
        ("a/4", "4 tasks, a/0 to a/3"),
        ("a/-1", "STAGE/INDEX"),
        ("a/1.2", "STAGE/INDEX"),
        ("a/" + "9" * 5000, "STAGE/INDEX"),
        ("a", "choose one"),
        ("late/0", "no tasks yet"),
    ],
)
def test_a_task_that_is_not_there_is_refused_with_what_there_is(tmp_path: Path, task: str, said: str) -> None:
    reader = read_run(Written(tmp_path).paths)
    with pytest.raises(UsageError, match=said):
        find_task(reader, task)


def test_a_stage_with_one_task_may_be_named_alone(tmp_path: Path) -> None:
    assert find_task(read_run(Written(tmp_path).paths), "b") == ("b", 0)


def test_ranges_are_cut_and_the_rest_is_counted() -> None:
    pairs = [[0, 46], [48, 48], [50, 95]]
    assert tasks_text(pairs) == "0-46,48,50-95"
    assert tasks_text(pairs, 1) == "0-46 and 47 more"


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (4e-5, "40µs"), (0.012, "12ms"), (0.4, "0.4s"), (185.0, "3m05s")]
)
def test_a_mean_is_shown_in_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert mean_text(seconds) == text


def test_a_failure_is_one_line_and_the_last_word_of_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    record: Any = {
        "event": "failed",
        "stage": "a",
        "tasks": [[3, 3]],
        "class": "app",
        "message": "exit code 1",
    }
    assert failure_lines(record | {"stderr_tail": "so\nthat is why\n"}) == [
        "a/3  app: exit code 1",
        "    that is why",
    ]
    far = "a long reason, " * 30 + "and what to do"
    told = failure_lines(record | {"message": f"{far}\n\n  \nso"})
    assert told == [f"a/3  app: {far}", "so"]
    assert failure_lines(record | {"tolerated": "min_success"}) == [
        "a/3  app: exit code 1 (tolerated by min_success)"
    ]
