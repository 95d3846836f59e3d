"""The panel of provenance: what would ask for the same run, and the digests of its stages."""

from __future__ import annotations

from pathlib import Path

from diel.page.panel import Facts, Grid, Log
from diel.page.panels import provenance
from diel.page.run_view import RunView
from tests.handmade import Handmade

FLOW = "stages: {sim: {command: [echo, hello]}}"


def test_the_command_that_asks_for_the_same_and_the_text_are_told(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW, settings=("hp.x=1 2",), params_files=("p.yaml",), use_cache=False)
    run.stage("sim", 1, command="0123456789abcdef")
    facts, table, log = provenance(RunView(run.paths))
    assert isinstance(facts, Facts)
    told = dict(facts.facts)
    assert told["asked for"] == "diel run w.yaml --set 'hp.x=1 2' --params p.yaml --no-cache"
    assert told["by"] == "me on here"
    assert isinstance(table, Grid)
    assert list(table.rows[0]) == ["sim", "echo hello", "command 01234567"]
    assert isinstance(log, Log)
    assert FLOW in log.text
