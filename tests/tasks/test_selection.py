"""Edges that pick: whom the end of a task wakes."""

from __future__ import annotations

from pathlib import Path

from diel.tasks.points.adaptive import Adaptive
from tests.controller.bench import Bench

FLOW = """
    hyperparameters:
      x: {type: float, low: 0, high: 1}
    axes:
      i: {range: 1000}
      trial: {search: {sampler: random, trials: 3, seed: 1, minimize: judge.y, parameters: [x]}}
    stages:
      judge: {over: [trial], command: [./judge, "${{ hp.x }}"], outputs: {y: {value: float}}}
      use: {over: [i], command: [./use, "${{ inputs.y }}"], inputs: {y: {from: judge.y, at: {trial: best}}}}
"""


def test_what_reads_the_best_is_looked_at_once_the_search_is_over_and_not_at_each_trial(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, FLOW)
    (link,) = bench.stages.into["use"]
    (axis,) = bench.stages.runs["judge"].adaptive
    assert isinstance(axis, Adaptive)
    for trial in range(3):
        assert list(link.woken_by(trial)) == []
        assert not axis.is_over({"trial": trial})
        bench.done("judge", trial, y=float(trial))
    assert axis.is_over({"trial": 0})
    assert len(list(link.woken_by(0))) == 1000
    assert bench.resolve("use", 7).command == ("./use", "0.0")
