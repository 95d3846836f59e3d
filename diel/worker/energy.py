"""Energy as this machine's own counters tell it: RAPL of the processors, NVML of NVIDIA's GPUs.

Counted is the whole machine from one look to another, whoever used it: a node of one's own has no other
users, a machine that is shared has. RAPL's counters (`/sys/class/powercap`, microjoules; H. David, ISLPED
2010) begin anew at their maximum, after minutes at the earliest; since 2020 kernels let only root read them.
"""

import glob
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.files import put
from diel.worker.attempt.gpus import library

POWERCAP = "/sys/class/powercap"
EVERY = 10.0
"""Seconds between two looks."""


class Counter(NamedTuple):
    """One counter: joules, which begin anew at `most` (never, if that is None)."""

    source: str
    read: Callable[[], float]
    most: float | None = None


class EnergyMeter:
    """Adds up counters, and keeps the sum in a file that nobody else writes."""

    def __init__(self, file: Path, counters: list[Counter]) -> None:
        self._file, self._counters = file, counters
        self._last = [counter.read() for counter in counters]
        self._joules = dict.fromkeys((counter.source for counter in counters), 0.0)
        self._began = self._looked = time.monotonic()
        self._add_earlier()

    def _add_earlier(self) -> None:
        """Go on from what the file has: a later controller took over this node."""
        try:
            earlier = json.loads(self._file.read_bytes())
            self._began -= earlier["seconds"]
            for source, joules in earlier["joules"].items():
                self._joules[source] = self._joules.get(source, 0.0) + joules
        except (OSError, ValueError, KeyError, TypeError):
            return  # there is none, or it is damaged

    def look(self, *, now: bool = False) -> None:
        """Count on if it is time, or `now`. What cannot be read any more is no longer counted."""
        moment = time.monotonic()
        if moment - self._looked < EVERY and not now:
            return
        self._looked = moment
        for place, counter in enumerate(self._counters):
            try:
                value = counter.read()
            except OSError:
                continue
            more = value - self._last[place]
            self._joules[counter.source] += more + (counter.most or 0.0) if more < 0 else more
            self._last[place] = value
        record = {"joules": self._joules, "seconds": moment - self._began, "machine": os.uname().nodename}
        try:
            self._file.parent.mkdir(exist_ok=True)
            put(self._file, json.dumps(record))
        except OSError:
            return  # a run goes on without this


def meter_for(file: Path) -> EnergyMeter | None:
    """Return a meter of this machine's energy from now on; None if nothing here tells."""
    counters = [*_processors(), *_gpus()]
    return EnergyMeter(file, counters) if counters else None


def _processors() -> Iterator[Counter]:
    """Yield each package, and its memory, which the package does not count."""
    for zone in sorted(glob.glob(f"{glob.escape(POWERCAP)}/intel-rapl:*")):
        try:
            name = Path(zone, "name").read_text().strip()
            if not name.startswith(("package", "dram")):
                continue
            most = _number(f"{zone}/max_energy_range_uj")
            counter = Counter("RAPL", partial(_number, f"{zone}/energy_uj"), most)
            counter.read()
        except (OSError, ValueError):
            continue  # for root alone, or not there
        yield counter


def _number(path: str) -> float:
    return int(Path(path).read_bytes()) / 1e6


def _gpus() -> Iterator[Counter]:
    """Yield each GPU with its own counter (Volta and later), in millijoules since its driver began."""
    nvml = library()
    for number in range(_count(nvml)):
        counter = Counter("NVML", partial(_joules, nvml, number))
        with suppress(OSError):
            counter.read()
            yield counter


def _count(nvml: Any) -> int:
    try:
        return 0 if nvml is None else int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError:
        return 0  # the driver is gone


def _joules(nvml: Any, number: int) -> float:
    try:
        device = nvml.nvmlDeviceGetHandleByIndex(number)
        return float(nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3)
    except nvml.NVMLError as error:
        raise OSError(str(error)) from error
