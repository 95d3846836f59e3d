"""Records what became of tasks whose worker died while no controller listened.

The next controller, which adopts what runs in old blocks, hears nothing of that from Parsl. So the keeper of
each node (`diel/executors/node.py`) looks after them, in a segment of its own.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from diel.attempt.block import own_node
from diel.attempt.reaper import kill_marked
from diel.journal.segment import SegmentWriter, read_segment, segments, worker_segment_name
from diel.paths import RunPaths
from diel.project.lease import lives
from diel.states import FailureClass
from diel.worker.fence import ALL, fenced

if TYPE_CHECKING:
    from diel.journal.records import Start, WorkerRecord


class Orphans:
    """The tasks of one node's share of a block, once the block's controller is gone."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._paths = RunPaths(Path(environ["DIEL_RUN_DIR"]))
        self._block, self._node = environ["DIEL_BLOCK"], own_node(environ)
        self._epoch = int(environ["DIEL_CONTROLLER_EPOCH"])
        self._others: set[str] = set()
        """Segments of other nodes' workers."""
        self._told: set[str] = set()
        """Segments of workers whose end is recorded."""
        self._segment: SegmentWriter | None = None

    def is_idle(self) -> bool:
        """Whether none of this node's workers is running a task."""
        names = (name for name in self._own() if name not in self._told)
        return all(_open_attempt(self._paths.journal / name) is None for name in names)

    def are_given_up(self) -> bool:
        """Whether the controller gave up for lost this block, or one of this node's workers."""
        given_up = fenced(self._paths, self._block)
        return bool(given_up) and (
            ALL in given_up or any(name in given_up and self._lives(name) for name in self._own())
        )

    def has_worked(self) -> bool:
        """Whether this node ever had a worker."""
        return next(self._own(), None) is not None

    def look(self) -> None:
        """Records which tasks were lost. Does nothing while the block's own controller may live."""
        if not self._paths.controller_segment(self._epoch + 1).exists():
            return
        for name in self._own():
            if name in self._told or self._lives(name):
                continue
            attempt = _open_attempt(self._paths.journal / name)
            if attempt is not None:
                self._tell(attempt)
            self._told.add(name)

    def _own(self) -> Iterator[str]:
        prefix = f"worker-{self._epoch:04d}-{socket.gethostname()}-"
        for name in segments(self._paths.journal):
            if name.startswith(prefix) and name not in self._others:
                worker = self._worker(name)
                if worker is None:
                    continue
                if (worker.get("block"), worker.get("node")) == (self._block, self._node):
                    yield name
                else:
                    self._others.add(name)

    def _lives(self, name: str) -> bool:
        """Whether a worker of this node may be alive."""
        worker = self._worker(name)
        return worker is None or lives(worker["pid"], worker.get("birth", "")) is not False

    def _worker(self, name: str) -> WorkerRecord | None:
        """What a worker wrote about itself; empty until it has."""
        record = next(read_segment(self._paths.journal / name), (0, 0, None))[2]
        return record if record is not None and record["event"] == "worker" else None

    def _tell(self, attempt: Start) -> None:
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


def _open_attempt(segment: Path) -> Start | None:
    begun = None
    for _, _, record in read_segment(segment):
        if record is not None and record["event"] == "start":
            begun = record
        elif record is not None and (record["event"] == "done" or record["event"] == "fail"):
            begun = None
    return begun
