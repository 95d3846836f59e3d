"""The panel of streams: items, their rate, and how far each reader is behind."""

from __future__ import annotations

import json
from pathlib import Path

from diel.page.outcome.service import streams
from diel.page.panel import Entry, Grid, Text
from diel.page.panels import panel_of
from diel.page.run_view import RunView
from tests.handmade import Handmade

FLOW = "axes: {i: {range: 2}}\nstages: {sim: {over: [i], command: [x]}}"


def streaming(folder: Path, *, closed: bool) -> Handmade:
    run = Handmade(folder, FLOW).stage("sim", 2).done("sim", 0).done("sim", 1)
    readers = {"delivered": 60, "committed": 50, "waiting": 20, "settled": False}
    facts = {"items": 80, "bytes": 2048, "closed": closed, "broken": None, "buffer": 20}
    more = {"producers": {"sim/0": 40, "sim/1": 40}, "groups": {"learn.samples/0": readers}}
    run.paths.streams.mkdir()
    (run.paths.streams / "facts.json").write_text(json.dumps({"sim.samples": {**facts, **more}}))
    return run


def test_the_rate_is_that_of_the_time_in_which_its_producers_ran(tmp_path: Path) -> None:
    channels, readers = streams(RunView(streaming(tmp_path, closed=True).paths))
    assert isinstance(channels, Grid)
    assert [list(row) for row in channels.rows] == [["sim.samples", "complete", 80, "2.0 KiB", 20.0, 20, 2]]
    assert isinstance(readers, Grid)
    assert [list(row) for row in readers.rows] == [["sim.samples", "learn.samples/0", 60, 50, 20, "reads"]]


def test_of_an_open_stream_no_rate_is_made_up(tmp_path: Path) -> None:
    channels, _, note = streams(RunView(streaming(tmp_path, closed=False).paths))
    assert isinstance(channels, Grid)
    assert channels.rows[0][4] is None
    assert note == Text("A rate is measured once all producers of a stream have ended.", "note")


def test_facts_that_are_damaged_are_said_to_be(tmp_path: Path) -> None:
    run = streaming(tmp_path, closed=True)
    (run.paths.streams / "facts.json").write_text('{"sim.samples": {"items": "many"}}')
    panel = panel_of(Entry("streams", "Streams", streams), RunView(run.paths))
    assert panel is not None
    (why,) = panel.parts
    assert isinstance(why, Text)
    assert why.tone == "bad"
    assert "not as diel writes them" in why.text
