"""One worker process at the end of a pipe, as the controller has it, and bundles to give it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diel.backends.blocks.local import Pipes
from diel.base.paths import RunPaths
from diel.store.journal.records import Record
from diel.store.journal.segment import SegmentWriter, read_segment, segments
from diel.worker.attempt.bundle import Bundle, BundleReport, Request, Work
from diel.worker.attempt.ipc import SPENT
from diel.worker.attempt.reaper import kill_marked, mark
from diel.workflow.modules.catalogue import find
from tests.record import as_record


class Bench:
    """A run's directory without a controller, and one worker."""

    def __init__(self, folder: Path, pipes: Pipes) -> None:
        self.folder = folder
        self.paths = RunPaths(folder / "w-1")
        for path in (self.paths.journal, self.paths.requests, self.paths.tasks, self.paths.captures):
            path.mkdir(parents=True)
        self.take_over(1)
        self.pipes = pipes
        self._reader = ThreadPoolExecutor(1)

    def take_over(self, epoch: int) -> None:
        """What another controller does first."""
        writer = SegmentWriter(self.paths.controller_segment(epoch))
        writer.append(as_record({"event": "controller", "epoch": epoch, "time": 0.0}))
        writer.close()

    def module(self, text: str) -> Any:
        path = self.folder / "modules" / "made.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import diel\n\n\n@diel.module(kind='analysis')\n{text}\n")
        return find("made", [self.folder / "modules"])

    def start(self, requests: list[Request], *, seconds: float = 60, **work: Any) -> Future[BundleReport]:
        """Hands a bundle to the worker."""
        whole: dict[str, Any] = {
            "stage": "s", "module": None, "values": {}, "timeout": None, "launcher": (), "threads": 1, **work,
        }  # fmt: skip
        bundle = Bundle(1, str(self.paths.root), 1, Work(**whole), tuple(requests), seconds)
        report = self.pipes.submit(bundle)
        return self._reader.submit(lambda: BundleReport(*json.loads(report.result().removesuffix(SPENT))))

    def run(self, requests: list[Request], **work: Any) -> BundleReport:
        return self.start(requests, **work).result(timeout=30)

    def records(self, event: str = "") -> list[Record]:
        """What workers wrote so far."""
        workers = [name for name in segments(self.paths.journal) if name.startswith("worker")]
        lines = [line for name in workers for _, _, line in read_segment(self.paths.journal / name)]
        return [line for line in lines if line is not None and (not event or line["event"] == event)]


def request(index: int, *command: str, **more: Any) -> Request:
    """One attempt at a task."""
    whole: dict[str, Any] = {
        "attempt": 1, "key": "0" * 32, "parts": ("", ""), "params": {}, "inputs": {},
        "command": command or None, "outputs": {}, "env": {}, **more,
    }  # fmt: skip
    return Request(index, **whole)


@contextmanager
def worker_bench(folder: Path) -> Iterator[Bench]:
    pipes = Pipes(1, mark(folder / "w-1"))
    try:
        yield Bench(folder, pipes)
    finally:
        pipes.stop()
        kill_marked("DIEL_RUN_DIR", str(folder / "w-1"))
