"""Requests of users to a running run, and of its controller to workers: files that nobody answers.

A fence is one of them: what was given up for lost commits nothing more, even if it is still alive. Before a
task is handed out again the controller puts up a file for the block, reads once more what its workers wrote,
and records which attempts count no more: that decides. Workers and keepers of nodes that can still see the
file end by it (docs/decisions/032).
"""

import contextlib
import json
import os
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from diel.base.files import put
from diel.base.paths import RunPaths

FRESH = 2.0
"""Seconds for which a request counts as new: more than a tick of any file system's clock."""


class Cancel(NamedTuple):
    """Stop everything, or only some stages (`train`) and tasks (`train/3`)."""

    targets: Collection[str]

    def covers(self, stage: str, index: int) -> bool:
        return not self.targets or stage in self.targets or f"{stage}/{index}" in self.targets

    def touches(self, stage: str) -> bool:
        """Return whether any task of a stage may be meant."""
        return not self.targets or any(target.partition("/")[0] == stage for target in self.targets)

    @property
    def everything(self) -> bool:
        return not self.targets


def ask_cancel(
    paths: RunPaths, targets: Sequence[str] = (), *, kind: Literal["cancel", "stop", "anyway"] = "cancel"
) -> Path:
    """Ask for the run, or some of its tasks, to be stopped. Return the request's file. A `stop` is for
    workers, until its file is removed; `anyway` asks controllers, present and later, to hold no stage."""
    path = paths.requests / f"{kind}-{time.time_ns():x}-{os.getpid()}.json"
    put(path, json.dumps({"targets": list(targets)}))
    return path


def is_anyway(paths: RunPaths) -> bool:
    return bool(_named(paths, "anyway-"))


def read_cancels(paths: RunPaths) -> list[Cancel]:
    """Users' requests to the present controller, oldest first."""
    return _read(paths, "cancel-")


def read_stops(paths: RunPaths) -> list[Cancel]:
    """Return what workers must stop: what users asked for, and what a controller no longer needs."""
    return _read(paths, "cancel-", "stop-")


class StopCheck:
    """Whether a controller no longer needs a task, for the task to ask now and then."""

    def __init__(self, paths: RunPaths, stage: str, index: int) -> None:
        self._paths, self._task = paths, (stage, index)
        self._seen = 0.0

    def __call__(self) -> bool:
        now = changed(self._paths)
        if now == self._seen:
            return False
        if any(stop.covers(*self._task) for stop in _read(self._paths, "stop-")):
            return True
        self._seen = now
        return False


def _read(paths: RunPaths, *kinds: str) -> list[Cancel]:
    requests = []
    for name in _named(paths, *kinds):
        # somebody's own file is nothing that `ask_cancel` wrote
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads((paths.requests / name).read_text(encoding="utf-8"))
            requests.append(Cancel(frozenset(document["targets"])))
    return requests


def set_aside(paths: RunPaths) -> None:
    """Put away requests to an earlier controller, without comparing clocks of hosts."""
    for name in _named(paths, "cancel-", "stop-"):
        with contextlib.suppress(OSError):
            os.rename(paths.requests / name, paths.requests / f"old-{name}")


def _named(paths: RunPaths, *kinds: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(paths.requests) if name.startswith(kinds))
    except FileNotFoundError:
        return []


def changed(paths: RunPaths) -> float:
    """Return when the last request was made: cheap, and the same while there is nothing new. A file system's
    clock is coarse, so that for a while after each request every answer is a new one."""
    try:
        modified = os.stat(paths.requests).st_mtime
    except FileNotFoundError:
        return 0.0
    now = time.time()
    return now if abs(now - modified) < FRESH else modified


ALL = "*"


def put_up(paths: RunPaths, block: str, workers: Iterable[str] = (ALL,)) -> None:
    """Give up workers of a block, by their segments. Raise OSError if they cannot learn of it."""
    paths.fences.mkdir(exist_ok=True)
    given_up = sorted({*fenced(paths, block), *workers})
    put(paths.fence(block), "".join(f"{name}\n" for name in given_up))


def fenced(paths: RunPaths, block: str) -> frozenset[str]:
    """Return the workers of a block that were given up."""
    try:
        with open(paths.fence(block), encoding="utf-8") as file:  # mostly not there: the cheapest way to ask
            return frozenset(file.read().split())
    except FileNotFoundError:
        return frozenset()
