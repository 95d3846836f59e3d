"""The keeper of a node, as a process: a pool that is none stands in for Parsl's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from diel.backends.executors.node import Orphans, _aged
from diel.base.paths import RunPaths
from diel.store.journal.records import Record
from diel.store.journal.segment import SegmentWriter, read_segment, segments, worker_segment_name
from diel.store.project.lease import beat, birth_of, take
from diel.store.project.requests import put_up
from diel.worker.attempt.block import own_node
from tests.record import as_record
from tests.throwaway import wait_for

SOON = """
import os, sys
import diel.backends.executors.node as succession
succession.LOOK, succession.ORPHAN = 0.1, float(sys.argv.pop(1))
from diel.backends.executors.node import NodeKeeper
sys.exit(NodeKeeper(sys.argv[1:], os.environ).run())
"""
"""A keeper that looks more often, and waits no ten minutes."""
LONG = 600.0


class Run:
    """A run's directory, and keepers of its block 1-0."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.begun = paths.root / "begun"
        self.keepers: list[subprocess.Popen[bytes]] = []
        self.segments: list[SegmentWriter] = []

    def take(self) -> None:
        """This process drives the run from here on."""
        self.controller = take(self.paths)[1]
        self.segments.append(self.controller)

    def hand_over(self) -> None:
        self.controller.append({"event": "handover", "time": time.time()})

    def keep(self, *command: str, patience: float = LONG, age: float = 0.0) -> subprocess.Popen[bytes]:
        """Begins a keeper for the first controller; `age` is the block's."""
        env = {
            **os.environ,
            "DIEL_RUN_DIR": str(self.paths.root),
            "DIEL_BLOCK": "1-0",
            "DIEL_CONTROLLER_EPOCH": "1",
            "DIEL_BLOCK_WALLTIME": "3600",
            "DIEL_BLOCK_END": f"{time.time() + 3600 - age:.0f}",
        }
        words = [sys.executable, "-c", SOON, str(patience), *command]
        self.keepers.append(subprocess.Popen(words, env=env))
        return self.keepers[-1]

    def renew(self, text: str) -> None:
        """Writes the node's script as the second controller would."""
        part = self.paths.root / "part"
        part.write_text(f"#!/bin/sh\nexport DIEL_CONTROLLER_EPOCH=2\n{text}\n")
        part.replace(self.paths.node_script("1-0"))

    def pools(self) -> list[int]:
        """The processes that carry the node's mark."""
        mark, found = f"{self.paths.root}:1-0/{own_node(os.environ)}", []
        for process in psutil.process_iter():
            try:
                if process.environ().get("DIEL_NODE") == mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    def worker(self) -> SegmentWriter:
        """A worker of this node, for the first controller."""
        name = worker_segment_name(1, socket.gethostname(), os.getpid())
        segment = SegmentWriter(self.paths.journal / name)
        me = psutil.Process()
        where = {"block": "1-0", "node": own_node(os.environ)}
        segment.append(as_record({"event": "worker", "pid": me.pid, "birth": birth_of(me.pid), **where}))
        self.segments.append(segment)
        return segment


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    paths = RunPaths(tmp_path / "w-1")
    paths.journal.mkdir(parents=True)
    paths.blocks.mkdir(parents=True)
    run = Run(paths)
    run.take()
    yield run
    for keeper in run.keepers:
        keeper.kill()
        keeper.wait()
    for segment in run.segments:
        segment.close()
    for pid in run.pools():
        os.kill(pid, signal.SIGKILL)


def pool(run: Run) -> tuple[str, ...]:
    return "sh", "-c", f"touch '{run.begun}'; exec sleep 600"


def outlives(run: Run, keeper: subprocess.Popen[bytes]) -> None:
    """The controller lives until the node has ended."""

    def has_ended() -> bool:
        beat(run.paths)
        return keeper.poll() is not None

    wait_for(has_ended, 30)


def test_a_pool_runs_to_its_end_and_its_exit_code_is_the_nodes(run: Run) -> None:
    assert run.keep("true").wait(60) == 0
    keeper = run.keep("sh", "-c", "exit 7")
    outlives(run, keeper)
    assert keeper.returncode == 7


def test_sigterm_ends_the_pool_and_what_made_a_session_of_its_own(run: Run) -> None:
    keeper = run.keep("sh", "-c", f"setsid sleep 600 & touch '{run.begun}'; sleep 600")
    wait_for(run.begun.exists)
    keeper.terminate()
    assert keeper.wait(60) == 128 + signal.SIGTERM
    assert run.pools() == []


@pytest.mark.parametrize("delay", [0.0, 0.004, 0.012])
def test_sigterm_while_a_pool_begins_leaves_nothing_of_it(run: Run, delay: float) -> None:
    keeper = run.keep(*pool(run))
    while not _handles_sigterm(keeper.pid):
        assert keeper.poll() is None
    time.sleep(delay)
    keeper.terminate()
    assert keeper.wait(60) == 128 + signal.SIGTERM
    assert run.pools() == []


def _handles_sigterm(pid: int) -> bool:
    """Whether a process has a handler for it by now: before, the signal ends it, and there is no pool."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


def test_a_node_without_a_task_goes_over_to_the_controller_that_wrote_its_script_anew(run: Run) -> None:
    keeper = run.keep(*pool(run))
    wait_for(run.begun.exists)
    run.hand_over()
    run.take()
    over = run.paths.root / "over"
    run.renew(f"echo $DIEL_BLOCK > '{over}'; exit 5")
    assert keeper.wait(60) == 5  # in the same place: the scheduler sees one program
    assert over.read_text() == "1-0\n"
    assert run.pools() == []


def test_a_node_goes_over_only_when_its_task_has_ended(run: Run) -> None:
    keeper = run.keep(*pool(run))
    wait_for(run.begun.exists)
    worker = run.worker()
    task = {"stage": "s", "index": 0, "attempt": 1}
    worker.append(as_record({"event": "start", **task}))
    run.hand_over()
    run.take()
    run.renew("exit 5")
    with pytest.raises(subprocess.TimeoutExpired):
        keeper.wait(1.0)
    worker.append(as_record({"event": "done", **task}))
    assert keeper.wait(60) == 5


def test_a_node_that_was_given_up_ends_though_its_task_runs_and_its_controller_lives(run: Run) -> None:
    """Not where another node of its block was given up, or a worker that is dead."""
    worker = run.worker()
    worker.append({"event": "start", "stage": "s", "index": 0, "attempt": 1, "time": 0.0, "bundle": 1})
    keeper = run.keep(*pool(run))
    wait_for(run.begun.exists)
    put_up(run.paths, "1-0", ["worker-0001-another-1-1.jsonl"])
    put_up(run.paths, "1-1")
    with pytest.raises(subprocess.TimeoutExpired):
        keeper.wait(0.5)
    put_up(run.paths, "1-0", [worker.name])
    keeper.wait(60)
    assert run.pools() == []


def test_what_a_killed_keeper_leaves_is_ended(run: Run) -> None:
    """Its session with it, as pbs_mom kills it: all but what made one of its own."""
    keeper = run.keep("sh", "-c", f"setsid sleep 600 & touch '{run.begun}'; exec sleep 600")
    wait_for(run.begun.exists)
    wait_for(lambda: len(run.pools()) == 2)
    keeper.kill()
    wait_for(lambda: run.pools() == [])


def test_a_node_that_begins_without_a_controller_waits_for_the_next_one(run: Run) -> None:
    run.hand_over()
    keeper = run.keep("false", age=2 * LONG)  # a pool that finds nobody
    with pytest.raises(subprocess.TimeoutExpired):
        keeper.wait(1.0)
    run.take()
    run.renew("exit 5")
    assert keeper.wait(60) == 5


def test_a_pool_begins_again_when_its_controller_comes_back(run: Run) -> None:
    """One whose process cannot be seen from here, and whose host slept."""
    lease = json.loads(run.paths.lease.read_text())
    run.paths.lease.write_text(json.dumps({**lease, "pid": 2**22 + 1}))
    keeper = run.keep("sh", "-c", f"test -e '{run.begun}' && exit 0; touch '{run.begun}'; exit 1")
    wait_for(run.begun.exists)
    with pytest.raises(subprocess.TimeoutExpired):
        keeper.wait(1.0)
    outlives(run, keeper)
    assert keeper.returncode == 0


def test_a_node_for_which_no_controller_comes_ends(run: Run) -> None:
    run.hand_over()
    os.utime(run.paths.lease, (1.0, 1.0))
    assert run.keep(*pool(run), patience=1.0).wait(60) == 0


def test_a_pool_that_its_controller_left_is_no_failure_of_the_block(run: Run) -> None:
    """It began while the controller seemed to live, and found nobody to connect to."""
    go = run.paths.root / "go"
    wait = f"touch '{run.begun}'; while [ ! -e '{go}' ]; do sleep 0.05; done; exit 1"
    keeper = run.keep("sh", "-c", wait)
    wait_for(run.begun.exists)
    run.hand_over()
    go.touch()
    with pytest.raises(subprocess.TimeoutExpired):
        keeper.wait(1.0)
    run.take()
    run.renew("exit 5")
    assert keeper.wait(60) == 5


def test_sigterm_ends_a_node_that_waits_for_a_controller(run: Run) -> None:
    run.hand_over()
    keeper = run.keep("sh", "-c", f"touch '{run.begun}'; exit 1")
    wait_for(run.begun.exists)
    with pytest.raises(subprocess.TimeoutExpired):
        keeper.wait(0.5)
    keeper.terminate()
    assert keeper.wait(60) == 128 + signal.SIGTERM


def test_the_drain_period_counts_from_the_begin_of_the_block() -> None:
    environ = {"DIEL_BLOCK_WALLTIME": "600", "DIEL_BLOCK_END": f"{time.time() + 580:.0f}"}
    words = _aged(["pool", "--drain_period=500", "--port=1"], environ)
    assert words[0::2] == ["pool", "--port=1"]
    assert 478 <= int(words[1].partition("=")[2]) <= 481
    assert _aged(["pool", "--drain_period=500"], {}) == ["pool", "--drain_period=500"]


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
