"""A scheduler within an allocation: it hands out the nodes of this process's allocation.

For a site whose controller lives `inside`: the site's scheduler gave one allocation, and blocks are
programs on some of its nodes, first come first served. A job here is the child process that runs its
script; it ends with this process at the latest. Scripts see DIEL_NODES (names with commas between),
DIEL_NODE_NUMBERS (their places in the allocation, from 0), and the outer scheduler's own variables.
"""

import atexit
import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from diel.base.errors import counted
from diel.site.scheduler.job import Job, JobState, JobStatus, SchedulerBusy, SchedulerRefused
from diel.site.scheduler.scheduler import Scheduler

END = "DIEL_ALLOCATION_END"
"""Variable of a controller inside an allocation: when that ends, in seconds since the epoch."""
GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL, as in schedulers."""
KEPT = 15.0
"""Seconds at the end of the allocation that no block gets: for the controller to record how it ended."""
_HEADER = re.compile(r"#DIEL (\w+)=(.*)")


@dataclass
class _InnerJob:
    """A job of this scheduler."""

    script: Path
    name: str
    nodes: int
    walltime: float
    state: JobState = JobState.PENDING
    exit_code: int | None = None
    reason: str = ""
    places: tuple[int, ...] = ()
    """Its nodes, by their places in the allocation."""
    process: subprocess.Popen[bytes] | None = None
    cancelled: bool = False
    ending: threading.Thread | None = None
    """Ends the process and all that came of it, once the job is cancelled."""


class AllocationScheduler(Scheduler):
    """Nodes of one allocation, handed out to scripts."""

    sentinel = "#DIEL"
    redirects = True

    def __init__(self, outer: Scheduler, nodes: Sequence[str], allocation: str, end: float) -> None:
        """`outer` is the site's scheduler, `allocation` a job's id there, `end` when that job ends."""
        super().__init__(outer.timeout)
        self._outer = outer
        self._nodes = nodes
        self._allocation = allocation
        self._end = time.monotonic() + end - time.time()
        self._free = list(range(len(nodes)))
        self._jobs: dict[str, _InnerJob] = {}
        self._lock = threading.RLock()
        self.spread, self.node, self.oom = outer.share, outer.node, outer.oom
        self.hosts = 'echo "$DIEL_NODES" | tr "," " "' if outer.hosts else ""
        atexit.register(self.close)

    def directives(self, job: Job) -> Iterator[str]:
        yield f"name={job.name}"
        yield f"nodes={job.nodes}"
        yield f"walltime={job.walltime:.0f}"

    def try_out(self, script: Path) -> None:
        self._refuse(int(_header(script)["nodes"]))

    def submit(self, script: Path) -> str:
        """Queue a script, which starts as soon as nodes are free."""
        header = _header(script)
        held = _InnerJob(script, header["name"], int(header["nodes"]), float(header["walltime"]))
        self._refuse(held.nodes)
        with self._lock:
            number = f"{self._allocation}.{len(self._jobs) + 1}"
            self._jobs[number] = held
            self._fill()
        return number

    def _refuse(self, nodes: int) -> None:
        if nodes > len(self._nodes):
            block = f"a block of {counted(nodes, 'node')}"
            raise SchedulerRefused(f"{block} does not fit into an allocation of {len(self._nodes)}")
        if self.remaining <= 0:
            raise SchedulerRefused("the allocation is at its end: `diel resume` asks for another")

    def query(self, ids: Iterable[str]) -> Mapping[str, JobStatus]:
        """Jobs of another allocation are not in the answer: they ended with it."""
        with self._lock:
            jobs = {number: self._jobs[number] for number in ids if number in self._jobs}
            nodes = {n: ",".join(self._nodes[place] for place in h.places) for n, h in jobs.items()}
            return {n: JobStatus(h.state, h.reason, h.exit_code, nodes[n]) for n, h in jobs.items()}

    def cancel(self, ids: Iterable[str]) -> None:
        """Send running jobs SIGTERM, and SIGKILL some seconds later."""
        with self._lock:
            for number in ids:
                held = self._jobs.get(number)
                if held is None or held.state.ended:
                    continue
                held.cancelled = True
                if held.process is None:
                    held.state, held.reason = JobState.CANCELLED, "cancelled before it began"
                elif held.state is JobState.RUNNING:
                    held.state = JobState.ENDING
                    held.ending = threading.Thread(target=_end_tree, args=(held.process,), daemon=True)
                    held.ending.start()
            self._fill()  # the line may have moved

    def find(self, prefix: str) -> Mapping[str, str]:
        with self._lock:
            jobs = self._jobs.items()
            return {h.name: n for n, h in jobs if h.name.startswith(prefix) and not h.state.ended}

    @property
    def size(self) -> int:
        """How many nodes the allocation has."""
        return len(self._nodes)

    @property
    def remaining(self) -> float:
        """Seconds that a block can still last."""
        return self._end - KEPT - time.monotonic()

    def close(self) -> None:
        """End all that runs, and wait for it: nothing outlives the allocation's controller."""
        atexit.unregister(self.close)
        self.cancel(list(self._jobs))
        for held in list(self._jobs.values()):
            if held.process is not None:
                _end_tree(held.process)

    def _fill(self) -> None:
        """Start jobs in their order while their nodes are free: a large one is not overtaken."""
        for held in self._jobs.values():
            if held.state is not JobState.PENDING:
                continue
            if held.nodes > len(self._free):
                nodes = counted(held.nodes, "node")
                held.reason = f"waits for {nodes} of the allocation; {len(self._free)} are free"
                return
            held.places = tuple(self._free[: held.nodes])
            try:
                held.process = self._start(held)
            except OSError as error:
                held.state, held.reason = JobState.FAILED, f"cannot be started: {error.strerror}"
                continue
            self._free = self._free[held.nodes :]
            held.state, held.reason = JobState.RUNNING, ""
            threading.Thread(target=self._mind, args=(held, held.process), daemon=True).start()

    def _start(self, held: _InnerJob) -> subprocess.Popen[bytes]:
        """Run a job's script with the allocation's own variables, as if there were no other nodes."""
        nodes = [self._nodes[place] for place in held.places]
        changed: dict[str, str | None] = {
            **os.environ,
            "DIEL_NODES": ",".join(nodes),
            "DIEL_NODE_NUMBERS": " ".join(map(str, held.places)),
            **self._outer.narrowed(nodes, held.script),
        }
        return subprocess.Popen(
            ["/bin/bash", str(held.script)],
            env={name: value for name, value in changed.items() if value is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _mind(self, held: _InnerJob, process: subprocess.Popen[bytes]) -> None:
        """Wait for a job's end, up to its walltime; then its nodes are free."""
        late = False
        try:
            process.wait(max(0.0, min(held.walltime, self.remaining)))
        except subprocess.TimeoutExpired:
            late = True
            _end_tree(process)
        code = process.wait()
        if held.ending is not None:  # what the script started may live a little longer than it
            held.ending.join()
        with self._lock:
            held.exit_code = code
            held.state, held.reason = _end_state(code, late=late, cancelled=held.cancelled)
            self._free = sorted([*self._free, *held.places])
            self._fill()


def _end_state(code: int, *, late: bool, cancelled: bool) -> tuple[JobState, str]:
    if cancelled:
        return JobState.CANCELLED, "cancelled"
    if late:
        return JobState.TIMEOUT, "its walltime is over"
    if code == 0:
        return JobState.COMPLETED, ""
    return JobState.FAILED, f"exit code {code}" if code > 0 else f"killed by signal {-code}"


def _header(script: Path) -> dict[str, str]:
    lines = script.read_text(encoding="utf-8").splitlines()
    return {match[1]: match[2] for line in lines if (match := _HEADER.fullmatch(line))}


def _end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process and its descendants with SIGTERM, then with SIGKILL."""
    tree = _tree(process.pid)
    for member in tree:
        with contextlib.suppress(psutil.Error):
            member.terminate()
    end = time.monotonic() + GRACE
    while time.monotonic() < end and any(map(_lives, tree)):
        time.sleep(0.05)
    for member in {*tree, *_tree(process.pid)}:
        with contextlib.suppress(psutil.Error):
            member.kill()


def _tree(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def inside_here(outer: Scheduler) -> AllocationScheduler | None:
    """Return the scheduler of this controller's allocation; None if it does not live in one. `outer` is
    the site's scheduler. Raise SchedulerBusy if the allocation's nodes cannot be found out."""
    end = os.environ.get(END)
    if end is None:
        return None
    nodes = tuple(dict.fromkeys(outer.allocation()))
    if not nodes:
        raise SchedulerBusy("this process is not in an allocation with known nodes")
    return AllocationScheduler(outer, nodes, outer.job_id() or f"p{os.getpid()}", float(end))
