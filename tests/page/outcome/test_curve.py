"""Curves of what tasks reported, each metric with its own chart."""

from __future__ import annotations

import json
from pathlib import Path

from diel.page.outcome.search import STEPS, reported
from diel.page.panel import Alternatives
from diel.page.run_view import RunView
from tests.handmade import Handmade

FLOW = "axes: {i: {range: 3}}\nstages: {train: {over: [i], command: [x]}}"


def test_each_metric_is_drawn_by_step_and_one_that_only_counts_comes_last(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("train", 3)
    for index in (0, 2):
        folder = run.paths.task_dir("train", index, 1)
        folder.mkdir(parents=True)
        lines = [{"epoch": n, "items": 10 * n, "loss": 1 / (1 + n + index)} for n in range(500)]
        (folder / ".metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (choice,) = reported(RunView(run.paths))
    assert isinstance(choice, Alternatives)
    assert [name for name, _ in choice.charts] == ["loss", "items"]
    chart = choice.charts[0][1]
    rows = chart.spec["data"]["values"]
    assert {row["who"] for row in rows} == {"train/0 (i=0)", "train/2 (i=2)"}
    assert len(rows) == 2 * STEPS
    assert [row["step"] for row in rows[:STEPS]][::99] == [0, 499]


def test_tasks_that_reported_nothing_have_no_chart(tmp_path: Path) -> None:
    assert list(reported(RunView(Handmade(tmp_path, FLOW).stage("train", 3).paths))) == []
