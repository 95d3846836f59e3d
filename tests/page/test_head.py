"""The head of a page: how long a run still takes, and what its machines needed."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from diel.ui.page.head import left_text, parts
from diel.ui.page.panel import Facts, RunView
from tests.handmade import Handmade

TEXT = """
axes: {n: {range: 100}}
stages:
  a: {over: [n], command: [x], outputs: {v: {value: float}}}
  b: {over: [n], command: "x ${{ a.v }}"}
  c: {command: [x], after: [b]}
"""


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    made = Handmade(tmp_path, TEXT, alive=True)
    for name, total in (("a", 100), ("b", 100), ("c", 1)):
        made.stage(name, total)
    return made


def told(run: Handmade) -> tuple[float, str]:
    found = re.fullmatch(
        r"Time left: (?:about )?(?:(\d+)m)?(\d+)s.*?, by the times so far, (.*)\.",
        str(left_text(RunView(run.paths))),
    )
    assert found is not None
    return 60 * float(found[1] or 0) + float(found[2]), found[3]


def test_time_left_is_that_of_the_tasks_left_less_what_has_passed(run: Handmade) -> None:
    for index in range(90):
        run.done("a", index, v=1.0).done("b", index)
    run.write("queued", stage="a", tasks=[90], attempt=1)
    run.clock = time.time() - 2
    least, rest = told(run.work("start", "a", 90))
    assert 38 <= least <= 39, "20 tasks of 2 s, one of which has run for a second"
    assert rest == "with 1 task at a time, without c, of which nothing has ended yet"


def test_time_left_is_not_less_than_that_of_stages_that_wait_for_each_other(run: Handmade) -> None:
    for index in range(80):
        run.done("a", index, v=1.0)
    for index in range(99):
        run.work("done", "b", index, seconds=100.0, key="k", parts=["p", "i"])
    run.write("queued", stage="a", tasks=[*range(80, 90)], attempt=1)
    for index in range(80, 90):
        run.work("start", "a", index)
    least, rest = told(run)
    assert least == 102, "a task of `a`, then one of `b`; all together are 14 s for ten at a time"
    assert rest.startswith("with 10 tasks")


def test_where_times_hardly_scatter_the_time_left_is_one_number(tmp_path: Path) -> None:
    made = Handmade(
        tmp_path, "axes: {n: {range: 100}}\nstages:\n  a: {over: [n], command: [x]}\n", alive=True
    )
    made.stage("a", 100)
    for index in range(90):
        made.work("done", "a", index, seconds=600.0, key="k", parts=["p", "i"])
    made.write("queued", stage="a", tasks=[90], attempt=1)
    made.clock = time.time()
    told = left_text(RunView(made.work("start", "a", 90).paths))
    assert re.match(r"Time left: about \S+, by the times so far, with 1 task at a time\.", str(told))


def test_the_energy_of_the_machines_is_told_or_that_it_was_not_measured(run: Handmade) -> None:
    def energy() -> str:
        found = [part.facts for part in parts(RunView(run.paths)) if isinstance(part, Facts)]
        return dict(found[-1])["energy"]

    assert energy() == "not measured"
    run.paths.energy.mkdir()
    (run.paths.energy / "c.json").write_text('{"joules": {"RAPL": 5000.0}}')
    assert energy() == "5 kJ of whole machines (RAPL 5 kJ)"
