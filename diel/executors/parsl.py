"""Parsl: the only file that imports it.

Parsl sees one function, `run_bundle`. Two of its executors are used on one machine, because starting
the second takes longer than a short run lasts (docs/decisions/002):

- `threads`: ThreadPoolExecutor; each thread hands bundles to a warm worker process of its own.
- `htex`: HighThroughputExecutor with warm worker processes, as in a cluster's allocation.
"""

from __future__ import annotations

import logging
import pickle
import shlex
import shutil
import sys
import tempfile
from concurrent.futures import Future
from pathlib import Path
from typing import cast

from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel
from parsl.errors import ParslError
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
from parsl.executors.base import ParslExecutor
from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
from parsl.providers import LocalProvider

from diel.errors import DielError
from diel.executors.pipes import Pipes
from diel.worker.bundle import Bundle
from diel.worker.process import run_bundle

STRATEGY_PERIOD = 0.1
"""Seconds; Parsl starts the first block only after one period, five seconds by default."""


class Engine:
    """Parsl's executor for one run, with `workers` processes: those of `pipes`, or HTEX's own."""

    def __init__(self, workers: int, logs: Path, pipes: Pipes | None) -> None:
        logging.getLogger("parsl").setLevel(logging.ERROR)
        self._pipes = pipes
        executor = _htex(workers) if pipes is None else _threads(workers)
        self._executor: ParslExecutor = executor
        self._aside: Path | None = None
        folder = logs / "parsl"
        if shlex.quote(str(folder)) != str(folder):  # Parsl writes its paths into shell commands as they are
            folder = self._aside = Path(tempfile.mkdtemp(prefix="diel-parsl-"))
        config = Config(
            executors=[executor],
            run_dir=str(folder),
            strategy="none",
            strategy_period=STRATEGY_PERIOD,
            initialize_logging=False,
            usage_tracking=0,
        )
        self._kernel = DataFlowKernel(config)

    def submit(self, bundle: Bundle) -> Future[bytes]:
        """Queues a bundle; the result is a packed report.

        The future raises where the worker was lost; its segment tells the rest.
        """
        function = run_bundle if self._pipes is None else self._pipes.run
        try:
            return cast("Future[bytes]", self._executor.submit(function, {}, pickle.dumps(bundle)))
        except ParslError as error:
            raise DielError(f"Parsl takes no more tasks: {error}") from error

    def stop(self) -> None:
        """Ends the workers."""
        if self._pipes is not None:
            self._pipes.stop()
        self._kernel.cleanup()
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)


def _threads(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(label="threads", max_threads=workers)


def _htex(workers: int) -> HighThroughputExecutor:
    tether = [sys.executable, "-m", "diel.executors.tether"]
    pool = DEFAULT_LAUNCH_CMD.replace(
        "process_worker_pool.py",
        f"{shlex.quote(sys.executable)} -m parsl.executors.high_throughput.process_worker_pool",
    )
    return HighThroughputExecutor(
        label="htex",
        address="127.0.0.1",
        max_workers_per_node=workers,
        cores_per_worker=1e-6,  # the pool's size is max_workers_per_node, whatever the machine has
        heartbeat_period=1,  # also how soon Parsl starts a worker in place of a dead one
        heartbeat_threshold=60,  # so long may tasks go on after their controller was killed
        prefetch_capacity=workers,  # the next bundle waits beside the worker, not a round trip away
        poll_period=10,
        encrypted=True,
        interchange_launch_cmd=[*tether, "parsl.executors.high_throughput.interchange"],
        launch_cmd=pool,
        provider=LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1),  # type: ignore[no-untyped-call]
    )
