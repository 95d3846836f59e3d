"""Parsl's executors for blocks, as they start."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import psutil
import pytest

from diel.backends.executors import Workers
from diel.backends.executors.parsl import STARTS, BlockEngine
from diel.base.errors import DielError
from diel.base.paths import RunPaths

WORKERS = Workers(slots=1, mpi_nodes=0, gpus=(), drain=60, silence=60, orphan=60)


class Killer:
    """Kills interchanges of this process as soon as they are there."""

    def __init__(self, times: int) -> None:
        self.killed: set[int] = set()
        self._times = times
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set() and len(self.killed) < self._times:
            for child in psutil.Process().children():
                with contextlib.suppress(psutil.Error):  # it has ended
                    if child.pid not in self.killed and "interchange" in " ".join(child.cmdline()):
                        child.kill()
                        self.killed.add(child.pid)
            time.sleep(0.01)


@pytest.fixture
def engine(tmp_path: Path) -> BlockEngine:
    return BlockEngine(RunPaths(tmp_path), ["127.0.0.1"], lambda label, number, command: "1")


def test_an_interchange_that_is_killed_before_it_answers_is_started_again(engine: BlockEngine) -> None:
    """Parsl would wait two minutes for the dead one, and then give up."""
    began = time.monotonic()
    try:
        with Killer(1) as killer:
            engine.open("small", WORKERS)
        assert len(killer.killed) == 1
        assert engine.loads("small") == {}
        assert not engine.broken
    finally:
        engine.stop()
    assert time.monotonic() - began < 60


def test_interchanges_that_all_end_before_they_answer_are_told(engine: BlockEngine) -> None:
    try:
        with Killer(STARTS), pytest.raises(DielError, match="ended 5 times as it started"):
            engine.open("small", WORKERS)
        assert "small" not in engine._executors
    finally:
        engine.stop()
