"""Tells what became of tasks whose worker died while no controller listened.

That a worker died is Parsl's news for its own controller. The next one, which adopts what runs on in old
blocks, hears nothing of it, and would wait for such a task until its block ends: it may be hours. So the
keeper of each node (`diel/executors/node.py`) looks after them, in a segment of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from diel.errors import JournalError
from diel.journal.segment import Record, SegmentWriter, read_segment, segments, worker_segment_name
from diel.paths import RunPaths
from diel.states import FailureClass
from diel.worker.block import own_node
from diel.worker.reaper import kill_marked

LOOK = 2.0
"""Seconds between two looks."""
ORPHAN = 600.0
"""Seconds without a heartbeat of the run's controller after which an idle node ends."""


class Orphans:
    """The tasks of one node's share of a block, once the block's controller is gone."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._paths = RunPaths(Path(environ["DIEL_RUN_DIR"]))
        self._block, self._node = environ["DIEL_BLOCK"], own_node(environ)
        self._epoch = int(self._block.partition("-")[0])
        self._others: set[str] = set()
        """Segments with nothing to tell: of other nodes, or of workers whose end is told."""
        self._segment: SegmentWriter | None = None

    def watch(self) -> None:
        """Looks again and again, in a thread of its own."""
        while True:
            time.sleep(LOOK)
            with contextlib.suppress(OSError, JournalError):  # a full disk, perhaps: the next look may tell
                self.look()
                if self.abandoned():
                    os.kill(os.getpid(), signal.SIGTERM)
                    return

    def abandoned(self) -> bool:
        """Whether no controller was heard of for long, and nothing runs here that it should hear of."""
        try:
            silence = time.time() - os.stat(self._paths.lease).st_mtime
        except OSError:
            return False
        superseded = self._paths.controller_segment(self._epoch + 1).exists()
        if silence < ORPHAN and not superseded:
            return False
        own = (name for name in segments(self._paths.journal) if self._is_own(name))
        return all(_open_attempt(self._paths.journal / name) is None for name in own)

    def look(self) -> None:
        """Writes down which tasks were lost. Does nothing while the block's own controller may live."""
        if not self._paths.controller_segment(self._epoch + 1).exists():
            return
        for name in self._dead_workers():
            attempt = _open_attempt(self._paths.journal / name)
            if attempt is not None:
                self._tell(attempt)
            self._others.add(name)

    def _is_own(self, name: str) -> bool:
        """Whether a segment is one of this node's workers."""
        if not name.startswith(f"worker-{self._epoch:04d}-{socket.gethostname()}-"):
            return False
        worker = next(read_segment(self._paths.journal / name), (0, 0, None))[2]
        return worker is not None and (worker.get("block"), worker.get("node")) == (self._block, self._node)

    def _dead_workers(self) -> Iterator[str]:
        """The segments of this node's workers that have died."""
        prefix = f"worker-{self._epoch:04d}-{socket.gethostname()}-"
        for name in segments(self._paths.journal):
            if not name.startswith(prefix) or name in self._others:
                continue
            worker = next(read_segment(self._paths.journal / name), (0, 0, None))[2]
            if worker is None:
                continue
            if (worker.get("block"), worker.get("node")) != (self._block, self._node):
                self._others.add(name)
            elif not _lives(worker):
                yield name

    def _tell(self, attempt: Record) -> None:
        stage, index, number = attempt["stage"], attempt["index"], attempt["attempt"]
        # A command outlives its worker, and must not run beside the next attempt.
        kill_marked("DIEL_TASK_DIR", str(self._paths.task_dir(stage, index, number)))
        if self._segment is None:
            name = worker_segment_name(self._epoch, socket.gethostname(), os.getpid())
            self._segment = SegmentWriter(self._paths.journal / name)
        self._segment.append(
            {
                "event": "fail",
                "stage": stage,
                "index": index,
                "attempt": number,
                "time": time.time(),
                "class": FailureClass.NODE,
                "message": "its worker died while the run's controller was gone",
            }
        )


def _lives(worker: Record) -> bool:
    try:
        process = psutil.Process(worker["pid"])
        return abs(process.create_time() - worker["started"]) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _open_attempt(segment: Path) -> Record | None:
    """The attempt that a worker was at when it died."""
    begun = None
    for _, _, record in read_segment(segment):
        if record is not None and record["event"] in ("start", "done", "fail"):
            begun = record if record["event"] == "start" else None
    return begun
