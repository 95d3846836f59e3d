"""A run written by hand: the files that a controller and a worker would have left, at any moment of it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Self

from diel.store.journal.history import History
from diel.store.journal.segment import Reader
from tests.handmade import Laid
from tests.record import as_record

APP: dict[str, Any] = {"class": "app"}
"""The class of a failure that is the program's own, for a record."""


class Written(Laid):
    """A run with stages `a` (simulation, 4 tasks) and `b` (analysis), driven by this process if `alive`."""

    def __init__(self, runs: Path, name: str = "w-1", *, alive: bool = False, stages: bool = True) -> None:
        self.name = name
        super().__init__(runs / name, 100, alive=alive)
        workflow = name.rpartition("-")[0]
        document = {"run": name, "workflow": workflow, "source": str(runs / "w.yaml"), "created": self.clock}
        self.paths.run_file.write_text(json.dumps(document))
        self.paths.workflow.write_text(
            "diel: 1\nname: w\nstages:\n  a: {command: [x]}\n  b: {command: [x]}\n  late: {command: [x]}\n"
        )
        if stages:
            self.write("stage", stage="a", kind="simulation", total=4, parts={"module": "m"}, family="f")
            self.write("stage", stage="b", kind="analysis", total=1, parts={"module": "m"}, family="g")

    def work(self, event: str, index: int, attempt: int = 1, **more: Any) -> Self:
        """A line of the worker, about a task of stage `a`."""
        self.clock += 1
        record = {"event": event, "stage": "a", "index": index, "attempt": attempt, "time": self.clock}
        self.worker.append(as_record({**record, **more}))
        return self

    def done(self, index: int, **more: Any) -> Self:
        return self.work("done", index, seconds=2.0, key=f"{index:032x}", **more)

    def failed(self, index: int, message: str = "exit code 3", **more: Any) -> Self:
        more = {"class": "app", "message": message, "exit_code": 3, "stderr_tail": "", "attempt": 1, **more}
        return self.write("failed", stage="a", tasks=[[index, index]], **more)

    def end(self, state: str) -> Self:
        return super().end(state).snapshot()

    def snapshot(self) -> Self:
        reader = Reader(self.paths, History())
        reader.catch_up()
        reader.save()
        return self

    def output(self, index: int, attempt: int = 1, **streams: str) -> Self:
        """What a task of stage `a` printed, as its worker leaves it."""
        folder = self.paths.task_dir("a", index, attempt)
        folder.mkdir(parents=True)
        for stream, text in streams.items():
            (folder / stream.replace("metrics", ".metrics.jsonl")).write_text(text)
        return self

    def quiet_for(self, seconds: float) -> Self:
        """Makes the heartbeat older."""
        then = time.time() - seconds
        os.utime(self.paths.lease, (then, then))
        return self
