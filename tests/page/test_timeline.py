"""The panel of the timeline: what its charts are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.ui.page import head, timeline
from diel.ui.page.panel import Facts, Plot, RunView
from diel.ui.page.plot import stage_colour
from tests.handmade import GONE, Handmade, Segment

SITE = '{"name": "s", "scheduler": "local", "pools": {"local": {"cores": 4}}}'
TEXT = "stages:\n  a: {command: [x], resources: {ranks: 2}}\n"


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    made = Handmade(tmp_path, TEXT)
    made.paths.site.write_text(SITE, encoding="utf-8")
    return made.stage("a", 3, module="m")


def plots(parts: Any) -> list[Plot]:
    return [part for part in parts if isinstance(part, Plot)]


def test_each_attempt_is_a_bar_and_a_failure_a_cross(run: Handmade) -> None:
    run.done("a", 0).failed("a", 1).end("failed")
    (plot,) = plots(timeline.parts(RunView(run.paths)))
    first, second = plot.spec["data"]["values"]
    assert (first["task"], first["state"], first["took"]) == ("a/0", "done", "2.0s")
    assert (second["task"], second["state"]) == ("a/1", "failed")
    assert first["to"] - first["from"] == pytest.approx(2.0)
    bars, crosses = plot.spec["layer"]
    assert (bars["mark"]["type"], crosses["mark"]["shape"]) == ("bar", "cross")
    assert bars["encoding"]["x"]["scale"]["domain"][0] == 0
    assert "failed" in plot.caption
    assert [row[0] for row in plot.table.rows] == ["a/0", "a/1"]


def test_a_cancelled_attempt_is_no_failure(run: Handmade) -> None:
    run.done("a", 0).failed("a", 1, "cancelled", **{"class": "cancelled"}).end("cancelled")
    (plot,) = plots(timeline.parts(RunView(run.paths)))
    assert [row[-1] for row in plot.table.rows] == ["done", "cancelled"]
    assert "failed" not in plot.caption


def test_stages_beyond_the_palette_have_colours_of_their_own() -> None:
    names = [f"s{place}" for place in range(24)]
    assert len(set(stage_colour(names)["scale"]["range"])) == 24


def test_thousands_of_attempts_are_shown_as_shares_of_time(
    run: Handmade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MOST", 2)
    run.done("a", 0).done("a", 1).failed("a", 2).end("failed")
    (plot,) = plots(timeline.parts(RunView(run.paths)))
    values = plot.spec["data"]["values"]
    assert {one["stage"] for one in values} == {"a"}
    assert all(0 <= one["busy"] <= 1 for one in values)
    assert sum(one["failed"] for one in values) == 1
    assert len(values) <= timeline.BINS
    assert plot.table.rows[0][1:3] == [2, 1]


def test_blocks_stand_above_with_their_time_in_the_queue_and_their_end(run: Handmade) -> None:
    begin = run.clock
    shape = {"pool": "local", "nodes": 0, "cores": 2}
    block = {"block": "b-1", "job": "77", "epoch": 1, "pool": "local", "shape": "s", "needs": shape}
    block |= {"reason": "", "nodes": "n1", "walltime": 60.0, "stderr_tail": ""}
    run.write("block", **block, state="completed", asked=begin, began=begin + 5, ended=begin + 9, ending=True)
    run.done("a", 0).end("succeeded")
    plot = plots(timeline.parts(RunView(run.paths)))[0]
    queued, running = plot.spec["data"]["values"]
    assert (queued["phase"], running["phase"], running["end"]) == ("queued", "running", "given back")
    assert queued["to"] - queued["from"] == pytest.approx(5)
    assert plot.table.rows == [["b-1 local", "77", "n1", "5.0s", "4.0s", "given back"]]


def test_cores_in_use_are_those_of_the_tasks_and_held_those_of_the_machine(run: Handmade) -> None:
    run.done("a", 0).done("a", 1).end("succeeded")
    facts, plot = list(timeline.cores(RunView(run.paths)))
    assert isinstance(facts, Facts)
    assert isinstance(plot, Plot)
    assert dict(facts.facts)["cores held"] == "4"
    area, held = plot.spec["layer"]
    assert {one["held"] for one in held["data"]["values"]} == {4}
    used = next(row for row in plot.table.rows if row[0] == "a")
    assert used[3] == pytest.approx(2 * 4.0 / 3600, rel=0.02)
    assert area["encoding"]["y"]["stack"] == "zero"


def resumed(run: Handmade) -> Handmade:
    """Its controller and workers were killed 6 s after it began, while `a/1` ran; resumed an hour later."""
    run.done("a", 0).work("start", "a", 1)
    run.clock += 3600
    run.controller = Segment(run.paths.controller_segment(2))
    run.worker = Segment(run.paths.journal / "worker-0002-node-8-abc.jsonl")
    run.write("controller", epoch=2, **GONE, idle=3600.0)
    run.lease(2, **GONE)
    return run.done("a", 1).end("cancelled")


def test_between_a_kill_and_a_resume_nothing_is_held(run: Handmade) -> None:
    seen = RunView(resumed(run).paths)
    figures = next(part for part in head.parts(seen) if isinstance(part, Facts))
    assert dict(figures.facts)["node-hours"] == f"{(5 + 3) / 3600:.3g}"
    facts, plot = list(timeline.cores(seen))
    assert isinstance(facts, Facts)
    assert isinstance(plot, Plot)
    steps = plot.spec["layer"][1]["data"]["values"]
    assert [one["held"] for one in steps] == [4, 0, 4, 4]
    assert [row[3] for row in plot.table.rows[:2]] == [round(4 * s / 3600, 4) for s in (5, 3)]


def test_an_attempt_that_was_lost_with_its_controller_ends_with_it(run: Handmade) -> None:
    (plot,) = plots(timeline.parts(RunView(resumed(run).paths)))
    bars = {(one["task"], one["state"]): one["took"] for one in plot.spec["data"]["values"]}
    assert bars == {("a/0", "done"): "2.0s", ("a/1", "done"): "2.0s", ("a/1", "lost"): "1.0s"}


def test_of_many_stages_those_with_the_most_cores_are_drawn_and_the_others_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MOST_STAGES", 2)
    made = Handmade(tmp_path, "stages: {a: {command: [x]}, b: {command: [x]}, c: {command: [x]}}")
    made.paths.site.write_text(SITE, encoding="utf-8")
    for name, seconds in (("a", 1.0), ("b", 9.0), ("c", 2.0)):
        made.clock += 20
        made.stage(name, 1).work("done", name, 0, seconds=seconds, key="k", parts=["p", "i"])
    (plot,) = plots(timeline.cores(RunView(made.end("succeeded").paths)))
    hours = {row[0]: row[-1] for row in plot.table.rows if row[1] is None}
    assert hours == {"b": pytest.approx(9 / 3600, rel=0.1), "other stages": pytest.approx(3 / 3600, rel=0.1)}
