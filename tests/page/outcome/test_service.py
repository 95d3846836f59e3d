"""The panel of services: what each replica counted, as it last said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.page.outcome.service import parts
from diel.page.panel import Grid, Plot, Text
from diel.page.run_view import RunView
from diel.services.endpoint import Endpoint, counts_file, endpoint_file, write_endpoint
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
