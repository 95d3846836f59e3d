"""The tasks of a node without a controller: what dead workers left is told, and whether any still runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from diel.attempt.block import own_node
from diel.executors.node import Orphans
from diel.journal.records import Record
from diel.journal.segment import SegmentWriter, read_segment, segments, worker_segment_name
from diel.paths import RunPaths
from diel.project.lease import birth_of
from tests.record import as_record


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "w-1")
    paths.journal.mkdir(parents=True)
    paths.lease.write_text("{}")
    SegmentWriter(paths.controller_segment(1)).close()
    return paths


@pytest.fixture
def orphans(paths: RunPaths) -> Orphans:
    return Orphans({"DIEL_RUN_DIR": str(paths.root), "DIEL_BLOCK": "1-0", "DIEL_CONTROLLER_EPOCH": "1"})


def worker(paths: RunPaths, *records: Record, alive: bool, **more: Any) -> None:
    process = psutil.Process()
    birth = birth_of(process.pid) if alive else birth_of(1)
    segment = SegmentWriter(paths.journal / worker_segment_name(1, socket.gethostname(), process.pid))
    node = own_node(os.environ)
    head = {"event": "worker", "block": "1-0", "node": node, "pid": process.pid, "birth": birth}
    segment.append(as_record({**head, **more}), *records)
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


def test_a_node_is_idle_when_none_of_its_workers_is_at_a_task(paths: RunPaths, orphans: Orphans) -> None:
    assert not orphans.has_worked()
    worker(paths, start(0), done(0), alive=True)
    worker(paths, start(4), alive=True, node="another")
    assert orphans.is_idle()
    assert orphans.has_worked()
    worker(paths, start(1), alive=True)
    assert not orphans.is_idle()


def test_what_a_dead_worker_left_keeps_its_node_until_it_is_told(paths: RunPaths, orphans: Orphans) -> None:
    worker(paths, start(0), alive=False)
    assert not orphans.is_idle()
    supersede(paths)
    orphans.look()
    assert told(paths) == [(0, "node")]
    assert orphans.is_idle()
