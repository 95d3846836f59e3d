"""Holds one node of a block: runs Parsl's worker pool there, and leaves no process behind.

    python -m diel.executors.node COMMAND [ARG...]

A process that made a session of its own survives the scheduler's kill (some see only what they started);
every process of this node's share of the block carries DIEL_NODE, so that it is found all the same.

A node with nothing to do whose script a later controller rewrote begins that script.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from diel.attempt.block import own_node
from diel.attempt.reaper import kill_marked
from diel.energy import EnergyMeter, meter_for
from diel.errors import JournalError
from diel.executors.orphans import Orphans
from diel.executors.scratch import VARIABLE, Scratch
from diel.executors.succession import LOOK, Controllers

PATIENCE = 1.0
"""Seconds that the pool has to end on its own: schedulers kill after two to thirty."""
DRAIN = "--drain_period="
GPU_LISTS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
ENDED = 128 + signal.SIGTERM


class _Stop(Exception):
    """This node's work must end: the scheduler asks for that, or a later controller wants the node."""


class NodeKeeper:
    """One node of a block, for one controller."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str]) -> None:
        """`words` are the pool's command."""
        self._words = words
        self._environ = environ
        self._mark = f"{environ.get('DIEL_RUN_DIR', '')}:{environ.get('DIEL_BLOCK', '')}/{own_node(environ)}"
        self._orphans = Orphans(environ)
        self._succession = Controllers(environ)
        self._scratch = Scratch()
        self._pool: subprocess.Popen[bytes] | None = None
        self._can_stop = False
        self._meter: EnergyMeter | None = None
        self._asked = False
        self._ending = False
        self._given_up = False
        """Whether the controller gave this node up for lost: its tasks run elsewhere."""

    def run(self) -> int:
        """Run the pool to its end, or SIGTERM, and clear the node; then run a later controller's script."""
        guard, alive = self._begin_guard()
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGUSR1, self._on_signal)
        if self._environ.get("DIEL_RUN_DIR"):
            place = Path(self._environ["DIEL_RUN_DIR"]) / "energy"
            block = self._environ.get("DIEL_BLOCK", "")
            self._meter = meter_for(place / f"{block}-{own_node(self._environ)}.json")
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            code = self._work()
        except _Stop:
            self._stop_pool()
            code = ENDED if self._ending else 0
        finally:
            self._clear()
        if self._meter is not None:
            self._meter.look(now=True)
        os.close(alive)
        os.waitpid(guard, 0)  # it must not remove what a later controller begins here
        # From here on SIGTERM may end this process: there is nothing left to clear.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if not (self._ending or self._given_up) and self._succession.renewed():
            os.execv("/bin/sh", ["/bin/sh", str(self._succession.script)])
        return code

    def _begin_guard(self) -> tuple[int, int]:
        """Start a process, in its own session, that clears the node if this dies; returns pid and file."""
        ears, alive = os.pipe()
        guard = os.fork()
        if guard:
            os.close(ears)
            return guard, alive
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.close(alive)
            for number in range(3):  # whoever waits for the job's output must not wait for this
                os.dup2(ears, number)
            os.read(ears, 1)
            self._clear()
        finally:
            os._exit(0)

    def _clear(self) -> None:
        kill_marked("DIEL_NODE", self._mark)
        self._scratch.remove()

    def _work(self) -> int:
        """Runs the pool, and again if its controller was gone and comes back; returns its exit code."""
        while True:
            code = self._run_pool()
            with self._stoppable():
                if not code or self._orphans.has_worked() or not self._succession.is_lost():
                    return code
                heard = self._succession.heartbeat()
                while not self._succession.is_heard_since(heard):  # the watch handles another one, or none
                    time.sleep(LOOK)

    def _run_pool(self) -> int:
        granted = next((self._environ[name] for name in GPU_LISTS if self._environ.get(name)), "")
        own = {"DIEL_NODE": self._mark, VARIABLE: str(self._scratch.path), "DIEL_BLOCK_GPUS": granted}
        if hosts := self._environ.get("DIEL_NODE_FILE"):
            own["PBS_NODEFILE"] = hosts  # Parsl has two ways to hear of nodes: Slurm's, and this for all else
        env = {**self._environ, **own}
        if self._asked:
            raise _Stop
        # Of this session: the scheduler sees it as well. Not to be interrupted: what is just being made
        # would neither be known here nor carry the mark yet.
        self._pool = subprocess.Popen(_aged(self._words, self._environ), env=env)
        with self._stoppable():
            return self._pool.wait()

    def _watch(self) -> None:
        """In a thread of its own: looks whether to change to another controller, or to end."""
        while True:
            time.sleep(LOOK)
            if self._meter is not None:
                self._meter.look()
            with contextlib.suppress(OSError, JournalError):  # a full disk, perhaps: the next look may tell
                self._orphans.look()
                self._given_up = self._orphans.are_given_up()
                leave = self._succession.renewed() or self._succession.is_abandoned()
                if self._given_up or (leave and self._orphans.is_idle()):
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                    return

    # --- its end ----------------------------------------------------------------------------------

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """SIGTERM may come twice: from the node and from its spreader."""
        self._asked = True
        self._ending |= number == signal.SIGTERM
        if self._can_stop:
            self._can_stop = False
            raise _Stop

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[None]:
        """A `with` block that a signal ends; a signal that came before ends it at once."""
        self._can_stop = True
        try:
            if self._asked:
                raise _Stop
            yield
        finally:
            self._can_stop = False

    def _stop_pool(self) -> None:
        if self._pool is not None:
            with contextlib.suppress(ProcessLookupError):
                self._pool.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._pool.wait(PATIENCE)


def _aged(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The pool's command, whose drain period counts from the block's start and not from now."""
    try:
        age = time.time() - float(environ["DIEL_BLOCK_END"]) + float(environ["DIEL_BLOCK_WALLTIME"])
    except (KeyError, ValueError):
        return list(words)
    return [
        f"{DRAIN}{max(1, round(float(word.removeprefix(DRAIN)) - age))}" if word.startswith(DRAIN) else word
        for word in words
    ]


if __name__ == "__main__":
    sys.exit(NodeKeeper(sys.argv[1:], os.environ).run())
