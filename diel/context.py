"""What a running module may ask diel: where it is, what it reads, how long it has."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_loaded: dict[object, Any] = {}


@dataclass(frozen=True)
class Context:
    """The task that a module runs in.

    Made by diel for a parameter annotated with it; `Context(task_dir=tmp_path)` serves in a
    module's own tests.
    """

    task_dir: Path
    """Working directory of this attempt: everything that the task writes goes here."""
    run_id: str = "test-1"
    run_dir: Path = Path()
    stage: str = "test"
    task_id: str = "test/0"
    index: int = 0
    attempt: int = 1
    deadline: float | None = None
    """When the task will be stopped, in seconds since the epoch; None for no limit."""
    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 0
    """MPI rank of this process; 0 without MPI."""
    checkpoint: bool = False
    """Whether the stage keeps checkpoints: what lies in `checkpoint_dir` is where to go on."""
    interrupt_at: float | None = None
    """When the task should save a checkpoint and stop, in seconds since the epoch; None for never."""

    @property
    def checkpoint_dir(self) -> Path:
        """A directory that the task's attempts share; made when first asked for, kept until `diel clean`."""
        path = self.task_dir.with_name(f"{self.index}.checkpoint")
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def interrupted(self) -> bool:
        """Whether the task's time is nearly over: save a checkpoint now, and raise `diel.Interrupted`.

        It costs next to nothing to ask. On MPI ranks the clocks differ a little, so that all should
        do what one of them found: `comm.bcast(context.interrupted)`.
        """
        return self.interrupt_at is not None and time.time() >= self.interrupt_at

    @property
    def time_left(self) -> float:
        """Seconds to the deadline; infinite without one."""
        return float("inf") if self.deadline is None else self.deadline - time.time()

    def report(self, **metrics: float | int | str | bool) -> None:
        """Appends one line to the task's metrics (`epoch=3, loss=0.1`); only rank 0 writes."""
        if self.rank == 0:
            line = json.dumps({"time": time.time(), **metrics}) + "\n"
            with open(self.task_dir / ".metrics.jsonl", "a", encoding="utf-8") as file:
                file.write(line)

    def cached(self, key: object, load: Callable[[], T]) -> T:
        """What `load()` returned for this key in this worker process, loading it at most once.

        Meant for models: a worker that runs a thousand tasks reads its model once. The key must
        name the content, for instance a path.
        """
        if key not in _loaded:
            _loaded[key] = load()
        value: T = _loaded[key]
        return value
