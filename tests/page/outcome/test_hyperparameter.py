"""The panel of hyperparameters: each value with where it came from."""

from __future__ import annotations

from pathlib import Path

from diel.page.panel import Grid
from diel.page.panels import hyperparameters
from diel.page.run_view import RunView
from tests.handmade import Handmade

FLOW = """
hyperparameters:
  rate: {type: float, default: 0.1, low: 0.001, high: 1, log: true, description: Step.}
  kind: {type: choice, choices: [adam, sgd], default: adam}
  x: {type: float, low: 0, high: 1}
axes: {trial: {search: {trials: 2, minimize: f.loss, parameters: [x]}}}
stages: {f: {over: [trial], command: [x], outputs: {loss: {value: float}}}}
"""


def test_each_value_says_where_it_came_from(tmp_path: Path) -> None:
    values = {"rate": 0.5, "kind": "adam"}
    origins = {"rate": "command line", "kind": "default"}
    sources = {"rate": "--set hp.rate=0.5", "kind": "w.yaml:4"}
    run = Handmade(tmp_path, FLOW, hyperparameters=values, origins=origins, sources=sources)
    (table,) = hyperparameters(RunView(run.paths))
    assert isinstance(table, Grid)
    assert [list(row) for row in table.rows] == [
        ["hp.rate", 0.5, "command line: --set hp.rate=0.5", "float, 0.001 to 1, log", 0.1, "Step."],
        ["hp.kind", "adam", "default: w.yaml:4", "adam | sgd", "adam", ""],
        ["hp.x", None, "search: trial", "float, 0 to 1", None, ""],
    ]
