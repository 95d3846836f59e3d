"""The panel of loops: `until` by round, beside the number that it waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.page.outcome.search import loops
from diel.page.panel import Plot, Text
from diel.page.run_view import RunView
from tests.searched import LOOP, Searched, loop


@pytest.mark.parametrize(
    ("over", "told"),
    [
        (True, "round: over after 3 rounds: `until` held in round 2 (loop until check.error < 0.1)."),
        (False, "round: round 3 of at most 100, 3 done (loop until check.error < 0.1)."),
    ],
)
def test_each_round_is_drawn_with_the_bound_whether_or_not_it_is_over(
    tmp_path: Path, over: bool, told: str
) -> None:
    text, chart = loops(RunView(loop(tmp_path, over=over).paths))
    assert text == Text(told)
    assert isinstance(chart, Plot)
    assert [(row["round"], row["y"], row["holds"]) for row in chart.spec["data"]["values"]] == [
        (0, 0.8, "no"),
        (1, 0.4, "no"),
        (2, 0.05 if over else 0.2, "yes" if over else "no"),
    ]
    assert chart.spec["layer"][2]["data"] == {"values": [{"y": 0.1, "name": "check.error < 0.1"}]}
    assert "color" not in chart.spec["layer"][3]["mark"]  # the page's ink, light or dark


def test_the_rounds_of_each_point_have_a_line_and_a_colour_of_their_own(tmp_path: Path) -> None:
    text = LOOP.replace("axes:", "axes:\n  fold: {range: 2}").replace("over: [", "over: [fold, ")
    run = Searched(tmp_path, text)
    for fold in range(2):
        run.about("begin", fold, at={"fold": fold}, seed=0)
        for number in range(2):
            error = 1.0 / (1 + fold + number)
            run.about("round", fold, number=number, holds=False, values={"check.error": error})
    *_, chart = loops(RunView(run.paths))
    assert isinstance(chart, Plot)
    lines, points = (layer["encoding"] for layer in chart.spec["layer"][:2])
    assert lines["color"] == points["color"]
    assert points["color"]["field"] == "at"
    assert points["shape"]["scale"] == {"domain": ["no", "yes"], "range": ["circle", "diamond"]}


def test_a_loop_that_has_not_begun_is_told_and_not_drawn(tmp_path: Path) -> None:
    (text,) = loops(RunView(Searched(tmp_path, LOOP).paths))
    told = "round: round 0 of at most 100, 0 done (waiting) (loop until check.error < 0.1)."
    assert text == Text(told)
