"""The page of a workflow's runs by date."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.comparison.trend import read_trend
from diel.page.colours import STATES
from diel.page.trend import trend_page
from tests.comparison.test_comparison import sweep
from tests.page.test_comparison import charts

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
