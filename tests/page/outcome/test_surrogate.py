"""The panel of surrogates: the part of each round that was answered, and the terms of the speedup."""

from __future__ import annotations

from pathlib import Path

from diel.page.outcome.service import surrogates
from diel.page.panel import Grid, Plot, Text
from diel.page.run_view import RunView
from tests.handmade import Handmade

FLOW = """
axes: {i: {range: 4}}
stages: {sim: {over: [i], command: [x], outputs: {e: {value: float}}}}
"""


def test_the_share_of_answers_is_drawn_along_the_tasks(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW)
    taught = {"service": "serve", "training": [], "simulations": []}
    run.write("stage", stage="sim", kind="simulation", total=4, family="f", parts={}, surrogate=taught)
    for index, used in enumerate((False, False, True, True)):
        asked = {"asked": 0.01, "used": used, "uncertainty": 0.1}
        run.work("done", "sim", index, seconds=2.0 - used, key="k", values={"e": 1.0}, surrogate=asked)
    told, chart, table = surrogates(RunView(run.paths))
    assert isinstance(told, Text)
    assert told.text.startswith("sim: 'serve' answered 2 of 4, 2 were simulated; effective speedup ")
    assert isinstance(chart, Plot)
    shares = {(row["at"], row["how"]): row["share"] for row in chart.spec["data"]["values"]}
    assert shares == {
        (0, "answered"): 0.0, (0, "simulated"): 1.0, (1, "answered"): 0.0, (1, "simulated"): 1.0,
        (2, "answered"): 1.0, (2, "simulated"): 0.0, (3, "answered"): 1.0, (3, "simulated"): 0.0,
    }  # fmt: skip
    assert isinstance(table, Grid)
    assert table.columns == ["stage", "N_lookup", "N_train", "T_sim", "T_lookup", "T_learn"]
