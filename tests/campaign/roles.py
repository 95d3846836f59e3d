"""Which of a run's processes is what: told by the process tree, the journal and the words of its command line."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable, Mapping

import psutil

from tests.throwaway import Run

Found = list[psutil.Process]

_WORDS = {
    "interchange": re.compile(r"interchange"),
    "broker": re.compile(r"diel\.streams"),
    "keeper": re.compile(r"diel\.executors\.node"),
    "pool": re.compile(r"diel\.executors\.(pool|server|fork)|worker_pool|HTEX manager|forkserver"),
}
"""Interchange and pool give themselves titles of Parsl's when they run."""

KINDS = ("controller", "worker", "workers", "pool", "interchange", "broker", "node", "task", "everything")


class Roles:
    """A look at a run's processes."""

    def __init__(self, processes: Iterable[psutil.Process], controller: int, run: Run | None) -> None:
        self.all = list(processes)
        self._controller = controller
        self._by_pid = {process.pid: process for process in self.all}
        self._parents = {process.pid: _parent(process) for process in self.all}
        self._words = {process.pid: _words(process) for process in self.all}
        recorded = set() if run is None else {int(r["pid"]) for r in run.records("worker")}
        asking = [process for process in self.all if "XXXXSLURM" in self._words[process.pid]]
        steps = {pid for pid, words in self._words.items() if "slurmstepd" in words}
        self._daemons = steps | {process.pid for process in self._below(asking)}
        """What a scheduler's daemons do for themselves: a login shell that slurmd asks may leave locks."""
        self._workers = {pid for pid in self._by_pid if pid in recorded}

    def victims(self, kind: str, dice: random.Random) -> Found:
        """What dies when a thing of this kind does; empty where there is none at this moment."""
        ways: Mapping[str, Callable[[], Found]] = {
            "controller": lambda: self._some({self._controller}),
            "worker": lambda: _one(self._some(self._workers), dice),
            "workers": lambda: self._some(self._workers),
            "pool": lambda: _one(self._pools(), dice),
            "interchange": lambda: _one(self._named("interchange"), dice),
            "broker": lambda: _one(self._named("broker"), dice),
            "node": lambda: self._below(_one(self._named("keeper"), dice)),
            "task": lambda: _one(self._tasks(), dice),
            "everything": lambda: [p for p in self.all if p.pid not in self._daemons],
        }
        return ways[kind]()

    def _some(self, pids: Iterable[int]) -> Found:
        return [self._by_pid[pid] for pid in sorted(pids) if pid in self._by_pid]

    def _named(self, role: str) -> Found:
        pattern = _WORDS[role]
        return self._some(
            p for p, words in self._words.items() if pattern.search(words) and p not in self._workers
        )

    def _pools(self) -> Found:
        """What stands between the workers and whoever holds them."""
        holders = {self._controller, os.getpid(), *(p.pid for p in self._named("keeper"))}
        pools = {process.pid for process in self._named("pool")}
        for pid in self._workers:
            above = self._parents[pid]
            while above in self._by_pid and above not in holders:
                pools.add(above)
                above = self._parents[above]
        return self._some(pools - holders)

    def _tasks(self) -> Found:
        """The processes that workers started: what a task is, not what that starts in its turn."""
        others = {p.pid for role in _WORDS for p in self._named(role)} | self._workers
        return self._some(
            p for p, parent in self._parents.items() if parent in self._workers and p not in others
        )

    def _below(self, tops: Found) -> Found:
        found = {process.pid for process in tops}
        while more := {pid for pid, parent in self._parents.items() if parent in found} - found:
            found |= more
        return self._some(found)


def _one(found: Found, dice: random.Random) -> Found:
    return [dice.choice(found)] if found else []


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.Error:
        return 0


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
