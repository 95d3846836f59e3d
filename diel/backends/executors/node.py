"""Holds one node of a block: runs Parsl's worker pool there, and leaves no process behind.

    python -m diel.backends.executors.node COMMAND [ARG...]

A process that made a session of its own survives the scheduler's kill (some see only what they started);
every process of this node's share of the block carries DIEL_NODE, so that it is found all the same.

A node with nothing to do whose script a later controller rewrote begins that script.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from diel.backends.executors.script import VARIABLE, Scratch
from diel.base.errors import JournalError
from diel.base.paths import RunPaths
from diel.base.states import FailureClass
from diel.store.journal.records import Start, WorkerRecord
from diel.store.journal.segment import SegmentWriter, read_segment, segments, worker_segment_name
from diel.store.project.lease import driver, lives
from diel.store.project.requests import ALL, fenced
from diel.worker.attempt.block import own_node
from diel.worker.attempt.reaper import kill_marked
from diel.worker.energy import EnergyMeter, meter_for

PATIENCE = 1.0
"""Seconds that the pool has to end on its own: schedulers kill after two to thirty."""
DRAIN = "--drain_period="
GPU_LISTS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
ENDED = 128 + signal.SIGTERM
LOOK = 2.0
ORPHAN = 600.0
"""An idle node ends after so many seconds without a heartbeat of the run's controller, by its own clock."""
_EPOCH = re.compile(r"^export DIEL_CONTROLLER_EPOCH=([0-9]+)$", re.MULTILINE)


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
        """Start a process, in its own session, that clears the node if this dies; return pid and file."""
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
        """Run the pool, and again if its controller was gone and comes back; return its exit code."""
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

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """SIGTERM may come twice: from the node and from its spreader."""
        self._asked = True
        self._ending |= number == signal.SIGTERM
        if self._can_stop:
            self._can_stop = False
            raise _Stop

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Run a `with` block that a signal ends, at once where the signal came before."""
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
    """Return the pool's command, whose drain period counts from the block's start and not from now."""
    try:
        age = time.time() - float(environ["DIEL_BLOCK_END"]) + float(environ["DIEL_BLOCK_WALLTIME"])
    except (KeyError, ValueError):
        return list(words)
    return [
        f"{DRAIN}{max(1, round(float(word.removeprefix(DRAIN)) - age))}" if word.startswith(DRAIN) else word
        for word in words
    ]


class Controllers:
    """The controllers of a run, as one node of its blocks sees them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._paths = RunPaths(Path(environ["DIEL_RUN_DIR"]))
        self._epoch = int(environ["DIEL_CONTROLLER_EPOCH"])
        self._heard, self._since = self.heartbeat(), time.monotonic()
        self.script = self._paths.node_script(environ["DIEL_BLOCK"])

    def renewed(self) -> bool:
        """Return whether a later controller rewrote this node's script."""
        if not self._is_superseded():  # asked by many nodes, again and again: that is cheaper than to read
            return False
        try:
            written = _EPOCH.search(self.script.read_text(encoding="utf-8", errors="surrogateescape"))
        except OSError:
            return False
        return written is not None and int(written[1]) > self._epoch

    def is_driven(self) -> bool:
        """Return whether the controller that wrote this node's script drives the run."""
        held = driver(self._paths)
        return held is not None and held[0].epoch == self._epoch

    def is_heard_since(self, heartbeat: float) -> bool:
        """Return whether that controller has sent a heartbeat since then."""
        return not self._is_superseded() and self.heartbeat() != heartbeat

    def is_lost(self) -> bool:
        """Return whether that controller is gone; of one on another host only its next heartbeat tells."""
        heard = self.heartbeat()
        while self.is_driven():
            if self.heartbeat() != heard:
                return False
            time.sleep(LOOK)
        return not self.is_heard_since(heard)

    def is_abandoned(self) -> bool:
        """Return whether no controller has sent a heartbeat for long."""
        heard = self.heartbeat()
        if heard != self._heard:
            self._heard, self._since = heard, time.monotonic()
        return time.monotonic() - self._since > ORPHAN

    def _is_superseded(self) -> bool:
        return self._paths.controller_segment(self._epoch + 1).exists()

    def heartbeat(self) -> float:
        """Return when a controller last sent a heartbeat, by the file system's clock; 0 without a run."""
        try:
            with open(self._paths.lease, "rb") as file:
                return os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return 0.0


class Orphans:
    """The tasks of one node's share of a block, once the block's controller is gone. The next controller
    hears nothing of them from Parsl: the keeper records in a segment of its own those whose worker died."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._paths = RunPaths(Path(environ["DIEL_RUN_DIR"]))
        self._block, self._node = environ["DIEL_BLOCK"], own_node(environ)
        self._epoch = int(environ["DIEL_CONTROLLER_EPOCH"])
        self._others: set[str] = set()
        """Segments of other nodes' workers."""
        self._told: set[str] = set()
        """Segments of workers whose end is recorded."""
        self._segment: SegmentWriter | None = None

    def is_idle(self) -> bool:
        """Return whether none of this node's workers is running a task."""
        names = (name for name in self._own() if name not in self._told)
        return all(_open_attempt(self._paths.journal / name) is None for name in names)

    def are_given_up(self) -> bool:
        """Return whether the controller gave up for lost this block, or one of this node's workers."""
        given_up = fenced(self._paths, self._block)
        return bool(given_up) and (
            ALL in given_up or any(name in given_up and self._lives(name) for name in self._own())
        )

    def has_worked(self) -> bool:
        """Return whether this node ever had a worker."""
        return next(self._own(), None) is not None

    def look(self) -> None:
        """Record which tasks were lost. Does nothing while the block's own controller may live."""
        if not self._paths.controller_segment(self._epoch + 1).exists():
            return
        for name in self._own():
            if name in self._told or self._lives(name):
                continue
            attempt = _open_attempt(self._paths.journal / name)
            if attempt is not None:
                self._tell(attempt)
            self._told.add(name)

    def _own(self) -> Iterator[str]:
        prefix = f"worker-{self._epoch:04d}-{socket.gethostname()}-"
        for name in segments(self._paths.journal):
            if name.startswith(prefix) and name not in self._others:
                worker = self._worker(name)
                if worker is None:
                    continue
                if (worker.get("block"), worker.get("node")) == (self._block, self._node):
                    yield name
                else:
                    self._others.add(name)

    def _lives(self, name: str) -> bool:
        """Return whether a worker of this node may be alive."""
        worker = self._worker(name)
        return worker is None or lives(worker["pid"], worker.get("birth", "")) is not False

    def _worker(self, name: str) -> WorkerRecord | None:
        """Return what a worker wrote about itself; empty until it has."""
        record = next(read_segment(self._paths.journal / name), (0, 0, None))[2]
        return record if record is not None and record["event"] == "worker" else None

    def _tell(self, attempt: Start) -> None:
        stage, index, number = attempt["stage"], attempt["index"], attempt["attempt"]
        # A command outlives its worker, and must not run beside the next attempt.
        kill_marked("DIEL_TASK_DIR", str(self._paths.task_dir(stage, index, number)))
        if self._segment is None:
            name = worker_segment_name(self._epoch, socket.gethostname(), os.getpid())
            self._segment = SegmentWriter(self._paths.journal / name)
        self._segment.append(
            {
                "event": "fail",
                "stage": stage,
                "index": index,
                "attempt": number,
                "time": time.time(),
                "class": FailureClass.NODE,
                "message": "its worker died while the run's controller was gone",
            }
        )


def _open_attempt(segment: Path) -> Start | None:
    begun = None
    for _, _, record in read_segment(segment):
        if record is not None and record["event"] == "start":
            begun = record
        elif record is not None and (record["event"] == "done" or record["event"] == "fail"):
            begun = None
    return begun


if __name__ == "__main__":
    sys.exit(NodeKeeper(sys.argv[1:], os.environ).run())
