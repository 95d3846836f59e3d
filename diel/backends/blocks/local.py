"""This machine as a backend: cores are counted, and shared by all tasks."""

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING

import psutil

from diel.backends.blocks.block import Adopt, Outlook, ServiceLoad
from diel.base.carried import PYTHON, kept_variables
from diel.base.errors import DielError, NotBegun, WorkerLost
from diel.base.values import format_duration
from diel.planning.plan import Plan
from diel.site.shape import Shape
from diel.tasks.ledger import Ledger
from diel.worker.attempt.bundle import Bundle
from diel.worker.attempt.ipc import SPENT, is_readable, receive, send
from diel.worker.attempt.reaper import mark, wait_ended

_PAUSE = 0.3
"""Seconds that a thread waits after a worker that could run nothing, before its next bundle."""
_PATIENCE = 5.0
"""Seconds that processes get to end once they were killed."""
_REASON = 500

if TYPE_CHECKING:
    from diel.worker.energy import EnergyMeter

MEASURED_BY = ("/sys/class/powercap", "/dev/nvidiactl")
LONG = 5.0
"""Seconds without a worker after which `status` says what the run waits for."""


class ThisMachine:
    """Worker processes of this machine. `Blocks` explains its methods."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plan = plan
        self._ledger = ledger
        self._pipes: Pipes | None = None
        self._out: dict[int, int] = {}
        self._load = 0
        self._holding: ServiceLoad | None = None
        self._waits = False
        self._meter: EnergyMeter | None = None
        if any(map(os.path.exists, MEASURED_BY)):
            from diel.worker.energy import meter_for  # here: few machines tell

            self._meter = meter_for(ledger.paths.energy / f"{ledger.segment.path.stem}.json")

    def line(self, shape: Shape) -> str:
        return ""  # all share the same cores: a task with many of them gets its turn

    def has_room(self, shape: Shape, cores: int) -> bool:
        """Let bundles of one-core tasks wait in twos a core; tasks with several share none of theirs."""
        if not cores:
            return True  # it shares the cores of those that ask it
        capacity = self._capacity
        small = cores == 1 and all(other <= 1 for other in self._out.values())
        return self._load + cores <= (2 * capacity if small else capacity)

    def has_room_for(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        return self._load + sum(cores for _, cores in tasks) <= self._capacity

    def could_hold(self, tasks: Sequence[tuple[Shape, int]]) -> bool:
        return sum(cores for _, cores in tasks) <= self._capacity

    @property
    def _capacity(self) -> int:
        return self._plan.capacity - (0 if self._holding is None else self._holding.cores)

    def width(self, shape: Shape) -> int:
        return self._plan.capacity

    def bundles(self, shape: Shape) -> bool:
        return shape.cores == 1 and not shape.nodes

    def submit(self, shape: Shape, cores: int, bundle: Bundle) -> Future[bytes]:
        if bundle.work.service is not None:
            self._holding = self._holding or ServiceLoad(self._plan)
            self._holding.take(bundle, shape, cores)
        else:
            self._out[bundle.number] = cores
            self._load += cores
        if self._pipes is None:
            workers = self._plan.capacity + self._plan.extra_workers
            self._pipes = Pipes(workers, kept_variables(mark(self._ledger.paths.root)))
        return self._pipes.submit(bundle)

    def ended(self, number: int) -> None:
        self._load -= self._out.pop(number, 0)
        if self._holding is not None:
            self._holding.ended(number)

    def tend(self, outlook: Outlook) -> None:
        """Report problems of workers, and what the run waits for. Raise DielError if none ever started."""
        if self._meter is not None:
            self._meter.look()
        if self._pipes is None:
            return
        self._tell(self._pipes)
        waited, patience = self._pipes.starting, self._plan.site.startup
        if waited > patience:
            raise DielError(
                f"no worker started within {format_duration(patience)}: this machine is busy, or Python "
                f"loads slowly here; `diel doctor` checks it, and `startup` of the site says how long to wait"
            )
        if self._waits != (waited > LONG):
            self._waits = not self._waits
            longest = format_duration(patience)
            message = f"no worker has started yet; they get up to {longest} (`startup` of the site)"
            self._ledger.trouble(message if self._waits else "")

    def _tell(self, pipes: "Pipes") -> None:
        while not pipes.news.empty():
            self._ledger.trouble(pipes.news.get())

    def knows(self, since: float) -> bool:
        return True

    def adopt(self, take: Adopt) -> None:
        """Adopt nothing: only a task can outlive its controller here, and the next controller ends it."""

    @property
    def left(self) -> tuple[str, ...]:
        return ()

    def detach(self) -> None:
        self.stop()

    def stop(self) -> None:
        if self._meter is not None:
            self._meter.look(now=True)
        if self._pipes is None:
            return
        with contextlib.suppress(DielError):  # the disk may be full
            self._tell(self._pipes)
        self._pipes.stop()


class Pipes:
    """Worker processes, forked as threads need them from a server that starts at once."""

    def __init__(self, workers: int, environ: Mapping[str, str]) -> None:
        """`environ` is the environment of workers and tasks."""
        self._environ = environ
        self._threads = ThreadPoolExecutor(workers, "diel-pipe")
        self._lock = threading.Lock()
        self._stopped = False
        self._idle: list[Pipe] = []
        self._server = WorkerServer(environ)
        self._since: float | None = time.monotonic()
        self.news: SimpleQueue[str] = SimpleQueue()

    @property
    def starting(self) -> float:
        """Seconds without a worker of the server; 0 once one has begun."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def submit(self, bundle: Bundle) -> Future[bytes]:
        """Queue a bundle for a packed report. The future raises WorkerLost, or NotBegun if nothing ran."""
        return self._threads.submit(self._run, pickle.dumps(bundle))

    def _run(self, packed: bytes) -> bytes:
        pipe: Pipe | None = None
        try:
            pipe = self._take()
            pipe.give(packed)
            self._since = None
            report = pipe.take()
        except (EOFError, OSError) as error:
            lost = WorkerLost("the server of the workers is gone") if pipe is None else pipe.end()
            if self._stopped or (pipe is not None and pipe.begun):
                raise lost from error
            time.sleep(_PAUSE)  # whatever keeps workers from beginning can pass in a moment
            reason = self._server.reason()
            raise NotBegun(f"{lost}{reason and f': {reason}'}") from error
        if report.endswith(SPENT):
            pipe.end()
        else:
            self._idle.append(pipe)
        return report

    def _take(self) -> "Pipe":
        """Return a worker that is idle, or a new one."""
        with self._lock:
            if self._stopped:
                raise WorkerLost("the run is being stopped")
            while self._idle:
                pipe = self._idle.pop()
                if not pipe.is_gone:
                    return pipe
                pipe.end()
            if ended := self._server.ended:
                reason = self._server.reason()
                why = f"{ended}{reason and f': {reason}'}"
                self.news.put(f"the server that workers are forked from {why}; it is started again")
                self._server.stop()
                self._server.close()
                self._server, self._since = WorkerServer(self._environ), time.monotonic()
            return self._server.fork()

    def stop(self) -> None:
        """End the processes; whoever waits for a bundle gets WorkerLost."""
        self._stopped = True
        with self._lock:
            self._server.stop(_PATIENCE if self._since is None else 0.0)
        self._threads.shutdown()
        for pipe in self._idle:
            pipe.close()
        self._server.close()


class WorkerServer:
    """One server process (`diel/worker/server.py`)."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._requests, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = open(os.memfd_create("diel-workers"), "rb", buffering=0)  # noqa: SIM115
        with there:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", "diel.worker", str(os.getpid()), str(there.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[there.fileno()],
                start_new_session=True,
                env=environ,
            )

    @property
    def ended(self) -> str:
        """How it ended; empty while it is alive."""
        code = self._process.poll()
        return "" if code is None else _how(code)

    def fork(self) -> "Pipe":
        """Ask for a worker. Raise OSError if the server is gone."""
        pipe = Pipe()
        with pipe.far_end, pipe.telling:
            descriptors = [pipe.far_end.fileno(), pipe.telling.fileno()]
            socket.send_fds(self._requests, [b"worker"], descriptors)
        return pipe

    def reason(self) -> str:
        """Return the last line that it or its workers printed before they had files for that."""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._said.fileno()).st_size
            output = os.pread(self._said.fileno(), 8 * _REASON, max(0, size - 8 * _REASON))
            lines = output.decode("utf-8", "replace").strip().splitlines()
            return lines[-1][-_REASON:] if lines else ""
        return ""

    def stop(self, patience: float = _PATIENCE) -> None:
        """End it with all its workers, within some seconds; can be called again."""
        with contextlib.suppress(OSError):
            self._requests.send(b"end")
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its workers go with it
            self._process.wait()
        self._requests.close()

    def close(self) -> None:
        """Close the file that it printed to."""
        self._said.close()


class Pipe:
    """A worker, as its controller sees it."""

    def __init__(self) -> None:
        self._end, self.far_end = socket.socketpair()
        status, telling = os.pipe()
        self._told = open(status, "rb", buffering=0)  # noqa: SIM115
        self.telling = open(telling, "wb", buffering=0)  # noqa: SIM115
        self._process = 0

    @property
    def begun(self) -> bool:
        """Whether the worker ever had a bundle that it could run."""
        return self._process != 0

    @property
    def is_gone(self) -> bool:
        """Whether the worker is known to have ended."""
        return is_readable(self._told.fileno())

    def give(self, packed: bytes) -> None:
        """Hand over a packed bundle, and wait until it begins. Raise EOFError or OSError."""
        send(self._end, packed)
        if not self._process:
            self._process = int(receive(self._end, self._told.fileno()))

    def take(self) -> bytes:
        """Return the report of the bundle. Raise EOFError or OSError if the worker ends meanwhile."""
        return receive(self._end, self._told.fileno())

    def close(self) -> None:
        self._end.close()
        self._told.close()

    def end(self) -> WorkerLost:
        """Make sure that the worker has ended; return how."""
        self._end.close()
        if self._process and not self.is_gone:  # its own end may be closed, by a module that closes all
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
        code = self._told.read() if is_readable(self._told.fileno(), _PATIENCE) else b""
        self._told.close()
        if not code and self._process:  # the server went first: the kernel is at killing its workers
            with contextlib.suppress(psutil.Error):
                wait_ended([psutil.Process(self._process)], _PATIENCE)
        name = f"worker process {self._process}" if self._process else "a worker process"
        how = _how(int(code)) if code else "ended with its server"
        return WorkerLost(f"{name} {how}", killed=code == b"%d" % -signal.SIGKILL)


def _how(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
