"""The watchdog of a worker: a thread that ends an attempt which must not go on.

A command is ended by signals to its process group. A Python function shares the worker's process, so
the worker ends with it: the failure is committed first, and Parsl starts another worker.

A command that keeps checkpoints gets SIGTERM some time before the end of its walltime or its block;
a function asks `context.interrupted`. Ranks get theirs from `timeout` in front of each
(`diel/attempt/command.py`), for not every launcher passes it on.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from diel.attempt.bundle import Failure, Job
from diel.attempt.lifeline import is_cut
from diel.attempt.limits import Limits
from diel.attempt.memory import Meter
from diel.attempt.ports import keep_at_home
from diel.attempt.reaper import GRACE, ask_group, end_marked, kill_children, signal_group
from diel.attempt.world import World
from diel.paths import RunPaths
from diel.project.requests import changed, read_cancels, read_stops
from diel.states import FailureClass
from diel.values import format_duration, format_size

TICK = 0.2
"""Seconds between two looks."""
RELEASE_AFTER = 1.0
"""Seconds that one task may take before the rest of its bundle is handed back."""
SHORT_GRACE = 0.5
"""Seconds from SIGTERM to SIGKILL for what no user asked to stop: a pruned trial is gone within 2 s."""
LATE = 3.0
"""Seconds beyond its timeout after which a function is ended that does not even let this thread run."""
EXIT_CODE = 70
"""Exit code of a worker that ended together with its task."""


@dataclass
class Watched:
    """The attempt that is running."""

    stage: str
    index: int
    task_dir: str
    began: float
    """In time.monotonic seconds."""
    epoch: float
    """What to add to time.monotonic for seconds since the epoch, as the clock was when it began."""
    timeout: float | None
    in_process: bool = False
    """Whether it is a Python function in the worker's own process."""
    limits: Limits = field(default_factory=Limits)
    memory: int | None = None
    """Bytes that it may take; None where nothing was said."""
    walltime: float | None = None
    group: int | None = None
    """Process group of its command, once it began."""
    ranks: bool = False
    """Whether an MPI launcher leads that group."""
    world: World | None = None
    """Its MPI ranks, once they began."""
    doors: int = 0
    """How often ports of its launcher are still to be looked for, to keep them from other hosts."""
    told: bool = False
    """Whether its command was told that its end comes."""
    staging: bool = False
    """Whether its inputs are on their way to the node: who copies them looks at the verdict."""
    streams: bool = False
    """Whether streams join it to others, which a controller opens and closes."""
    keeps: bool = False
    """Whether the rest of its bundle stays with the worker, to run while this one's outputs are copied."""
    verdict: Failure | None = None
    """Why it was ended, once it was."""
    meter: Meter = field(default_factory=Meter)

    @property
    def interrupted(self) -> bool:
        """Whether the time has come to save a checkpoint and stop."""
        return self.limits.interrupt is not None and self.epoch + time.monotonic() >= self.limits.interrupt


def watched_of(job: Job, index: int, task_dir: str, limits: Limits, *, streams: bool = False) -> Watched:
    """What the watchdog has to know of an attempt that begins now."""
    began = time.monotonic()
    return Watched(
        job.stage,
        index,
        task_dir,
        began,
        time.time() - began,
        job.timeout,
        job.module is not None and not job.launcher and job.service is None,
        limits,
        job.memory,
        job.walltime,
        ranks=bool(job.launcher),
        streams=streams,
        keeps=bool(job.staging is not None and job.staging.drains),
    )


class Watchdog:
    """Watches one attempt at a time. `lock` guards the attempt; hold it to commit."""

    def __init__(
        self, paths: RunPaths, release: Callable[[], None], give_up: Callable[[Failure], None]
    ) -> None:
        self.lock = threading.RLock()
        self._paths = paths
        self._release = release
        self._give_up = give_up
        self._watched: Watched | None = None
        self._seen = 0.0
        threading.Thread(target=self._run, name="diel-watchdog", daemon=True).start()

    def begin(self, watched: Watched) -> None:
        self._watched = watched
        if watched.in_process and watched.timeout is not None:
            # A function in C may keep the interpreter, and so this thread, from running. The thread
            # behind this call needs no interpreter.
            faulthandler.dump_traceback_later(watched.timeout + LATE, exit=True, file=2)

    def end(self) -> None:
        if self._watched is not None and self._watched.in_process:
            faulthandler.cancel_dump_traceback_later()
        self._watched = None

    def end_now(self, *_: object) -> None:
        """Ends the running command and this process: what SIGTERM asks for. Nothing is committed."""
        watched = self._watched
        if watched is not None and watched.group is not None:
            signal_group(watched.group, signal.SIGKILL)
        kill_children()
        os._exit(128 + signal.SIGTERM)

    def _run(self) -> None:
        while True:
            time.sleep(TICK)
            watched = self._watched
            if watched is not None:
                self._look(watched)

    def _look(self, watched: Watched) -> None:
        age = time.monotonic() - watched.began
        if age > RELEASE_AFTER and not watched.keeps:
            self._release()
        if watched.verdict is not None:
            return
        if watched.doors and watched.group is not None and keep_at_home(watched.group):
            watched.doors -= 1
        if watched.streams and is_cut():
            self.end_now()  # it would wait for ever: another controller's tasks begin anew
        if self._is_cancelled(watched):
            self._release()  # the rest of the bundle may be cancelled too
            self._stop(watched, Failure(FailureClass.CANCELLED, "cancelled"))
            return
        verdict = _out_of_time(watched, age) or _out_of_memory(watched) or _apart(watched)
        if verdict is not None:
            self._stop(watched, verdict)
        elif watched.interrupted and not watched.told:
            self._tell(watched)

    def _tell(self, watched: Watched) -> None:
        """Tells a command that keeps checkpoints that its end comes."""
        with self.lock:
            if self._watched is watched and watched.group is not None:
                watched.told = True
                if not watched.ranks:
                    ask_group(watched.group)

    def _is_cancelled(self, watched: Watched) -> bool:
        now = changed(self._paths)
        if now == self._seen:
            return False
        cancels = read_stops(self._paths)
        if not any(cancel.covers(watched.stage, watched.index) for cancel in cancels):
            self._seen = now  # nothing for this task; a later task looks again
            return False
        return True

    def _may_take_time(self, watched: Watched, verdict: Failure) -> bool:
        """Whether an end may take its time: a controller's stop may not."""
        return verdict.kind != FailureClass.CANCELLED or any(
            cancel.covers(watched.stage, watched.index) for cancel in read_cancels(self._paths)
        )

    def look_again(self) -> None:
        """Makes the next look read the requests, whatever was read for an earlier task."""
        self._seen = 0.0

    def _stop(self, watched: Watched, verdict: Failure) -> None:
        with self.lock:
            if self._watched is watched and watched.staging:
                watched.verdict = verdict
                return
            if self._watched is not watched or (watched.group is None and not watched.in_process):
                return
            watched.verdict = verdict
            if watched.group is None:
                self._give_up(verdict)
                kill_children()
                os._exit(EXIT_CODE)
            signal_group(watched.group, signal.SIGTERM)
        grace = GRACE if self._may_take_time(watched, verdict) else SHORT_GRACE
        patience = time.monotonic() + grace
        while self._watched is watched and time.monotonic() < patience:
            time.sleep(TICK / 4)
        with self.lock:
            if self._watched is watched:
                signal_group(watched.group, signal.SIGKILL)
        end_marked("DIEL_TASK_DIR", watched.task_dir, grace)


def _out_of_time(watched: Watched, age: float) -> Failure | None:
    """Why an attempt must not run any longer; None where it may."""
    if watched.timeout is not None and age > watched.timeout:
        message = f"ran longer than its timeout of {watched.timeout:g} s"
        return Failure(FailureClass.TIMEOUT, message)
    now, limits = watched.epoch + watched.began + age, watched.limits
    if limits.walltime is not None and now > limits.walltime:
        message = f"ran longer than its walltime of {format_duration(watched.walltime or 0.0)}"
    elif limits.block is not None and now > limits.block:
        message = "its block ended before it did"
    else:
        return None
    ignored = "; it was told so before, and went on" if watched.interrupted else ""
    return Failure(FailureClass.WALLTIME, message + ignored)


def _apart(watched: Watched) -> Failure | None:
    """Why ranks that are not one world must not go on; None where nothing shows that."""
    return None if watched.world is None else watched.world.look()


def _out_of_memory(watched: Watched) -> Failure | None:
    root = os.getpid() if watched.in_process else watched.group
    if watched.memory is None or root is None:
        return None
    used = watched.meter.exceeds(root, watched.memory)
    if not used:
        return None
    took, limit = format_size(used), format_size(watched.memory)
    own = ", its worker's own included" if watched.in_process else ""
    return Failure(FailureClass.OOM, f"took {took} of memory{own}: more than its {limit}")
