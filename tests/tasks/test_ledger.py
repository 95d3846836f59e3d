"""What a controller knows of its workers' segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.base.states import RunState
from diel.store.journal.segment import SegmentWriter
from diel.store.timeline import load_timeline
from diel.tasks.ledger import Ledger
from tests.handmade import Handmade
from tests.record import as_record

WHO = {"event": "worker", "host": "n1", "pid": 7, "started": 1.0, "time": 1.0, "block": "1-0", "node": "n1"}


def test_a_worker_that_reports_before_its_segment_was_read_is_known(tmp_path: Path) -> None:
    """What tells the block of a task that is lost later: the first line, which no report brings."""
    paths = RunPaths(tmp_path / "flow-1")
    paths.journal.mkdir(parents=True)
    worker = SegmentWriter(paths.journal / "worker-0001-n1-7.jsonl")
    worker.append(as_record(WHO))
    ledger = Ledger(paths, SegmentWriter(paths.controller_segment(1)))
    ledger.read_until(worker.name, worker.size)
    assert ledger.history.workers[worker.name]["block"] == "1-0"
    assert not ledger.read_news()


def test_a_large_run_leaves_its_timeline_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("diel.tasks.ledger.MANY", "diel.store.timeline.SAVED"):
        monkeypatch.setattr(module, 2)
    run = Handmade(tmp_path, "stages: {s: {kind: analysis, command: [x]}}").stage("s", 3)
    for index in range(3):
        run.done("s", index)
    ledger = Ledger(run.paths, SegmentWriter(run.paths.controller_segment(2)))
    ledger.read_all()
    ledger.close(RunState.SUCCEEDED)
    kept = load_timeline(run.paths)
    assert kept is not None
    assert kept.stages["s"].count == 3
