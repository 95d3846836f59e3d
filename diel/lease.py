"""The lease: which controller drives a run, and whether it lives.

Taking a run over is making the next controller segment: the file system lets one succeed. Its first
record says who that was, and so does the lease file, whose modification time is the heartbeat.

Hosts that share a file system need not agree on the time. A heartbeat is stamped by the file system,
so its age is measured by the file system's clock too. A file is looked at through an open descriptor:
NFS may answer for a path from what it remembers, but asks its server when a file is opened.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from diel.errors import UsageError
from diel.journal.segment import SegmentWriter, epoch_of, read_segment, segments
from diel.paths import RunPaths

HEARTBEAT = 2.0
"""Seconds between heartbeats."""
SILENCE = 60.0
"""Seconds without a heartbeat after which a controller on another host counts as gone."""
TAKING = 5.0
"""Seconds that a controller may need from making its segment to its first record."""


@dataclass(frozen=True)
class Lease:
    """The controller of a run: its epoch, and which process it is."""

    epoch: int
    host: str
    pid: int
    started: float
    """When the process began, in seconds since the epoch: tells it from a later one with its pid."""


def read_lease(paths: RunPaths) -> tuple[Lease, float] | None:
    """The lease and the age of its heartbeat in seconds; None where none was ever taken."""
    try:
        with open(paths.lease, encoding="utf-8") as file:
            lease = Lease(**json.load(file))
            beaten = os.fstat(file.fileno()).st_mtime
        here = lease.host == socket.gethostname()
        return lease, max(0.0, (time.time() if here else time_at(paths.root)) - beaten)
    except (OSError, ValueError, TypeError):
        return None


def time_at(folder: Path) -> float:
    """The time by the clock that stamps files in a folder; this host's where nothing can be made there."""
    probe = folder / f".clock-{socket.gethostname()}-{os.getpid()}"
    try:
        number = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError:
        return time.time()
    try:
        os.utime(number)
        return os.fstat(number).st_mtime
    finally:
        os.close(number)
        probe.unlink(missing_ok=True)


def is_alive(lease: Lease, age: float) -> bool:
    """Whether a controller lives: by its process on this host, by its heartbeat on another."""
    if lease.host != socket.gethostname():
        return age < SILENCE
    try:
        process = psutil.Process(lease.pid)
        return abs(process.create_time() - lease.started) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def take(paths: RunPaths) -> tuple[Lease, SegmentWriter]:
    """Makes this process the run's controller. Raises UsageError where another one drives it."""
    newest = max((epoch_of(n) for n in segments(paths.journal) if n.startswith("controller")), default=0)
    held = read_lease(paths)
    if newest > (held[0].epoch if held is not None else 0):
        held = _winner(paths, newest)
    if held is not None and is_alive(*held):
        raise UsageError(
            f"{paths.run_id} is driven by process {held[0].pid} on {held[0].host} "
            f"(heartbeat {held[1]:.0f} s ago); `diel cancel {paths.run_id}` stops it"
        )
    epoch = newest + 1
    try:
        segment = SegmentWriter(paths.controller_segment(epoch))
    except FileExistsError as error:
        raise _just_taken(paths) from error
    except OSError as error:
        raise UsageError(f"{paths.run_id}: cannot write there: {error.strerror}") from error
    process = psutil.Process()
    lease = Lease(epoch, socket.gethostname(), process.pid, process.create_time())
    segment.append({"event": "controller", **asdict(lease), "time": time.time()})
    _write(paths.lease, json.dumps(asdict(lease)))
    return lease, segment


def _winner(paths: RunPaths, epoch: int) -> tuple[Lease, float] | None:
    """The controller that made a segment and had no time for the lease, as `read_lease` tells it.

    None where it ended before it could say who it was; raises UsageError where it may yet.
    """
    path = paths.controller_segment(epoch)
    age = max(0.0, time_at(paths.root) - path.stat().st_mtime)
    for _, _, record in read_segment(path):
        if record is not None and record["event"] == "controller":
            return Lease(epoch, record["host"], record["pid"], record["started"]), age
    if age < TAKING:
        raise _just_taken(paths)
    return None


def _just_taken(paths: RunPaths) -> UsageError:
    return UsageError(f"{paths.run_id}: another controller took over in this moment")


def still_mine(paths: RunPaths, lease: Lease) -> bool:
    """Whether no later controller has taken the run.

    One whose host slept through its heartbeats must ask before it writes anything: another may have
    taken its place. A lease that cannot be read in this moment says nothing.
    """
    if paths.controller_segment(lease.epoch + 1).exists():
        return False
    held = read_lease(paths)
    return held is None or held[0].epoch <= lease.epoch


def beat(paths: RunPaths) -> None:
    """Shows that the controller lives."""
    os.utime(paths.lease)


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(text)
    os.replace(temporary, path)
