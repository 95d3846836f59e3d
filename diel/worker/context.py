"""What a running module can ask diel: where it is, what it reads, how long it has."""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from types import CellType, FunctionType, MethodType, NoneType
from typing import Any, TypeVar

from diel.base.errors import ModuleError, Pruned
from diel.streams import StreamUser
from diel.streams.services import ServiceUser
from diel.worker.staging.item import Local, Shard

T = TypeVar("T")

_loaded: dict[object, Any] = {}
_PARTS = (
    *("func", "args", "keywords", "__func__", "__self__"),
    *("__defaults__", "__kwdefaults__", "__closure__", "cell_contents"),
)
DEEPEST = 8
"""How deep functions and values within each other are told apart: a function may enclose itself."""


@dataclass(frozen=True)
class Context(ServiceUser, StreamUser):
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
    """Whether the stage keeps checkpoints: continue from what is in `checkpoint_dir`."""
    interrupt_at: float | None = None
    """When the task should save a checkpoint and stop, in seconds since the epoch; None for never."""
    ranks: int = 1
    """MPI ranks of the task."""
    shards: Mapping[str, Shard] = field(default_factory=dict)
    """How inputs are split, by name: those with `shard` in the workflow."""
    local: Local | None = None
    """The node's own disk, if the stage uses it."""
    streams: Mapping[str, Mapping[str, str]] | None = None
    """What the task puts into and gets from, by name; None where it runs beside no other stage's."""
    services: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Those that the stage asks, by name: the task indices of their replicas."""
    is_pruned: Callable[[], bool] = field(default=bool, compare=False)
    """Whether the search that this trial belongs to has stopped it; `report` asks it."""
    heard: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """What `report` said where it raised Pruned: after that, what the module returns is no result."""
    _epoch: float = field(default_factory=lambda: time.time() - time.monotonic(), init=False, compare=False)
    """Added to time.monotonic, gives seconds since the epoch: a step of the clock moves no deadline."""

    @property
    def checkpoint_dir(self) -> Path:
        """A directory that the task's attempts share; made on first use, kept until `diel clean`."""
        path = self.task_dir.with_name(f"{self.index}.checkpoint")
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def interrupted(self) -> bool:
        """Whether the task's time is nearly over: save a checkpoint now, and raise `diel.Interrupted`.

        It costs next to nothing to ask. On MPI ranks the clocks differ a little, so that all should
        do what one of them found: `comm.bcast(context.interrupted)`.
        """
        return self.interrupt_at is not None and self._epoch + time.monotonic() >= self.interrupt_at

    @property
    def time_left(self) -> float:
        """Seconds to the deadline; infinite without one."""
        return float("inf") if self.deadline is None else self.deadline - self._epoch - time.monotonic()

    def report(self, **metrics: float | int | str | bool) -> None:
        """Append one line to the task's metrics (`epoch=3, loss=0.1`); only rank 0 writes.

        Raise Pruned in a trial that its search has stopped, unless it has several ranks: these wait for
        each other, and end together from outside.
        """
        if self.rank == 0:
            line = json.dumps({"time": time.time(), **metrics}) + "\n"
            with open(self.task_dir / ".metrics.jsonl", "a", encoding="utf-8") as file:
                file.write(line)
        if self.ranks == 1 and self.is_pruned():
            self.heard.append("its search has stopped this trial")
            raise Pruned(self.heard[-1])

    def shard(self, name: str, epoch: int = 0) -> list[Any]:
        """Return this rank's or task's items of an input with `shard`, in the epoch's order.

        Files are Paths, on the node's own disk with `stage: node`; of an array in a .npy file the
        numbers of rows. Over all ranks (or tasks) each item comes once an epoch; the order is another
        in each, and the same wherever it is drawn. Raise ModuleError for an input without `shard`.
        """
        from diel.worker.staging.shard import draw  # only here: most modules have no shards

        if name not in self.shards:
            names = ", ".join(self.shards) or "none"
            raise ModuleError(f"input '{name}' has no `shard` in the workflow; inputs with one: {names}")
        shard, ranks = self.shards[name], (self.rank, self.ranks)
        return draw(name, self.inputs[name], shard, *ranks, epoch, self.local, os.environ)

    def cached(self, key: object, load: Callable[[], T]) -> T:
        """Return what `load()` returns for this key; each worker process calls it at most once.

        Meant for models: a worker that runs a thousand tasks reads its model once. What another function
        loads, or this one with other defaults or enclosed numbers, texts and paths, is another object.
        The key must name all else that the content depends on.
        """
        place = key, _identity(load)
        if place not in _loaded:
            _loaded[place] = load()
        value: T = _loaded[place]
        return value


def _identity(value: Any, depth: int = 0) -> object:
    """Return what tells functions and plain values apart; of any other object, its class."""
    if isinstance(value, (int, float, complex, str, bytes, PurePath, NoneType)):
        return type(value), value
    parts: Iterable[Any] = ()
    if isinstance(value, (tuple, list, set, frozenset, dict)):
        parts = value.items() if isinstance(value, dict) else value
    elif isinstance(value, (partial, MethodType, FunctionType, CellType)):
        parts = [getattr(value, name, None) for name in _PARTS]
    names = getattr(value, "__code__", getattr(value, "__qualname__", "")), getattr(value, "__module__", "")
    deeper = [_identity(part, depth + 1) for part in parts] if depth < DEEPEST else ()
    return type(value), *names, id(getattr(value, "__globals__", None)), *deeper
