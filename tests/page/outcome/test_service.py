"""The panel of services: what each replica counted, as it last said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from diel.streams.services.endpoint import Endpoint, counts_file, endpoint_file, write_endpoint
from diel.ui.page.outcome.service import parts, streams, surrogates
from diel.ui.page.panel import Entry, Grid, Plot, RunView, Text
from diel.ui.page.panels import panel_of
from tests.handmade import Handmade

SAID = """
# TYPE diel_requests_total counter
diel_requests_total{path="/metrics",code="200"} 3
diel_requests_total{path="/predict",code="200"} 98
diel_requests_total{path="/predict",code="503"} 2
diel_request_seconds_bucket{le="0.001"} 90
diel_request_seconds_bucket{le="0.01"} 100
diel_request_seconds_bucket{le="+Inf"} 100
diel_batch_rows_bucket{le="8"} 4
diel_batch_rows_bucket{le="16"} 10
diel_batch_rows_bucket{le="+Inf"} 10
diel_batch_rows_sum 120
diel_batch_rows_count 10
half a line
"""
FLOW = "stages: {serve: {command: [x], service: {ready: {http: /}}}, ask: {command: [x], services: [serve]}}"


def test_requests_times_and_batches_are_shown_of_a_service_that_is_gone(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("serve", 1)
    told: Any = {"url": "http://here:1", "restarts": 0}
    run.work("start", "serve", 0).work("service", "serve", 0, state="ready", **told)
    run.clock += 9
    run.work("service", "serve", 0, state="stopped", **told).end("succeeded")
    write_endpoint(endpoint_file(run.paths, "serve", 0), Endpoint("stopped", "", 1))
    counts_file(run.paths, "serve", 0).write_text(SAID)
    table, chart = parts(RunView(run.paths))
    assert isinstance(table, Grid)
    assert list(table.rows[0]) == ["serve/0", "stopped", 0, 100, 2, 10.0, "at most 10 ms", 12.0, ""]
    assert isinstance(chart, Plot)
    assert chart.spec["data"]["values"] == [{"size": "8", "batches": 4}, {"size": "16", "batches": 6}]


def test_what_an_older_run_did_not_count_is_said(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("serve", 1).end("succeeded")
    write_endpoint(endpoint_file(run.paths, "serve", 0), Endpoint("stopped", "", 1))
    table, note = parts(RunView(run.paths))
    assert isinstance(table, Grid)
    assert list(table.rows[0]) == ["serve/0", "stopped", 0, None, None, None, None, None, ""]
    assert isinstance(note, Text)
    assert "not measured" in note.text


STREAMED = "axes: {i: {range: 2}}\nstages: {sim: {over: [i], command: [x]}}"


def streaming(folder: Path, *, closed: bool) -> Handmade:
    run = Handmade(folder, STREAMED).stage("sim", 2).done("sim", 0).done("sim", 1)
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


ANSWERED = """
axes: {i: {range: 4}}
stages: {sim: {over: [i], command: [x], outputs: {e: {value: float}}}}
"""


def test_the_share_of_answers_is_drawn_along_the_tasks(tmp_path: Path) -> None:
    run = Handmade(tmp_path, ANSWERED)
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
