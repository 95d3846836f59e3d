"""The lease: which controller drives a run, and whether it is alive.

Taking a run over is making the next controller segment: the file system lets one succeed. Its first record
says who that was, and so does the lease file, whose modification time is the heartbeat.

Hosts that share a file system need not agree on the time: a heartbeat is stamped, and its age measured, by
the file system's clock. A file is looked at through an open descriptor, for which NFS asks its server.

The birth of a process tells it from any other that has its number: Linux counts it in ticks since the boot
(field 22 of /proc/PID/stat, proc(5)), whatever clocks say. It means something only within the same boot and
PID namespace: containers of one machine may share a host name, and each has its own process 17.
"""

import contextlib
import json
import math
import os
import socket
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from diel.base.errors import JournalError, UsageError
from diel.base.files import LONGEST, put, sweep
from diel.base.form import COUNT, NUMBER, TEXT, flaw_in
from diel.base.paths import RunPaths, epoch_of
from diel.store.journal.segment import SegmentWriter, decode, read_segment, segments

if TYPE_CHECKING:
    from diel.store.journal import records

HEARTBEAT = 2.0
"""Seconds between heartbeats."""
SILENCE = 60.0
"""Seconds without a heartbeat after which a controller on another host counts as gone."""
DOUBT = 3600.0
"""Seconds of silence that a step of the clock can fake."""
TAKING = 5.0
"""Seconds that a controller may need from making its segment to its first record."""
TAIL = 2**16
"""Bytes at the end of a segment in which its last line begins."""


class Lease(NamedTuple):
    """The controller of a run: its epoch, and which process it is."""

    epoch: int
    host: str
    pid: int
    started: float
    """When the process began, in seconds since the epoch, as this host's clock said then."""
    birth: str = ""
    """Its birth, which distinguishes it from a later process with its pid. Empty in old leases."""


_FORM = {"epoch": COUNT, "host": TEXT, "pid": COUNT, "started": NUMBER}


def read_lease(paths: RunPaths) -> tuple[Lease, float] | None:
    """Return the lease, if only by a controller's segment, and the seconds since its heartbeat, or None."""
    held = _read(paths)
    after = paths.controller_segment(1 if held is None else held[0].epoch + 1)
    if after.exists():
        held = _newest(paths) or held
    if held is None:
        return None
    lease, beaten = held
    now = time.time() if lease.host == socket.gethostname() else time_at(paths.root)
    return lease, max(0.0, now - beaten)


def _read(paths: RunPaths) -> tuple[Lease, float] | None:
    try:
        with open(paths.lease, encoding="utf-8") as file:
            lease = _lease(json.load(file))
            return None if lease is None else (lease, os.fstat(file.fileno()).st_mtime)
    except (OSError, ValueError):
        return None


def _lease(document: Any) -> Lease | None:
    if not isinstance(document, dict) or flaw_in(document, _FORM, {"birth": TEXT}):
        return None
    return Lease(**{name: document[name] for name in (*_FORM, "birth") if name in document})


def time_at(folder: Path) -> float:
    """Return the time of the clock that stamps a folder's files; this host's if no file can be made there."""
    probe = folder / f".clock-{socket.gethostname()}-{os.getpid()}.part"
    now = time.time()
    with contextlib.suppress(OSError):
        number = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.utime(number)
            now = os.fstat(number).st_mtime
        finally:
            os.close(number)
            os.unlink(probe)
    return now


def is_alive(lease: Lease, age: float) -> bool:
    """Return whether a controller is alive: by its process if visible from here, else by its heartbeat."""
    verdict = _process_lives(lease)
    return age < SILENCE if verdict is None else verdict


def _process_lives(lease: Lease) -> bool | None:
    """Return whether a controller's process is alive; None if it is not visible from here."""
    if lease.birth or lease.host != socket.gethostname():
        return lives(lease.pid, lease.birth)
    try:  # an old lease only has the time, which a step of the clock changes
        process = psutil.Process(lease.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return True if abs(process.create_time() - lease.started) < 2 else None
    except psutil.Error:
        return False


def _beats(paths: RunPaths, lease: Lease, age: float) -> bool:
    """Return whether a controller is alive though its heartbeat is old, for the clock may have stepped: wait
    for the next one, where its process is not visible and it was not silent for very long."""
    before = _read(paths)
    if before is None or not SILENCE <= age < DOUBT or _process_lives(lease) is not None:
        return False
    end = time.monotonic() + 2 * HEARTBEAT
    while (now := _read(paths)) == before:
        if time.monotonic() > end:
            return False
        time.sleep(HEARTBEAT / 10)
    return now is not None


def last_word(paths: RunPaths, epoch: int) -> str:
    """Return the record by which a controller let go of the run: `end`, `handover`, or empty."""
    try:
        with open(paths.controller_segment(epoch), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return ""
    record = decode(lines[-1]) if lines and lines[-1].endswith(b"\n") else None
    event = "" if record is None else str(record["event"])
    return event if event in ("end", "handover") else ""


def driver(paths: RunPaths) -> tuple[Lease, float] | None:
    """Return the controller that drives the run, and the age of its heartbeat; None if none does."""
    held = read_lease(paths)
    return held if held is not None and is_alive(*held) and not last_word(paths, held[0].epoch) else None


def newest_epoch(paths: RunPaths) -> int:
    """Epoch of the newest controller; 0 if there was none."""
    return max((epoch_of(n) for n in segments(paths.journal) if n.startswith("controller")), default=0)


def is_being_taken(paths: RunPaths) -> bool:
    """Return whether a controller has just made its segment, and has not said yet who it is."""
    newest = newest_epoch(paths)
    if not newest or _first_record(paths, newest) is not None:
        return False
    return abs(time_at(paths.root) - paths.controller_segment(newest).stat().st_mtime) < TAKING


def refuse_driven(paths: RunPaths) -> int:
    """Raise UsageError if a controller drives the run, or is just taking it. Return the newest epoch."""
    newest = newest_epoch(paths)
    if is_being_taken(paths):
        raise _just_taken(paths)
    held = read_lease(paths)
    if held is None or last_word(paths, held[0].epoch):
        return newest
    if is_alive(*held) or _beats(paths, *held):
        raise UsageError(
            f"{paths.run_id} is driven by process {held[0].pid} on {held[0].host} "
            f"(heartbeat {held[1]:.0f} s ago); `diel cancel {paths.run_id}` stops it"
        )
    return newest


def take(paths: RunPaths) -> tuple[Lease, SegmentWriter]:
    """Make this process the run's controller. Raise UsageError if another one drives it."""
    epoch, before = refuse_driven(paths) + 1, read_lease(paths)
    try:
        segment = SegmentWriter(paths.controller_segment(epoch))
    except FileExistsError as error:
        raise _just_taken(paths) from error
    except OSError as error:
        raise UsageError(f"{paths.run_id}: cannot write there: {error.strerror}") from error
    me = psutil.Process()
    lease = Lease(epoch, socket.gethostname(), me.pid, me.create_time(), birth_of(me.pid))
    record: records.ControllerRecord = {
        "event": "controller",
        "epoch": epoch,
        "host": lease.host,
        "pid": lease.pid,
        "started": lease.started,
        "birth": lease.birth,
        "time": time.time(),
    }
    if before is not None:
        record["idle"] = round(before[1], 3)
    try:
        segment.append(record)
    except JournalError:
        segment.path.unlink()  # nobody took the run: whoever tries again need not wait
        raise
    put(paths.lease, json.dumps(lease._asdict()))
    _clear(paths, [*paths.own(), *paths.shared()])
    return lease, segment


def clear_up(paths: RunPaths) -> None:
    """Remove files that killed processes left half written, once all others have ended. The run is still this
    controller's: the next one would write in the same folders."""
    sweep(paths.own(), math.inf)
    _clear(paths, paths.shared())


def _clear(paths: RunPaths, folders: Iterable[Path]) -> None:
    with contextlib.suppress(OSError):
        sweep(folders, paths.lease.stat().st_mtime - LONGEST)


def _newest(paths: RunPaths) -> tuple[Lease, float] | None:
    """Return the newest controller by its segment, with the time of that; None if it has not said."""
    epoch = newest_epoch(paths)
    record = _first_record(paths, epoch)
    if record is None:
        return None
    facts = {name: record.get(name) for name in ("host", "pid", "started")}
    lease = _lease({"epoch": epoch, **facts, "birth": record.get("birth", "")})
    return None if lease is None else (lease, paths.controller_segment(epoch).stat().st_mtime)


def _first_record(paths: RunPaths, epoch: int) -> "records.ControllerRecord | None":
    records = (record for *_, record in read_segment(paths.controller_segment(epoch)) if record is not None)
    return next((record for record in records if record["event"] == "controller"), None)


def _just_taken(paths: RunPaths) -> UsageError:
    return UsageError(
        f"{paths.run_id}: another controller just took over; "
        f"`diel status {paths.run_id}` says in a few seconds whether it is alive"
    )


def still_mine(paths: RunPaths, lease: Lease) -> bool:
    """Return whether no later controller has taken the run, as one must ask whose host slept."""
    if paths.controller_segment(lease.epoch + 1).exists():
        return False
    held = _read(paths)
    return held is None or held[0].epoch <= lease.epoch


def beat(paths: RunPaths) -> None:
    """Show that the controller is alive."""
    os.utime(paths.lease)


@cache
def _place() -> str:
    """Return this machine's boot and PID namespace; empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def birth_of(pid: int) -> str:
    """Return where and when a process of this host was born; empty where it has ended, or cannot be seen."""
    process = _look(pid)
    return f"{_place()}/{process[1]}" if process is not None and _place() else ""


def lives(pid: int, birth: str) -> bool | None:
    """Return whether the process with this number and birth lives; a zombie does not. None where nobody can
    know from here: born on another machine, before a boot or in another container, or hidden from this user.
    """
    place, _, ticks = birth.rpartition("/")
    if not place or place != _place():
        return None
    process = _look(pid)
    if process is not None:
        return process[1] == ticks and process[0] not in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return None  # /proc does not show it to this user (`hidepid`)
    return False


def _look(pid: int) -> tuple[str, str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # a name may hold blanks and brackets
        return fields[0].decode(), fields[19].decode()
    except (OSError, IndexError):
        return None
