"""Parsl: the only file that imports it.

Parsl sees one function, `run_bundle`. Two of its executors are used on one machine, because starting
the second takes longer than a short run lasts (docs/decisions/002):

- `threads`: ThreadPoolExecutor; each thread hands bundles to a warm worker process of its own.
- `htex`: HighThroughputExecutor with warm worker processes, as in a cluster's allocation.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Literal, cast

from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
from parsl.executors.base import ParslExecutor
from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
from parsl.providers import LocalProvider

from diel.errors import DielError
from diel.worker.bundle import Bundle, Report
from diel.worker.process import run_bundle

ExecutorName = Literal["threads", "htex"]
STRATEGY_PERIOD = 0.1
"""Seconds; Parsl starts the first block only after one period, five seconds by default."""


class WorkerLost(DielError):
    """A worker process ended while it had a bundle."""


class Engine:
    """Parsl's executor for one run, with `workers` processes."""

    def __init__(self, name: ExecutorName, workers: int, logs: Path) -> None:
        logging.getLogger("parsl").setLevel(logging.ERROR)
        self._pool = _Pipes() if name == "threads" else None
        executor = _threads(workers) if name == "threads" else _htex(workers)
        self._executor: ParslExecutor = executor
        config = Config(
            executors=[executor],
            run_dir=str(logs / "parsl"),
            strategy="none",
            strategy_period=STRATEGY_PERIOD,
            initialize_logging=False,
            usage_tracking=0,
        )
        self._kernel = DataFlowKernel(config)

    def submit(self, bundle: Bundle) -> Future[Report]:
        """Queues a bundle. The future raises where the worker was lost; its segment tells the rest."""
        function = run_bundle if self._pool is None else self._pool.run
        return cast("Future[Report]", self._executor.submit(function, {}, bundle))

    def stop(self) -> None:
        """Ends the workers."""
        if self._pool is not None:
            self._pool.stop()
        self._kernel.cleanup()


def _threads(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(label="threads", max_threads=workers)


def _htex(workers: int) -> HighThroughputExecutor:
    tether = [sys.executable, "-m", "diel.executors.tether"]
    pool = DEFAULT_LAUNCH_CMD.replace(
        "process_worker_pool.py", f"{sys.executable} -m parsl.executors.high_throughput.process_worker_pool"
    )
    return HighThroughputExecutor(
        label="htex",
        address="127.0.0.1",
        max_workers_per_node=workers,
        cores_per_worker=1e-6,  # the pool's size is max_workers_per_node, whatever the machine has
        heartbeat_period=1,  # also how soon Parsl starts a worker in place of a dead one
        heartbeat_threshold=30,
        poll_period=10,
        encrypted=True,
        interchange_launch_cmd=[*tether, "parsl.executors.high_throughput.interchange"],
        launch_cmd=pool,
        provider=LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1),
    )


class _Pipes:
    """A warm worker process for each thread of a thread pool."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopped = False

    def run(self, bundle: Bundle) -> Report:
        """Runs a bundle in this thread's worker. Raises WorkerLost where that ends meanwhile."""
        if self._stopped:
            raise WorkerLost("the run is being stopped")
        process = self._process()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(bundle, process.stdin)
            process.stdin.flush()
            return cast("Report", pickle.load(process.stdout))  # noqa: S301 - our own worker
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            process.kill()
            raise WorkerLost(f"worker process {process.pid} ended with {process.wait()}") from error

    def _process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] | None = getattr(self._local, "process", None)
        if process is None or process.poll() is not None:
            process = subprocess.Popen(
                [sys.executable, "-m", "diel.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=dict(os.environ),
            )
            self._local.process = process
            self._processes.append(process)
        return process

    def stop(self) -> None:
        """Ends the processes; a thread that waits for one gets WorkerLost."""
        self._stopped = True
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
