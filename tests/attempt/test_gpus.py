"""GPUs are looked at through NVIDIA's library: here through a double that answers as that does."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from diel.observe.status.stage import stage_usage_text, used_text
from diel.worker.attempt import gpus
from diel.worker.attempt.gpus import Gpus
from diel.worker.attempt.usage import Usage

MIB = 1 << 20


class Process(NamedTuple):
    pid: int
    usedGpuMemory: int | None


class Utilization(NamedTuple):
    gpu: int
    memory: int


class Memory(NamedTuple):
    total: int
    used: int


@dataclass
class Device:
    processes: list[Process] = field(default_factory=list)
    busy: int = 0
    used: int = 100 * MIB


class NVMLError(Exception):
    """As pynvml's."""


class NVMLLibraryMismatchError(Exception):
    """As pynvml's, which is no NVMLError: the driver is older than the library."""


@dataclass
class Nvml:
    """A driver with some devices. Its methods have pynvml's names."""

    devices: list[Device]
    NVMLError: type[Exception] = NVMLError
    NVMLLibraryMismatchError: type[Exception] = NVMLLibraryMismatchError
    trouble: type[Exception] | None = None

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Device:
        return self.devices[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Device:
        return self.devices[int(uuid.removeprefix("GPU-"))]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Device) -> list[Process]:
        if self.trouble is not None:
            raise self.trouble
        return handle.processes

    def nvmlDeviceGetMemoryInfo(self, handle: Device) -> Memory:
        return Memory(80 << 30, handle.used)

    def nvmlDeviceGetUtilizationRates(self, handle: Device) -> Utilization:
        return Utilization(handle.busy, 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time, in seconds: a list with one number."""
    now = [0.0]
    monkeypatch.setattr("diel.worker.attempt.gpus.time.monotonic", lambda: now[0])
    yield now
    monkeypatch.undo()


def test_the_double_has_the_functions_of_the_library() -> None:
    pynvml: Any = pytest.importorskip("pynvml")
    for name, method in inspect.getmembers(Nvml, inspect.isfunction):
        if name.startswith("nvml"):
            theirs = list(inspect.signature(getattr(pynvml, name)).parameters)
            ours = list(inspect.signature(method).parameters)[1:]
            assert theirs[: len(ours)] == ours, name
    assert issubclass(pynvml.NVMLError, Exception)
    assert issubclass(pynvml.NVMLLibraryMismatchError, Exception)
    fields = {name for name, *_ in pynvml.c_nvmlProcessInfo_v3_t._fields_}
    assert fields >= {"pid", "usedGpuMemory"}


def test_what_its_processes_use_is_added_up_over_time(clock: list[float]) -> None:
    ours, others = Device(busy=50), Device([Process(7, MIB)], 100)
    found = Gpus(Nvml([ours, others]), {})
    for second, memory in ((1, 10), (2, 30), (3, 20)):
        clock[0] = second
        ours.processes = [Process(41, memory * MIB), Process(42, 0), Process(7, 500 * MIB)]
        found.look({41, 42})
    assert found.facts() == {"gpu_seconds": 1.5, "gpu_memory_bytes": 30 * MIB}


def test_a_task_at_no_gpu_has_no_figures(clock: list[float]) -> None:
    for found in (Gpus(Nvml([Device([Process(7, MIB)], 100)]), {}), Gpus(None, {})):
        clock[0] += 1
        found.look({41})
        assert found.facts() == {}


@pytest.mark.parametrize(
    ("names", "busy"), [("1", 2.0), ("GPU-1", 2.0), ("0,1", 2.5), ("", None), ("-1", None)]
)
def test_its_own_gpus_count_even_if_the_driver_knows_its_processes_by_other_numbers(
    clock: list[float], names: str, busy: float | None
) -> None:
    """As in a container: what is taken of them beyond what was taken before is the task's."""
    devices = [Device(busy=25), Device(busy=100)]
    found = Gpus(Nvml(devices), {"CUDA_VISIBLE_DEVICES": names})
    found.look({41})
    clock[0] = 2.0
    devices[1].used += 64 * MIB
    found.look({41})
    assert found.facts() == ({} if busy is None else {"gpu_seconds": busy, "gpu_memory_bytes": 64 * MIB})


def test_memory_that_the_driver_does_not_tell_is_no_figure(clock: list[float]) -> None:
    found = Gpus(Nvml([Device([Process(41, None)], 50)]), {})
    clock[0] = 2.0
    found.look({41})
    assert found.facts() == {"gpu_seconds": 1.0}
    assert used_text(found.facts(), 4.0, 1) == "0.25 GPUs"
    assert stage_usage_text({"tasks": 1, "cpu_seconds": 1.0, "seconds": 4.0, **found.facts()}).endswith(
        "of GPUs"
    )


@pytest.mark.parametrize("trouble", [NVMLError, NVMLLibraryMismatchError])
def test_a_driver_that_goes_leaves_nothing_behind(clock: list[float], trouble: type[Exception]) -> None:
    nvml = Nvml([Device([Process(41, MIB)], 100)])
    found = Gpus(nvml, {})
    found.look({41})
    nvml.trouble = trouble
    found.look({41})
    nvml.trouble = None
    found.look({41})
    assert found.facts() == {}


def test_an_attempts_record_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml([Device([Process(os.getpid(), 3 * MIB)], 100)])
    monkeypatch.setattr("diel.worker.attempt.usage.library", lambda: nvml)
    usage = Usage()
    usage.begin(Path(__file__))
    usage.look(os.getpid())
    facts = usage.facts()
    assert facts is not None
    assert facts["gpu_memory_bytes"] == 3 * MIB
    assert facts["gpu_seconds"] >= 0.0


def test_without_a_driver_there_is_nothing() -> None:
    pytest.importorskip("pynvml")
    if not os.path.exists("/proc/driver/nvidia"):
        assert gpus.library() is None
