"""Which tasks' results are drawn: of many an even choice, so that grids stay grids."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.observe.results import RunReader
from diel.tasks.points.domain import Domain, Factor
from diel.ui.page import panel
from diel.ui.page.outcome.result import sample_of
from diel.ui.page.panel import choose, records_of
from tests.handmade import Handmade


def test_a_grid_stays_one_with_fewer_points_along_its_longest_axes() -> None:
    domain = Domain(("x", "y"), (Factor(("x",), 1000), Factor(("y",), 4)))
    wanted, rule = choose(domain, 400)
    assert len(wanted) == 400
    assert {index % 4 for index in wanted} == {0, 1, 2, 3}
    assert {index // 4 % 10 for index in wanted} == {0}
    assert rule == "drawn is every 10th point of x: 400 of 4,000 tasks"


def test_a_million_tasks_are_chosen_from_without_listing_them() -> None:
    domain = Domain(("x", "y"), (Factor(("x",), 1000), Factor(("y",), 1000)))
    wanted, rule = choose(domain, 2000)
    assert len(wanted) <= 2000
    assert rule.startswith("drawn is every 23rd point of x, every 23rd point of y: ")


def test_where_few_tasks_have_results_these_are_chosen() -> None:
    domain = Domain(("x",), (Factor(("x",), 100),))
    assert choose(domain, 5, [*range(10)]) == ([0, 2, 4, 6, 8], "every 2nd of 10 results is drawn")


def test_of_a_long_journal_only_the_chosen_lines_are_read_once_for_all_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = "{over: [x], command: [x]}"
    run = Handmade(tmp_path, f"axes: {{x: {{linspace: [0, 1, 8]}}}}\nstages: {{s: {stages}, few: {stages}}}")
    run.stage("s", 8).stage("few", 8).done("few", 5, y=5.0).done("few", 6, y=6.0)
    for index in range(8):
        run.done("s", index, y=float(index))
    monkeypatch.setattr(panel, "WHOLE", 4)
    monkeypatch.setattr(RunReader, "results", None)
    recorded = RunReader(run.paths)
    found = {name: sample_of(recorded, name, *drawn) for name, drawn in records_of(recorded, 4).items()}
    assert found["s"] is not None
    assert [row["y0"] for row in found["s"].rows] == [0.0, 2.0, 4.0, 6.0]
    assert found["s"].rule == "drawn is every 2nd point of x: 4 of 8 tasks"
    assert found["few"] is not None
    assert [row["task"] for row in found["few"].rows] == ["few/5", "few/6"]
