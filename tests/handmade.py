"""A run made by hand from a workflow's text: what a controller and a worker would have left behind."""

from __future__ import annotations

import json
import os
import socket
import textwrap
import time
from pathlib import Path
from typing import Any, Self

import psutil

from diel.base.paths import RunPaths
from diel.store.artifacts.artifact import file_content
from diel.store.journal.segment import SegmentWriter
from diel.store.journal.stage_history import ranges
from diel.store.project.run_file import RunFile
from tests.record import as_record

HOST = socket.gethostname()
WORKER = "worker-0001-node-7-abc.jsonl"
GONE: dict[str, Any] = {"host": HOST, "pid": 2**22 + 1, "started": 1.0}
"""A process that there is not: pids do not go that far."""


class Segment(SegmentWriter):
    """One that is open only while lines are written: no test has to end it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.close()

    def append(self, *records: Any) -> int:
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            return super().append(*records)
        finally:
            self.close()


class Laid:
    """The files of a run on its way: folders, a lease, a segment of its controller, and one of a worker."""

    def __init__(self, root: Path, ago: float, *, alive: bool) -> None:
        """Its clock begins so many seconds ago; `alive` makes this process its controller."""
        self.paths = RunPaths(root.absolute())
        for path in (self.paths.journal, self.paths.requests, self.paths.tasks, self.paths.captures):
            path.mkdir(parents=True)
        self.clock = time.time() - ago
        me = psutil.Process()
        lease = {"host": HOST, "pid": me.pid, "started": me.create_time()} if alive else GONE
        self.lease(1, **lease)
        self.controller = Segment(self.paths.controller_segment(1))
        self.worker = Segment(self.paths.journal / WORKER)
        self.write("controller", epoch=1, **lease)

    def lease(self, epoch: int, **process: Any) -> None:
        self.paths.lease.write_text(json.dumps({"epoch": epoch, **process}))

    def write(self, event: str, **more: Any) -> Self:
        """A line of the controller."""
        self.clock += 1
        self.controller.append(as_record({"event": event, "time": self.clock, **more}))
        return self

    def end(self, state: str) -> Self:
        return self.write("end", state=state)


class Handmade(Laid):
    """A run of a workflow whose text is given."""

    def __init__(
        self, folder: Path, text: str, name: str = "w-1", *, alive: bool = False, **more: Any
    ) -> None:
        self.folder = folder
        super().__init__(folder / "runs" / name, 1000, alive=alive)
        workflow = name.rpartition("-")[0]
        self.paths.workflow.write_text(
            f"diel: 1\nname: {workflow}\n{textwrap.dedent(text)}", encoding="utf-8"
        )
        run_file = RunFile(
            run=name,
            workflow=workflow,
            source=str(folder / f"{workflow}.yaml"),
            cwd=str(folder),
            site="local",
            hyperparameters=more.pop("hyperparameters", {}),
            origins=more.pop("origins", {}),
            created=self.clock,
            host="here",
            user="me",
            diel="0",
            python="3",
            **more,
        )
        self.paths.run_file.write_text(run_file.model_dump_json())

    def work(self, event: str, stage: str, index: int, attempt: int = 1, **more: Any) -> Self:
        """A line of the worker."""
        self.clock += 1
        record = {"event": event, "stage": stage, "index": index, "attempt": attempt, "time": self.clock}
        self.worker.append(as_record({**record, **more}))
        return self

    def stage(self, name: str, total: int, kind: str = "analysis", **parts: str) -> Self:
        return self.write("stage", stage=name, kind=kind, total=total, family=f"{name}{parts}", parts=parts)

    def done(self, stage: str, index: int, artifacts: dict[str, str] | None = None, **values: Any) -> Self:
        """A result: values, and files with the content given."""
        described = {}
        for name, content in (artifacts or {}).items():
            path = self.paths.task_dir(stage, index, 1) / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            place = os.path.relpath(path, self.paths.root)
            size, digest = file_content(path)
            described[name] = {"path": place, "size": size, "digest": digest}
        self.work("start", stage, index)
        key = f"{index:032x}"
        made: dict[str, Any] = {"values": values, "artifacts": described}
        return self.work("done", stage, index, seconds=2.0, key=key, parts=["p", "i"], **made)

    def failed(self, stage: str, index: int, message: str = "exit code 3", **more: Any) -> Self:
        told = {"class": "app", "message": message, "exit_code": 3, "stderr_tail": "boom\n", **more}
        self.work("start", stage, index).work("fail", stage, index, seconds=1.0, **told)
        return self.write("failed", stage=stage, tasks=[[index, index]], attempt=1, **told)

    def skipped(self, stage: str, *indices: int, reason: str = "upstream", cause: str = "") -> Self:
        return self.write("skipped", stage=stage, tasks=ranges(indices), reason=reason, cause=cause)
