"""What an attempt uses of GPUs, as NVIDIA's driver tells it: by nvidia-ml-py, if that is installed.

The driver keeps no count for a process that has ended (but where an administrator wants it), so the watchdog
looks now and then. Only the GPUs of this node are seen.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

NONE = ("", "-1", "NoDevFiles")
"""What CUDA_VISIBLE_DEVICES says where there is no GPU for a process."""


class Gpus:
    """The GPUs of CUDA_VISIBLE_DEVICES, which are an attempt's own; without it, those that it uses."""

    def __init__(self, library: Any, environ: Mapping[str, str]) -> None:
        """`library` is pynvml, or None without it."""
        self._library = library
        self._names = environ.get("CUDA_VISIBLE_DEVICES")
        self._devices: Sequence[Any] | None = None if library is not None else ()
        self._before: list[int] = []
        self._looked = time.monotonic()
        self._is_measured = False
        self.seconds = 0.0
        self.memory: int | None = 0
        """Bytes of all of them that it took at most; None if the driver does not tell."""

    def look(self, processes: Collection[int]) -> None:
        """Look at what these processes use now."""
        if self._devices == ():
            return
        try:
            self._look(processes)
        except (self._library.NVMLError, self._library.NVMLLibraryMismatchError):
            # The driver is gone, older than the library, or does not tell: nothing is better than a part.
            self._devices, self._is_measured = (), False

    def facts(self) -> dict[str, Any]:
        """`gpu_seconds`, and `gpu_memory_bytes` if it is known; nothing if it had no GPU."""
        memory = {} if self.memory is None else {"gpu_memory_bytes": self.memory}
        return {"gpu_seconds": round(self.seconds, 3), **memory} if self._is_measured else {}

    def _look(self, processes: Collection[int]) -> None:
        nvml, now = self._library, time.monotonic()
        if self._devices is None:
            self._devices = self._find()
            self._before = [nvml.nvmlDeviceGetMemoryInfo(device).used for device in self._devices]
        passed, self._looked = now - self._looked, now
        memory = 0
        for device, before in zip(self._devices, self._before, strict=True):
            running = nvml.nvmlDeviceGetComputeRunningProcesses(device)
            mine = [process.usedGpuMemory for process in running if process.pid in processes]
            if mine and None not in mine:
                memory += sum(mine)
            elif mine and self._names is None:  # an instance of a GPU (MIG, vGPU), perhaps
                self.memory = None
            elif self._names is not None:  # in a container the driver may know its processes by other numbers
                memory += max(0, nvml.nvmlDeviceGetMemoryInfo(device).used - before)
            else:
                continue
            self._is_measured = True
            self.seconds += passed * nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100
        if self.memory is not None:
            self.memory = max(self.memory, memory)

    def _find(self) -> tuple[Any, ...]:
        nvml = self._library
        if self._names is None:
            return tuple(map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount())))
        names = [name.strip() for name in self._names.split(",") if name.strip() not in NONE]
        by_index, by_name = nvml.nvmlDeviceGetHandleByIndex, nvml.nvmlDeviceGetHandleByUUID
        return tuple(by_index(int(name)) if name.isdecimal() else by_name(name) for name in names)


@cache
def library() -> Any:
    """pynvml, ready; None if it is not installed, or there is no driver."""
    try:
        import pynvml  # an extra, which nodes without GPUs do not need
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
