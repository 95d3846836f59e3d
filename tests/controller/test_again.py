"""What a resumed run makes again: results that are outdated, and those whose files are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.controller.invalidation import find_missing, find_outdated, write_again
from diel.results import RunReader
from tests.handmade import Handmade

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
    found, made = find_missing(view(files))
    assert found == {"made": {1: 1}}
    write_again(files.paths, 1, [found], remade=made)
    assert find_missing(view(files)) == ({}, {}), "it waits to be made"


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
