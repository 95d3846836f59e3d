"""Requests to a running run: files that it reads when it looks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.store.project.requests import Cancel, ask_cancel, changed, read_cancels, set_aside


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "w-1")
    found.requests.mkdir(parents=True)
    return found


def test_requests_are_read_in_the_order_in_which_they_were_made(paths: RunPaths) -> None:
    for targets in (["b"], ["a", "c/3"], []):
        ask_cancel(paths, targets)
    assert read_cancels(paths) == [
        Cancel(frozenset({"b"})),
        Cancel(frozenset({"a", "c/3"})),
        Cancel(frozenset()),
    ]


def test_requests_to_an_earlier_controller_are_over(paths: RunPaths) -> None:
    ask_cancel(paths, ["old"])
    set_aside(paths)
    ask_cancel(paths, ["new"])
    assert read_cancels(paths) == [Cancel(frozenset({"new"}))]


def test_a_run_without_requests_has_none(paths: RunPaths) -> None:
    assert read_cancels(paths) == []
    paths.requests.rmdir()
    assert read_cancels(paths) == []
    assert changed(paths) == 0.0


def test_files_that_nobody_asked_with_are_passed_over(paths: RunPaths) -> None:
    ask_cancel(paths, ["a"])
    now = f"{time.time_ns():x}"
    for name, text in {
        "cancel-me.json": "{}",
        f"cancel-{now}-1.json": "{",
        f"cancel-{now}-2.json": "[]",
        f"cancel-{now}-3.json": "{}",
        ".cancel-1-1.json": "{}",
        "notes.txt": "",
    }.items():
        (paths.requests / name).write_text(text)
    assert read_cancels(paths) == [Cancel(frozenset({"a"}))]


def test_a_new_request_shows_without_reading_any(paths: RunPaths) -> None:
    os.utime(paths.requests, (1, 1))
    before = changed(paths)
    ask_cancel(paths)
    assert changed(paths) > before


@pytest.mark.parametrize(
    ("targets", "covered"),
    [
        ((), {"a/0", "a/1", "b/0", "ab/1"}),
        (("a",), {"a/0", "a/1"}),
        (("a/1", "b"), {"a/1", "b/0"}),
        (("c",), set()),
    ],
)
def test_a_request_covers_its_stages_and_tasks_alone(targets: tuple[str, ...], covered: set[str]) -> None:
    cancel = Cancel(targets)
    tasks = [("a", 0), ("a", 1), ("b", 0), ("ab", 1)]
    assert {f"{stage}/{index}" for stage, index in tasks if cancel.covers(stage, index)} == covered
    assert cancel.everything == (not targets)
