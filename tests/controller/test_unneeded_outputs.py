"""`diel clean --artifacts`: what tasks handed to each other and nobody needs any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.controller.unneeded_outputs import drop, find_unneeded
from diel.observe.results import RunReader
from tests.handmade import Handmade

FLOW = """
axes: {n: {range: 2}}
stages:
  make: {over: [n], command: [x], outputs: {big: big.txt, log: log.txt}}
  use: {over: [n], command: [cat, "${{ make.big }}"], outputs: {end: end.txt}}
"""


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    """The first task's file was read; the task that reads the second one failed."""
    made = Handmade(tmp_path, FLOW).stage("make", 2).stage("use", 2)
    for index in range(2):
        made.done("make", index, {"big": "x" * (10 + index), "log": "kept"})
    return made.done("use", 0, {"end": "result"}).failed("use", 1)


def files(run: Handmade) -> list[str]:
    return sorted(str(path.relative_to(run.paths.tasks)) for path in run.paths.tasks.glob("*/*/*.txt"))


def test_only_what_was_handed_on_and_read_is_unneeded(run: Handmade) -> None:
    (one,) = find_unneeded(RunReader(run.paths))
    assert (one.place, list(one.records), one.size, one.files) == (("make", "big"), [0], 10, 1)


def test_it_is_deleted_once_and_that_is_written_down(run: Handmade) -> None:
    before = files(run)
    recorded = RunReader(run.paths)
    assert drop(run.paths, recorded, find_unneeded(recorded)) == (1, 10)
    assert set(before) - set(files(run)) == {"make/0/big.txt"}
    again = RunReader(run.paths)
    assert again.history.stage("make").dropped == {"big": {0}}
    assert find_unneeded(again) == []
