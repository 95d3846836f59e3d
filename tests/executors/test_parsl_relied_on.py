"""All that diel relies on in Parsl beyond what its documentation promises, one test each.

A release of Parsl that breaks one fails here, by its name. What would make each needless stands in
docs/decisions, under what diel would ask of Parsl.
"""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel
from parsl.executors import HighThroughputExecutor, MPIExecutor, ThreadPoolExecutor
from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
from parsl.executors.high_throughput.mpi_prefix_composer import validate_resource_spec
from parsl.executors.high_throughput.zmq_pipes import CommandClient
from parsl.providers.base import ExecutionProvider

from diel.backends.executors import Load, Workers
from diel.backends.executors.parsl import INTERCHANGE, POOL, BlockEngine
from diel.base.paths import RunPaths
from tests.throwaway import wait_for

POOL_MODULE = "parsl.executors.high_throughput.process_worker_pool"
WORKERS = Workers(slots=1, mpi_nodes=0, gpus=(), drain=600, silence=60, orphan=60)


def source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None, f"Parsl has no module {module}"
    assert spec.origin is not None
    return Path(spec.origin).read_text("utf-8")


# --- names ----------------------------------------------------------------------------------------


def test_the_launch_command_of_a_pool_begins_with_its_script_and_has_the_options_that_diel_changes() -> None:
    assert DEFAULT_LAUNCH_CMD.startswith("process_worker_pool.py ")
    for option in ("--hb_threshold={heartbeat_threshold}", "--drain_period={drain_period}", "{{block_id}}"):
        assert option in DEFAULT_LAUNCH_CMD
    assert f"-m diel.backends.executors.script pool {POOL_MODULE} " in POOL


@pytest.mark.parametrize("module", [INTERCHANGE, POOL_MODULE])
def test_the_interchange_and_the_pool_are_modules_that_run_as_scripts(module: str) -> None:
    assert 'if __name__ == "__main__":' in source(module).replace("'", '"')


def test_an_executor_has_the_attributes_that_diel_sets_and_reads() -> None:
    executor = HighThroughputExecutor(label="a", address="127.0.0.1")
    for name in ("interchange_launch_cmd", "launch_cmd", "address", "all_addresses", "interchange_proc"):
        assert name in vars(executor), name
    for method in ("scale_out_facade", "shutdown", "submit"):
        assert callable(getattr(executor, method))
    assert "self.command_client" in inspect.getsource(HighThroughputExecutor.start)
    assert issubclass(MPIExecutor, HighThroughputExecutor)


def test_a_question_to_the_interchange_can_be_given_a_time_limit() -> None:
    assert "timeout_s" in inspect.signature(CommandClient.run).parameters


def test_an_executor_takes_a_function_and_what_it_needs_without_the_kernel() -> None:
    for kind in (ThreadPoolExecutor, HighThroughputExecutor):
        assert list(inspect.signature(kind.submit).parameters)[:3] == [
            "self",
            "func",
            "resource_specification",
        ]
    resources: dict[str, Any] = {"num_nodes": 2, "ranks_per_node": 4, "num_ranks": 8}
    validate_resource_spec(resources)
    assert 'resource_spec.get("MPI_NODELIST")' in source(POOL_MODULE)


def test_the_kernel_takes_executors_later_and_knows_them_by_label() -> None:
    assert "self.executors" in inspect.getsource(DataFlowKernel.__init__)
    assert callable(DataFlowKernel.add_executors)
    options = inspect.signature(Config.__init__).parameters
    assert {"run_dir", "strategy", "strategy_period", "initialize_logging", "usage_tracking"} <= set(options)


def test_a_provider_is_asked_by_the_methods_that_diels_own_has() -> None:
    asked = set(ExecutionProvider.__abstractmethods__) - {"__init__"}
    assert asked == {"submit", "status", "cancel", "label", "status_polling_interval"}
    assert list(inspect.signature(ExecutionProvider.submit).parameters)[1:] == [
        "command",
        "tasks_per_node",
        "job_name",
    ]


def run(text: str) -> str:
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout


def test_the_pool_gets_its_way_to_start_processes_from_multiprocessing_when_it_is_imported() -> None:
    text = (
        "import multiprocessing as m; other, m.get_context = m.get_context, lambda way=None: "
        "other('forkserver' if way == 'spawn' else way); "
        f"import {POOL_MODULE} as pool; print(pool.SpawnContext.get_start_method())"
    )
    assert run(text).split() == ["forkserver"]


@pytest.mark.parametrize("nodes", [0, 2])
def test_no_server_is_asked_for_this_hosts_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("parsl.addresses.address_by_query", lambda: asked.append("query"))
    engine = BlockEngine(RunPaths(tmp_path), ["127.0.0.1"], lambda label, number, command: "1")
    engine.open("cpu", Workers(1, nodes, (), 60, 8, 60))
    engine.stop()
    assert asked == []


# --- the whole of it --------------------------------------------------------------------------------


class Block:
    """One block on this machine: what Parsl asks for is started at once."""

    def __init__(self, folder: Path) -> None:
        self.asked: Future[tuple[str, str, str]] = Future()
        self.engine = BlockEngine(RunPaths(folder), ["127.0.0.1"], self._start)
        self._process: subprocess.Popen[bytes] | None = None

    def _start(self, label: str, number: str, command: str) -> str:
        self.asked.set_result((label, number, command))
        self._process = subprocess.Popen(command, shell=True, stderr=subprocess.DEVNULL)
        return "job-1"

    def end(self) -> None:
        self.engine.stop()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


@pytest.fixture
def block(tmp_path: Path) -> Iterator[Block]:
    made = Block(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_pool_that_parsl_asks_for_connects_under_its_blocks_number_and_can_be_held(block: Block) -> None:
    block.engine.open("cpu", WORKERS)
    assert block.engine.loads("cpu") == {}
    block.engine.grow("cpu")
    label, number, command = block.asked.result(timeout=30)
    assert label == "cpu"
    assert "--hb_threshold=60 " in command
    wait_for(lambda: number in block.engine.loads("cpu"))
    load = block.engine.loads("cpu")[number]
    assert load == Load(nodes=1, bundles=0, idle=load.idle)
    block.engine.hold("cpu", number)
    assert not block.engine.broken
