"""The watchdog of a worker: a thread that ends an attempt that must not go on.

A command is ended by signals to its process group; a function by the end of its worker, once the failure is
committed. A command that keeps checkpoints gets SIGTERM before the end of its walltime, its block, or its
timeout if its stage has a `grace`; a function asks `context.interrupted`, and `timeout` tells each rank.
"""

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping

from diel.base.carried import PYTHON
from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.base.states import FailureClass
from diel.base.values import format_duration, format_size
from diel.store.project.requests import Cancel, changed, read_cancels, read_stops
from diel.worker.attempt.block import NO_LIMITS, Limits
from diel.worker.attempt.bundle import Failure, Request, Work
from diel.worker.attempt.ipc import is_cut
from diel.worker.attempt.launcher import Launches
from diel.worker.attempt.mpi import World
from diel.worker.attempt.reaper import GRACE, ask_group, ask_leader, end_marked, kill_children, signal_group
from diel.worker.attempt.usage import Usage, descendants, proportional, resident
from diel.worker.environments.prepared import PreparedEnvironment

TICK = 0.2
RELEASE_AFTER = 1.0
"""Seconds that one task can take before the rest of its bundle is handed back."""
PATIENCE = 2.0
"""Seconds that a pruned function may go on to its next report: what another worker costs to start."""
SHORT_GRACE = 0.5
"""Seconds from SIGTERM to SIGKILL if no user asked for the stop: a pruned trial is gone within 2 s."""
LATE = 3.0
"""Seconds beyond its timeout after which a function is ended that blocks even this thread."""
SHARE = 0.02
"""The most of a core's time that measuring memory may take."""
EXIT_CODE = 70
"""Exit code of a worker that ended together with its task."""


class RunningAttempt:
    """An attempt: its request, and its progress so far."""

    environment: PreparedEnvironment | None = None
    """What it runs in; None for the worker's own surroundings."""
    inside: tuple[str, ...] = ()
    """Words before its program, or before that of each rank: those of its environment."""
    caller: tuple[str, ...] = (*PYTHON, "-m", "diel.worker.function_runner")
    """Words that call its function, where that needs a process of its own."""
    lent: tuple[str, ...] = ()
    """Folders of packages that such a process may take from this Python."""
    group: int | None = None
    """Process group of its command, once it began."""
    world: World | None = None
    launches: Launches | None = None
    """What its command starts ranks with, if it does so itself."""
    warned: bool = False
    ending: float | None = None
    """When it was first seen that its trial is pruned and that it reports, in time.monotonic seconds."""
    is_fetching: bool = False
    """Whether its inputs are on their way to the node: whoever copies them looks at the verdict."""
    verdict: Failure | None = None
    writing: Mapping[str, str] = {}
    """Files that it left open in another process, and what to say of each."""
    imports: Mapping[str, str] = {}
    """Files of the user that it executed and that no import names, each with the digest of its bytes."""

    def __init__(self, work: Work, request: Request, task_dir: str, limits: Limits = NO_LIMITS) -> None:
        self.work, self.request, self.task_dir, self.limits = work, request, task_dir, limits
        self.usage = Usage()
        self.began = time.monotonic()
        """In time.monotonic seconds."""
        self.epoch = time.time() - self.began
        """Added to time.monotonic, gives seconds since the epoch, by the clock when it began."""
        self.measure_at = self.began + TICK
        """When its memory is measured again, in time.monotonic seconds."""

    @property
    def in_process(self) -> bool:
        """Whether it is a Python function in the worker's own process."""
        work = self.work
        apart = work.apart or work.launcher or work.service is not None or self.environment is not None
        return work.module is not None and not apart

    @property
    def interrupted(self) -> bool:
        """Whether the time has come to save a checkpoint and stop."""
        return self.limits.interrupt is not None and self.epoch + time.monotonic() >= self.limits.interrupt


class Watchdog:
    """Watches one attempt at a time. `lock` guards the attempt; hold it to commit."""

    def __init__(
        self, paths: RunPaths, release: Callable[[], None], give_up: Callable[[Failure], None]
    ) -> None:
        self.lock = threading.RLock()
        self._paths = paths
        self._release = release
        self._give_up = give_up
        self._watched: RunningAttempt | None = None
        self._checked = 0.0
        threading.Thread(target=self._run, name="diel-watchdog", daemon=True).start()

    def begin(self, attempt: RunningAttempt) -> None:
        self._watched = attempt
        if attempt.work.timeout is not None and attempt.in_process:
            # A function in C can keep the interpreter, and so this thread, from running. The thread
            # behind this call needs no interpreter.
            faulthandler.dump_traceback_later(attempt.work.timeout + LATE, exit=True, file=2)

    def end(self) -> None:
        attempt = self._watched
        if attempt is not None and attempt.work.timeout is not None and attempt.in_process:
            faulthandler.cancel_dump_traceback_later()
        self._watched = None

    def end_now(self, *_: object) -> None:
        """End the running command and this process, as SIGTERM asks. Nothing is committed."""
        attempt = self._watched
        if attempt is not None and attempt.group is not None:
            signal_group(attempt.group, signal.SIGKILL)
        kill_children()
        os._exit(128 + signal.SIGTERM)

    def leave_child(self) -> None:
        """Leave a child that a function forked alone: SIGTERM ends it at once, as any process."""
        self._watched = None
        if signal.getsignal(signal.SIGTERM) == self.end_now:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def look_again(self) -> None:
        """Make the next look read the requests again, whatever was read for an earlier task."""
        self._checked = 0.0

    def _run(self) -> None:
        while True:
            time.sleep(TICK)
            attempt = self._watched
            if attempt is not None:
                with contextlib.suppress(OSError, DielError):  # a full disk, perhaps: the next look may do
                    self._look(attempt)

    def _look(self, attempt: RunningAttempt) -> None:
        age = time.monotonic() - attempt.began
        drains = attempt.work.staging is not None and attempt.work.staging.drains
        if age > RELEASE_AFTER and not drains:  # those that drain must run while outputs are copied
            self._hand_back()
        if attempt.verdict is not None:
            return
        if attempt.request.streams is not None and is_cut():
            self.end_now()  # it would wait forever: another controller's tasks begin again
        if self._is_cancelled(attempt) and not self._ends_itself(attempt):
            self._hand_back()  # the rest of the bundle may be cancelled too
            self._stop(attempt, Failure(FailureClass.CANCELLED, "cancelled"))
            return
        verdict = _out_of_time(attempt, age) or _out_of_memory(attempt)
        if verdict is None and attempt.world is not None:
            verdict = attempt.world.look()
        if verdict is not None:
            self._stop(attempt, verdict)
        elif attempt.interrupted and not attempt.warned:
            self._warn(attempt)

    def _hand_back(self) -> None:
        """Release the rest of the bundle; what cannot be written on a full disk keeps no task running."""
        with contextlib.suppress(OSError, DielError):
            self._release()

    def _warn(self, attempt: RunningAttempt) -> None:
        """Warns a command that keeps checkpoints of its end."""
        with self.lock:
            if self._watched is attempt and attempt.group is not None:
                attempt.warned = True
                if attempt.work.launches:
                    ask_leader(attempt.group)  # its ranks are told one by one
                elif not attempt.work.launcher:
                    ask_group(attempt.group)

    def _is_cancelled(self, attempt: RunningAttempt) -> bool:
        now = changed(self._paths)
        if now == self._checked:
            return False
        if not any(_covers(cancel, attempt) for cancel in read_stops(self._paths)):
            self._checked = now  # nothing for this task; a later task looks again
            return False
        return True

    def _ends_itself(self, attempt: RunningAttempt) -> bool:
        """Return whether a function's next report will tell it that it is pruned; its worker lives on."""
        if attempt.work.module is None or attempt.work.launcher or not self._is_hasty(attempt):
            return False
        if attempt.ending is None and os.path.exists(f"{attempt.task_dir}/.metrics.jsonl"):
            attempt.ending = time.monotonic()
        return attempt.ending is not None and time.monotonic() - attempt.ending < PATIENCE

    def _stop(self, attempt: RunningAttempt, verdict: Failure) -> None:
        with self.lock:
            if self._watched is attempt and attempt.is_fetching:
                attempt.verdict = verdict
                return
            if self._watched is not attempt or (attempt.group is None and not attempt.in_process):
                return
            attempt.verdict = verdict
            if attempt.group is None:
                try:
                    self._give_up(verdict)
                finally:  # what cannot be written, its end tells
                    kill_children()
                    os._exit(EXIT_CODE)
            signal_group(attempt.group, signal.SIGTERM)
        hasty = verdict.kind == FailureClass.CANCELLED and self._is_hasty(attempt)
        grace = SHORT_GRACE if hasty else GRACE
        patience = time.monotonic() + grace
        while self._watched is attempt and time.monotonic() < patience:
            time.sleep(TICK / 4)
        with self.lock:
            if self._watched is attempt:
                signal_group(attempt.group, signal.SIGKILL)
        end_marked("DIEL_TASK_DIR", attempt.task_dir, grace)

    def _is_hasty(self, attempt: RunningAttempt) -> bool:
        """Return whether the controller cancelled it, and not a user, who leaves it time to end."""
        with contextlib.suppress(OSError):  # a shared disk that cannot be read must not keep it alive
            return not any(_covers(cancel, attempt) for cancel in read_cancels(self._paths))
        return False


def _covers(cancel: Cancel, attempt: RunningAttempt) -> bool:
    return cancel.covers(attempt.work.stage, attempt.request.index)


def _out_of_time(attempt: RunningAttempt, age: float) -> Failure | None:
    """Return why an attempt must not run any longer; None if it may."""
    work, limits = attempt.work, attempt.limits
    ignored = "; it was warned before, and continued" if attempt.interrupted else ""
    if work.timeout is not None and age > work.timeout:
        return Failure(FailureClass.TIMEOUT, f"ran longer than its timeout of {work.timeout:g} s{ignored}")
    now = attempt.epoch + attempt.began + age
    if limits.walltime is not None and now > limits.walltime:
        message = f"ran longer than its walltime of {format_duration(work.walltime or 0.0)}"
    elif limits.block is not None and now > limits.block:
        message = "its block ended before it did"
    else:
        return None
    return Failure(FailureClass.WALLTIME, message + ignored)


def _out_of_memory(attempt: RunningAttempt) -> Failure | None:
    memory = attempt.work.memory
    root = os.getpid() if attempt.in_process else attempt.group
    if root is None or time.monotonic() < attempt.measure_at:
        return None
    began = time.thread_time()
    used = attempt.usage.look(root)
    if memory is not None and used > memory:
        foreign = attempt.usage.foreign
        used = memory_of(root, memory + foreign) - foreign
    attempt.measure_at = time.monotonic() + (time.thread_time() - began) / SHARE
    if memory is None or used <= memory:
        return None
    own = ", its worker's own included" if attempt.in_process else ""
    return Failure(
        FailureClass.OOM, f"took {format_size(used)} of memory{own}: more than its {format_size(memory)}"
    )


def memory_of(root: int, limit: int) -> int:
    """Add up what a process and its descendants take; above a limit, what they share counts once."""
    processes = [root, *descendants(root)]
    used = sum(map(resident, processes))
    return used if used <= limit else sum(map(proportional, processes))
