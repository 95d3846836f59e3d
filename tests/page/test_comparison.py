"""The page of two runs beside each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from diel.observe.comparison.trend import read_trend
from diel.ui.page.comparison import comparison_page, trend_page
from diel.ui.page.plot import STATES
from tests.cli.call import call
from tests.comparison.test_comparison import compared, sweep

pytest.importorskip("vl_convert", reason="diel[report] is not installed")


def charts(page: str) -> dict[str, Any]:
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    found: dict[str, Any] = json.loads(data[1])["charts"]
    return found


def test_a_page_shows_ratios_with_their_intervals_and_what_differs(tmp_path: Path) -> None:
    one = sweep(tmp_path, "w-1", range(12), hyperparameters={"lr": 0.5})
    other = sweep(tmp_path, "w-2", range(12), 1.5, seed=2, hyperparameters={"lr": 0.25})
    found = compared(one, other)
    page = comparison_page(found)
    (chart,) = charts(page).values()
    (value,) = chart["data"]["values"]
    interval = found.times[0].interval
    assert interval is not None
    assert (value["stage"], value["verdict"]) == ("sim", "slower")
    assert (value["low"], value["high"]) == interval
    assert chart["layer"][0]["encoding"]["x"] == {"datum": 1}
    assert re.search(r"lr</th><td[^>]*>0.5</td><td[^>]*>0.25</td>", page)
    assert "All are the same." in page


def test_a_page_says_what_could_not_be_compared(tmp_path: Path) -> None:
    one, other = sweep(tmp_path, "w-1", range(1)), sweep(tmp_path, "w-2", range(1))
    other.paths.workflow.unlink()
    assert "w-2: its workflow cannot be read" in comparison_page(compared(one, other))


def test_a_page_is_a_file_and_other_formats_are_refused(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(workspace, "w-1", range(2))
    assert call(capsys, "compare", "w-1", "w-1", "-o", "c.html").out == "c.html: w-1 and w-1\n"
    assert Path("c.html").read_text().startswith("<!doctype html>")
    assert call(capsys, "compare", "w-1", "w-1", "-o", "c.pdf").code == 2
    assert call(capsys, "trend", "w", "-o", "t.html").out == "t.html: 1 run of w\n"
    assert call(capsys, "trend", "w", "-o", "t.pdf").code == 2


pytest.importorskip("vl_convert", reason="diel[report] is not installed")


def test_each_figure_is_a_line_over_time_and_a_last_value_beyond_the_scatter_is_marked(
    tmp_path: Path,
) -> None:
    for number, factor in enumerate((1, 1.01, 0.99, 1, 1.02, 1.5), 1):
        sweep(tmp_path, f"w-{number}", range(1, 2), factor).end("succeeded")
    trend = read_trend(tmp_path / "runs", "w")
    page = trend_page(trend)
    _, chart = charts(page).values()
    assert [one["value"] for one in chart["data"]["values"]] == [1, 1.01, 0.99, 1, 1.02, 1.5]
    assert chart["data"]["values"][0]["began"] == int(trend.runs[0].began * 1000)
    assert chart["encoding"]["y"]["axis"] == {"format": ".6~g"}  # else 7e-16 stands at 0
    assert chart["mark"]["point"]["color"] == STATES["failed"]
    assert "sim.e (x=1): the last value is beyond the scatter" in page
