"""A node without a controller: it tells what dead workers left, and ends once nothing runs."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from diel.executors.node import _aged
from diel.executors.orphans import ORPHAN, Orphans
from diel.journal.segment import Record, SegmentWriter, read_segment, segments, worker_segment_name
from diel.paths import RunPaths
from diel.worker.block import own_node


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "w-1")
    paths.journal.mkdir(parents=True)
    paths.lease.write_text("{}")
    SegmentWriter(paths.controller_segment(1)).close()
    return paths


@pytest.fixture
def orphans(paths: RunPaths) -> Orphans:
    return Orphans({"DIEL_RUN_DIR": str(paths.root), "DIEL_BLOCK": "1-0"})


def worker(paths: RunPaths, *records: Record, alive: bool, **more: Any) -> None:
    process = psutil.Process()
    started = process.create_time() if alive else 1.0
    segment = SegmentWriter(paths.journal / worker_segment_name(1, socket.gethostname(), process.pid))
    node = own_node(os.environ)
    head = {"event": "worker", "block": "1-0", "node": node, "pid": process.pid, "started": started}
    segment.append({**head, **more}, *records)
    segment.close()


def start(index: int) -> Record:
    return {"event": "start", "stage": "s", "index": index, "attempt": 1, "time": 0.0}


def done(index: int) -> Record:
    return {"event": "done", "stage": "s", "index": index, "attempt": 1, "time": 0.0}


def told(paths: RunPaths) -> list[Any]:
    found = [r for name in segments(paths.journal) for _, _, r in read_segment(paths.journal / name) if r]
    return [(record["index"], record["class"]) for record in found if record["event"] == "fail"]


def supersede(paths: RunPaths) -> None:
    SegmentWriter(paths.controller_segment(2)).close()


def test_nothing_is_told_while_the_blocks_controller_may_live(paths: RunPaths, orphans: Orphans) -> None:
    worker(paths, start(0), alive=False)
    orphans.look()
    assert told(paths) == []


def test_the_task_of_a_dead_worker_is_told_once(paths: RunPaths, orphans: Orphans) -> None:
    worker(paths, start(0), done(0), start(1), alive=False)
    worker(paths, start(2), done(2), alive=False)
    worker(paths, start(3), alive=True)
    worker(paths, start(4), alive=False, block="1-1")
    supersede(paths)
    orphans.look()
    orphans.look()
    assert told(paths) == [(1, "node")]


def test_a_node_stays_while_its_controller_is_heard_of(paths: RunPaths, orphans: Orphans) -> None:
    worker(paths, start(0), done(0), alive=True)
    assert not orphans.abandoned()


@pytest.mark.parametrize("superseded", [True, False])
def test_a_node_ends_when_its_controller_is_gone_and_nothing_runs(
    paths: RunPaths, orphans: Orphans, superseded: bool
) -> None:
    if superseded:
        supersede(paths)
    else:
        old = time.time() - 2 * ORPHAN
        os.utime(paths.lease, (old, old))
    worker(paths, start(0), done(0), alive=True)
    worker(paths, start(4), alive=True, node="another")
    assert orphans.abandoned()
    worker(paths, start(1), alive=True)
    assert not orphans.abandoned()


def test_the_drain_period_counts_from_the_begin_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIEL_BLOCK_WALLTIME", "600")
    monkeypatch.setenv("DIEL_BLOCK_END", f"{time.time() + 580:.0f}")
    words = _aged(["pool", "--drain_period=500", "--port=1"])
    assert words[0::2] == ["pool", "--port=1"]
    assert 478 <= int(words[1].partition("=")[2]) <= 481
    monkeypatch.delenv("DIEL_BLOCK_END")
    assert _aged(["pool", "--drain_period=500"]) == ["pool", "--drain_period=500"]
