"""Parsl: the only file that imports it.

It runs bundles in a scheduler's allocations, with one HighThroughputExecutor for each resource shape, or an
MPIExecutor where tasks span whole nodes. Parsl owns blocks, workers and transport; when to ask for a block,
when to give it back, and how, is diel's (docs/decisions/015).
"""

import contextlib
import getpass
import logging
import os
import pickle
import shlex
import shutil
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, cast

from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel
from parsl.errors import ParslError
from parsl.executors import HighThroughputExecutor, MPIExecutor, ThreadPoolExecutor
from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
from parsl.jobs.states import JobStatus
from parsl.launchers import SimpleLauncher
from parsl.providers.base import ExecutionProvider

from diel.backends.executors import Load, Workers
from diel.base.carried import PYTHON
from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.worker.attempt.bundle import Bundle
from diel.worker.process import run_bundle

STRATEGY_PERIOD = 0.1
"""Seconds; Parsl starts the first block only after one period, five seconds by default."""
STARTS = 5
"""How often to start an interchange that ends before it answers."""
LOOK = 0.05
"""Seconds between two looks at one that starts."""
ANSWER = 20
"""Seconds that Parsl's interchange has to answer a question."""
NO_QUESTION = "127.0.0.1"
"""An address to begin with: else Parsl asks a server on the internet for this host's, up to half a minute."""
INTERCHANGE = "parsl.executors.high_throughput.interchange"
POOL = DEFAULT_LAUNCH_CMD.replace(
    "process_worker_pool.py",
    f"{shlex.join(PYTHON)} -m diel.backends.executors.script pool "
    "parsl.executors.high_throughput.process_worker_pool",
)


def _hush() -> contextlib.ExitStack:
    """Keep Parsl out of others' logs, and name a user that a container does not, until this is closed."""
    log, ends = logging.getLogger("parsl"), contextlib.ExitStack()
    ends.callback(log.setLevel, log.level)
    log.setLevel(logging.CRITICAL)
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = str(os.getuid())
        ends.callback(os.environ.pop, "LOGNAME", None)
    return ends


Ask = Callable[[str, str, str], str]
"""Asks the scheduler for a block: executor's label, block's number, the command for its nodes -> job id."""


class BlockEngine:
    """Parsl's executors for one run on a scheduled site: one for each resource shape."""

    def __init__(self, paths: RunPaths, addresses: Sequence[str], ask: Ask) -> None:
        self._hushed = _hush()
        self._aside: Path | None = None
        folder = paths.logs / "parsl"
        if shlex.quote(str(folder)) != str(folder):  # Parsl writes its paths into shell commands as they are
            folder = Path(tempfile.mkdtemp(prefix=".diel-parsl-", dir=Path.home()))
            self._aside = folder
        self._addresses = tuple(addresses)
        self._ask = ask
        mark = f"DIEL_RUN_DIR={paths.root}"  # as all processes of the run have it
        tied = (*PYTHON, "-m", "diel.backends.executors.script", "tied", str(os.getpid()))
        self._interchange = ("env", mark, *tied, INTERCHANGE)
        self._executors: dict[str, HighThroughputExecutor] = {}
        self._stopped = threading.Event()
        config = Config(
            executors=[ThreadPoolExecutor(max_threads=1)],  # Parsl wants one at the start; it is never used
            run_dir=str(folder),
            strategy="none",
            strategy_period=STRATEGY_PERIOD,
            initialize_logging=False,
            usage_tracking=0,
        )
        self._kernel = DataFlowKernel(config)

    def open(self, label: str, workers: Workers) -> None:
        """Make a shape's executor. Raise DielError if its interchange ends again and again."""
        for _ in range(STARTS):
            executor = self._make(label, workers)
            if self._starts(executor):
                self._executors[label] = executor
                return
        raise DielError(f"Parsl's interchange ended {STARTS} times as it started; `diel doctor` looks why")

    def _make(self, label: str, workers: Workers) -> HighThroughputExecutor:
        provider = _Provider(lambda number, command: self._ask(label, number, command))
        executor = _executor(label, workers, provider)
        executor.interchange_launch_cmd = self._interchange
        # Nodes must outlive the controller's silence longer than it tolerates theirs: what they run
        # when it is killed ends and is committed.
        orphan = f"--hb_threshold={workers.orphan}"
        executor.launch_cmd = POOL.replace("--hb_threshold={heartbeat_threshold}", orphan)
        executor.address, executor.all_addresses = None, set(self._addresses)
        return executor

    def _starts(self, executor: HighThroughputExecutor) -> bool:
        """Start an executor; False if its interchange ends first: Parsl would wait two minutes for that."""
        started: Future[None] = Future()

        def start() -> None:
            try:
                self._kernel.add_executors([executor])
                started.set_result(None)
                self._stopped.wait()  # the kernel ends an interchange with the thread that started it
            except Exception as error:
                process = executor.interchange_proc
                if process is not None and process.stdin is not None:
                    with contextlib.suppress(OSError):  # Parsl leaves it open where it breaks
                        process.stdin.close()
                started.set_exception(error)
                executor.shutdown()

        threading.Thread(target=start, daemon=True).start()
        ended = False
        while not ended and not wait([started], timeout=LOOK).done:
            process = executor.interchange_proc
            ended = process is not None and process.poll() is not None
        if ended or isinstance(started.exception(), BrokenPipeError):  # it had not even read what it is to do
            self._kernel.executors.pop(executor.label, None)
            return False
        started.result()
        return True

    def submit(self, label: str, bundle: Bundle, ranks: int) -> Future[bytes]:
        """Queue a bundle for the workers of a shape. The future raises if the worker was lost."""
        executor = self._executors[label]
        resources: dict[str, Any] = {}
        if isinstance(executor, MPIExecutor):
            nodes = cast("_Provider", executor.provider).nodes
            resources = {"num_nodes": nodes, "ranks_per_node": -(-ranks // nodes), "num_ranks": ranks}
        try:
            return cast("Future[bytes]", executor.submit(run_bundle, resources, pickle.dumps(bundle)))
        except ParslError as error:
            raise DielError(f"Parsl takes no more tasks: {error}") from error

    def grow(self, label: str) -> None:
        """Ask for one more block. Takes as long as the scheduler does; raise what `ask` raised."""
        executor = self._executors[label]
        provider = cast("_Provider", executor.provider)
        provider.error = None
        executor.scale_out_facade(1)
        if provider.error is not None:
            raise provider.error

    def hold(self, label: str, number: str) -> None:
        """Give a block no more tasks."""
        for manager in self._managers(label):
            if manager["block_id"] == number:
                self._command(label, ["HOLD_MANAGER", manager["manager"]])

    def _managers(self, label: str) -> list[dict[str, Any]]:
        """Return the connected nodes. Parsl's own call would wait forever if nobody answers."""
        return cast("list[dict[str, Any]]", self._command(label, "MANAGERS"))

    def _command(self, label: str, command: object) -> object:
        client: Any = self._executors[label].command_client
        return client.run(command, timeout_s=ANSWER)

    @property
    def broken(self) -> bool:
        """Whether an interchange is gone: then nothing reaches its workers any more."""
        started = (executor.interchange_proc for executor in self._executors.values())
        return any(process is not None and process.poll() is not None for process in started)

    def loads(self, label: str) -> dict[str, Load]:
        """Return the load of the connected blocks of a shape, by number."""
        loads: dict[str, Load] = defaultdict(lambda: Load(0, 0, float("inf")))
        for manager in self._managers(label):
            load = loads[manager["block_id"]]
            loads[manager["block_id"]] = Load(
                load.nodes + 1,
                load.bundles + manager["tasks"],
                min(load.idle, 0.0 if manager["tasks"] else manager["idle_duration"]),
            )
        return dict(loads)

    def stop(self) -> None:
        """End Parsl here. Blocks are left alone: their pools end when they miss the controller."""
        self._kernel.cleanup()
        self._stopped.set()
        self._hushed.close()
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)


class _Provider(ExecutionProvider):
    """What Parsl asks for blocks. It neither polls nor cancels: diel does both."""

    def __init__(self, ask: Callable[[str, str], str], nodes: int = 1) -> None:
        self._ask = ask
        self.nodes = nodes
        self.error: BaseException | None = None
        self.nodes_per_block = nodes
        self.init_blocks = self.min_blocks = 0
        self.max_blocks = 1_000_000
        self.parallelism = 1.0
        self.launcher = SimpleLauncher()

    def submit(self, command: str, tasks_per_node: int, job_name: str = "") -> object:
        try:
            return self._ask(job_name.rpartition("-")[2], command)
        except Exception as error:  # Parsl would turn it into a text
            self.error = error
            raise

    def status(self, job_ids: Sequence[object]) -> Sequence[JobStatus]:
        return []

    def cancel(self, job_ids: Sequence[object]) -> Sequence[bool]:
        return [True for _ in job_ids]

    @property
    def label(self) -> str:
        return "diel"

    @property
    def status_polling_interval(self) -> int:
        return 0


def _executor(label: str, workers: Workers, provider: _Provider) -> HighThroughputExecutor:
    common: dict[str, Any] = {
        "label": label,
        "address": NO_QUESTION,
        "provider": provider,
        "heartbeat_period": workers.beat,
        "heartbeat_threshold": workers.silence,
        "drain_period": workers.drain,
        "poll_period": 10,
        "block_error_handler": False,
        "encrypted": True,
    }
    if workers.mpi_nodes:
        provider.nodes = workers.mpi_nodes
        return MPIExecutor(max_workers_per_block=workers.slots, **common)
    return HighThroughputExecutor(
        max_workers_per_node=workers.slots,
        cores_per_worker=1e-6,  # how many fit is worked out by the plan
        available_accelerators=list(workers.gpus),
        prefetch_capacity=0,  # a bundle must not wait behind a long one while another node is idle
        **common,
    )
