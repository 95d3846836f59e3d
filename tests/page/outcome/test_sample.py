"""Which results of a stage are drawn: of many an even choice, so that grids stay grids."""

from __future__ import annotations

from pathlib import Path

from diel.axes.domain import Domain, Factor
from diel.page.outcome import sample
from diel.page.outcome.sample import choose, sample_of
from diel.results import Recorded
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


def test_of_a_long_journal_only_the_chosen_lines_are_read(tmp_path: Path, monkeypatch: object) -> None:
    run = Handmade(tmp_path, "axes: {x: {linspace: [0, 1, 8]}}\nstages: {s: {over: [x], command: [x]}}")
    run.stage("s", 8)
    for index in range(8):
        run.done("s", index, y=float(index))
    before = sample.WHOLE
    try:
        sample.WHOLE = 4
        found = sample_of(Recorded(run.paths), "s", 4)
    finally:
        sample.WHOLE = before
    assert found is not None
    assert [row["y0"] for row in found.rows] == [0.0, 2.0, 4.0, 6.0]
    assert found.rule == "drawn is every 2nd point of x: 4 of 8 tasks"
