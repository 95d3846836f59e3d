"""diel's directory on one node's disk: what is in it, what pins it, and what is deleted for room.

    <local>/diel-<uid>/            mode 0700: it is ours, or it is not used
        lock                       shared to look and to pin, exclusive to make room
        boot                       which boot of the node the rest is of
        entries/<key>/d/<name>     a whole copy
        entries/<key>/size         its bytes; the time of entries/<key> is when it was last used
        pins/<pid>-<start>         lines `KEY SIZE [TAG]`: what a process's task uses; locked while that lives
        parts/<key>                a copy on its way
        locks/<key>                who makes it
        drains/<pid>-<start>.<n>/  what a running task writes, until it is copied to the run

Locks are those of flock(2): they end with their process, so that whatever is killed holds nothing up. What
stands here is only ever a copy, so that all of it may be deleted while no task runs.

Artifacts are copied there as whole files, large ones in parts, several at once: `python -m
diel.worker.staging.disk PLAN` does so on each node of a task that has nodes of its own. Several copies are
open at once for network file systems; from disk to disk 1 to 8 are alike (0.8 to 1.9 GB/s).
"""

import contextlib
import errno
import fcntl
import json
import os
import pickle
import re
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from diel.base.copying import PART, Check, copy_file, no_check
from diel.base.errors import DielError
from diel.base.files import is_own, put
from diel.base.values import format_size
from diel.worker.staging.item import Item, Local

FOLDERS = ("entries", "pins", "parts", "locks", "drains")
SPARE = 0.1
"""Share of the disk that copies leave free for what a task writes there, which is unknown."""
WAIT = 0.02

VARIABLES = ("DIEL_LOCAL_DIR", "SLURM_TMPDIR", "TMPDIR")
"""Where to look for the directory if the site names none; the first that is set wins."""
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
"""Paths that no shell splits: they are in commands that were quoted before the node was known."""


class StagingError(DielError):
    """A node's disk cannot be used, or has no room: the task reads the shared file system instead."""


class Disk:
    """diel's directory on this node's disk, below `folder`. Raises StagingError if others could write."""

    def __init__(self, folder: str, size: int | None = None, *, named: bool = True) -> None:
        self.root = f"{folder.rstrip('/')}/diel-{os.getuid()}"
        self.size = size
        self.named = named
        self.entries = f"{self.root}/entries"
        try:
            with contextlib.suppress(FileExistsError):
                os.makedirs(self.root, 0o700)
            if not is_own(os.lstat(self.root), bits=0o077):
                raise StagingError(f"{self.root} is not a directory of this user alone")
            if not os.path.isdir(f"{self.root}/{FOLDERS[-1]}"):
                for name in FOLDERS:
                    os.makedirs(f"{self.root}/{name}", exist_ok=True)
            self._begin_boot()
        except OSError as error:
            raise StagingError(f"{folder} cannot be used: {error.strerror}") from error

    def _begin_boot(self) -> None:
        """Empty a directory of an earlier boot: some of its copies may never have reached the disk."""
        place = f"{self.root}/boot"
        boot = _text("/proc/sys/kernel/random/boot_id").strip() or "unknown"
        if _text(place) == boot:
            return
        with self._locked(fcntl.LOCK_EX):
            if _text(place) == boot:
                return
            for key in os.listdir(self.entries):
                self._drop(key)
            put(place, boot)

    def has(self, item: Item) -> bool:
        """Tell whether a copy is there and whole: what tidies up /tmp leaves directories around files."""
        try:
            status = os.stat(item.below(self.entries))
            return stat.S_ISDIR(status.st_mode) or status.st_size == int(
                _text(f"{self.entries}/{item.key}/size")
            )
        except (OSError, ValueError):
            return False

    def hold(self, items: Iterable[Item], tag: str = "") -> list[Item]:
        """Pin copies for this process's task, under a tag; return those that are not there yet."""
        by_key = {item.key: item for item in items}
        with self._locked(fcntl.LOCK_SH):
            self._pin(dict.fromkeys(by_key, 0), tag)
            missing = [item for item in by_key.values() if not self.has(item)]
            for key in by_key.keys() - {item.key for item in missing}:
                os.utime(f"{self.entries}/{key}")
        return missing

    def turn(self, what: str) -> None:
        """Unpin what was pinned with tags `WHAT/…`, except the last: some still read that epoch."""
        with self._locked(fcntl.LOCK_EX):
            file = _own_pins(self.root)
            lines = os.pread(file, os.fstat(file).st_size, 0).decode().splitlines(keepends=True)
            tags = [line.split()[2] for line in lines if line.count(" ") > 1]
            ours = [tag for tag in dict.fromkeys(tags) if tag.startswith(f"{what}/")]
            gone = {f" {tag}\n" for tag in ours[:-1]}
            if gone:
                os.ftruncate(file, 0)
                os.write(file, "".join(li for li in lines if li[li.rindex(" ") :] not in gone).encode())

    def make_room(self, sizes: Mapping[str, int], tag: str = "", *, spare: float = 0) -> None:
        """Delete the least recently used, until copies of these sizes (bytes, by key) fit. A share of the
        disk may be asked for to be `spare`, as far as what is not used can give it. Raise StagingError, and
        deletes nothing, where what tasks use leaves too little for the copies."""
        with self._locked(fcntl.LOCK_EX):
            pins = _own_pins(self.root)
            before = os.fstat(pins).st_size
            self._clear()
            self._pin(sizes, tag)
            there = {
                entry.name: (entry.stat().st_mtime, int(_text(f"{entry.path}/size") or 0))
                for entry in os.scandir(self.entries)
            }
            pinned = self._pinned()
            coming = sum(size for key, size in pinned.items() if key not in there)
            used = sum(size for _, size in there.values())
            space = os.statvfs(self.root)
            free = space.f_bavail * space.f_frsize
            excess = max(coming - free, 0 if self.size is None else used + coming - self.size)
            idle = sorted((*facts, key) for key, facts in there.items() if key not in pinned)
            if excess > sum(size for _, size, _ in idle):
                os.ftruncate(pins, before)
                needed, place = format_size(sum(sizes.values())), os.path.dirname(self.root)
                limit = "" if self.size is None else f"; diel may keep {format_size(self.size)}"
                has = f"{format_size(free)} free{limit}, {format_size(used)} there"
                raise StagingError(f"no room for {needed} on the node's disk {place} ({has})")
            excess = max(excess, int(spare * space.f_blocks * space.f_frsize) - free)
            for _, size, key in idle:
                if excess <= 0:
                    break
                self._drop(key)
                excess -= size

    def _clear(self) -> None:
        """Delete what killed processes left half done."""
        for name in os.listdir(f"{self.root}/parts"):
            lock = _lock_now(f"{self.root}/locks/{name.removeprefix('gone-')}")
            if lock is not None:
                shutil.rmtree(f"{self.root}/parts/{name}", ignore_errors=True)
                os.unlink(f"{self.root}/locks/{name.removeprefix('gone-')}")
                os.close(lock)
        for name in os.listdir(f"{self.root}/drains"):
            owner = f"{self.root}/pins/{name.rpartition('.')[0]}"
            if owner != _pins_path(self.root) and (not os.path.exists(owner) or _is_free(owner)):
                shutil.rmtree(f"{self.root}/drains/{name}", ignore_errors=True)

    def _pin(self, sizes: Mapping[str, int], tag: str) -> None:
        mark = f" {tag}" if tag else ""
        lines = "".join(f"{key} {size}{mark}\n" for key, size in sizes.items()).encode()
        if os.write(_own_pins(self.root), lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.root)

    def _pinned(self) -> dict[str, int]:
        """Return the keys in use by living processes, with the sizes of those that are being copied."""
        sizes: dict[str, int] = {}
        own = _pins_path(self.root)
        for entry in list(os.scandir(f"{self.root}/pins")):
            if entry.path != own and _is_free(entry.path):
                os.unlink(entry.path)  # its process is gone
                continue
            for line in _text(entry.path).splitlines():
                key, size, *_ = (*line.split(), "", "")
                if size.isdecimal():  # a full disk may have cut a line short
                    sizes[key] = max(sizes.get(key, 0), int(size))
        return sizes

    def pins(self) -> str:
        """Return the file of this process's pins, for DIEL_LOCAL_PINS of the programs that a task starts."""
        with self._locked(fcntl.LOCK_SH):
            _own_pins(self.root)
        return _pins_path(self.root)

    def drain_dir(self, number: int) -> str:
        """Make a directory for what a task writes. Raise StagingError where the disk is too full."""
        self.make_room({}, spare=SPARE)
        folder = f"{self.root}/drains/{os.path.basename(self.pins())}.{number}"
        try:
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder)
        except OSError as error:
            raise StagingError(f"{folder}: {error.strerror}") from error
        return folder

    @contextlib.contextmanager
    def making(self, item: Item, check: Callable[[], None]) -> Iterator[str | None]:
        """Give a directory that becomes the copy; None if another made it; calls `check` meanwhile."""
        place = f"{self.root}/locks/{item.key}"
        while (lock := _lock_now(place)) is None:
            check()
            time.sleep(WAIT)
        try:
            if self.has(item):
                yield None
                return
            if os.path.exists(f"{self.entries}/{item.key}"):
                self._drop(item.key)  # it is not whole any more
            part = f"{self.root}/parts/{item.key}"
            shutil.rmtree(part, ignore_errors=True)  # of one who was killed
            os.makedirs(f"{part}/d")
            try:
                yield part
                os.rename(part, f"{self.entries}/{item.key}")
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            os.close(lock)

    def _drop(self, key: str) -> None:
        gone = f"{self.root}/parts/gone-{key}"
        shutil.rmtree(gone, ignore_errors=True)
        os.rename(f"{self.entries}/{key}", gone)  # first, so that half a copy is never an entry
        shutil.rmtree(gone, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        file = os.open(f"{self.root}/lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, how)
            yield
        finally:
            os.close(file)


def local_folder(setting: str, environ: Mapping[str, str]) -> tuple[str, bool]:
    """Return the directory on this node, and whether it was named for diel. Raise StagingError."""
    named = setting or environ.get("DIEL_LOCAL_DIR", "")
    template = named or next((environ[name] for name in VARIABLES if environ.get(name)), "/tmp")
    lacking = [a or b for a, b in _VARIABLE.findall(template) if not environ.get(a or b)]
    if lacking:
        raise StagingError(f"{template}: ${lacking[0]} is not set on this node")
    folder = _VARIABLE.sub(lambda match: environ[match[1] or match[2]], template)
    if not os.path.isabs(folder):
        raise StagingError(f"{folder} is not an absolute path, so it is not the same directory for all tasks")
    if not _PLAIN.fullmatch(folder):
        raise StagingError(f"{folder!r} has characters that a shell would take apart")
    return folder, bool(named)


def own_disk(local: Local, environ: Mapping[str, str]) -> Disk:
    """Return this node's disk, ready for use. Raise StagingError if it has none."""
    folder, named = local_folder(local.folder, environ)
    return Disk(folder, local.size, named=named)


_open_pins: dict[tuple[str, int], int] = {}
_opening = threading.Lock()
_began = time.time_ns()


def release() -> None:
    """Let go of all copies that this process's task used; to be called at its end."""
    process = os.getpid()
    for (_, owner), file in _open_pins.items():
        if owner == process:
            os.ftruncate(file, 0)


def _pins_path(root: str) -> str:
    return f"{root}/pins/{os.getpid()}-{_began:x}"


def _own_pins(root: str) -> int:
    """Open this process's file of pins, or its worker's, whose pins outlast it: hold the directory's lock."""
    key = root, os.getpid()
    with _opening:
        if key not in _open_pins:
            worker = os.environ.get("DIEL_LOCAL_PINS", "")
            if worker.startswith(f"{root}/pins/"):
                with contextlib.suppress(FileNotFoundError):
                    _open_pins[key] = os.open(worker, os.O_RDWR | os.O_APPEND)
                    return _open_pins[key]
            file = os.open(_pins_path(root), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            _open_pins[key] = file
        return _open_pins[key]


def _is_free(path: str) -> bool:
    """Return whether nobody holds a file's lock."""
    with open(path, "rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _lock_now(path: str) -> int | None:
    """Take a file's lock; None if it is held, or its last holder has deleted the file since."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file), os.stat(path)):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(file)
    return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


AT_ONCE = 8
"""Files, or parts of one, that one process copies at the same time."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)

NOTES = ".staging-"
"""The prefix of files in which processes of a task tell its worker what they copied."""


class StagingReport(NamedTuple):
    """What was done to bring a task's artifacts to the node."""

    copied: int = 0
    bytes: int = 0
    found: int = 0
    """Artifacts that were there, or that another process copied meanwhile."""
    seconds: float = 0.0
    folder: str = ""
    warning: str = ""
    """Why the shared file system is read instead; empty if all is there."""


def bring(disk: Disk, items: Sequence[Item], check: Check = no_check, tag: str = "") -> StagingReport:
    """Make sure that artifacts stay on the node's disk until `release`, or two later tags `WHAT/…`. Raise
    StagingError where there is no room or the disk fails; OSError where a source cannot be read."""
    began = time.monotonic()
    try:
        if tag:
            disk.turn(tag.rpartition("/")[0])
        missing = disk.hold(items, tag)
        if not missing:
            return StagingReport(found=len(items), folder=disk.root)
        with ThreadPoolExecutor(min(AT_ONCE, len(missing))) as pool:
            sizes = list(pool.map(lambda item: size_of(item.source), missing))
            disk.make_room({item.key: size for item, size in zip(missing, sizes, strict=True)}, tag)
            wide: list[Item] = []  # one of these alone keeps all threads busy
            small: list[Item] = []
            for item, size in zip(missing, sizes, strict=True):
                (wide if size >= 2 * PART or os.path.isdir(item.source) else small).append(item)
            copied = [_copy(disk, item, check, pool) for item in wide]
            copied += pool.map(lambda item: _copy(disk, item, check, None), small)
    except OSError as error:
        if error.errno in _FULL or str(error.filename or "").startswith(disk.root):
            raise StagingError(f"{disk.root}: {error.strerror}") from error
        raise
    brought = [size for size in copied if size is not None]
    seconds = round(time.monotonic() - began, 6)
    return StagingReport(len(brought), sum(brought), len(items) - len(brought), seconds, disk.root)


def size_of(path: str) -> int:
    """Return bytes of a file, or of all files of a directory."""
    if not os.path.isdir(path):
        return os.stat(path).st_size
    files = (os.path.join(folder, name) for folder, _, names in walk(path) for name in names)
    return sum(os.stat(file).st_size for file in files if os.path.isfile(file))


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk`, but raises OSError for a directory that cannot be read."""

    def refuse(error: OSError) -> None:
        raise error

    return os.walk(path, onerror=refuse)


def _copy(disk: Disk, item: Item, check: Check, pool: ThreadPoolExecutor | None) -> int | None:
    """Copy an artifact, with a pool side by side; return its bytes, or None if another process did."""
    with disk.making(item, check) as part:
        if part is None:
            return None
        target = f"{part}/d/{item.name}"
        if pool is None or not os.path.isdir(item.source):
            size = copy_file(item.source, target, check, pool)
        else:
            files = tree(item.source, target)
            large = [pair for pair in files if os.stat(pair[0]).st_size >= 2 * PART]
            size = sum(copy_file(source, place, check, pool) for source, place in large)
            size += sum(
                pool.map(lambda pair: copy_file(pair[0], pair[1], check), sorted({*files} - {*large}))
            )
        Path(f"{part}/size").write_text(str(size), encoding="ascii")
        return size


def tree(source: str, target: str) -> list[tuple[str, str]]:
    """Make a tree's directories, and return its plain files with their places. Raise OSError."""
    files = []
    for folder, folders, names in walk(source):
        here = target + folder[len(source) :]
        os.mkdir(here)
        for name in list(folders):
            if os.path.islink(f"{folder}/{name}"):  # another tree: it stays where it is
                os.symlink(os.path.realpath(f"{folder}/{name}"), f"{here}/{name}")
                folders.remove(name)
        files += [(f"{folder}/{n}", f"{here}/{n}") for n in names if os.path.isfile(f"{folder}/{n}")]
    return files


def fetch(
    items: Sequence[Item], local: Local, environ: Mapping[str, str], check: Check = no_check, tag: str = ""
) -> tuple[StagingReport, str]:
    """Copy artifacts to this node's disk; return their directory, or a warning, or neither: no gain."""
    try:
        disk = own_disk(local, environ)
        device = os.stat(disk.root).st_dev
        if not disk.named and all(os.stat(item.source).st_dev == device for item in items):
            return StagingReport(found=len(items)), ""
        return bring(disk, items, check, tag), disk.entries
    except StagingError as error:
        return StagingReport(warning=str(error)), ""
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return StagingReport(warning=f"{where}{error.strerror}"), ""


_notes: list[StagingReport] = []


def note(brought: StagingReport) -> None:
    """Keep what was copied for the end of the task."""
    _notes.append(brought)


def take_notes() -> list[StagingReport]:
    """Return what was copied since the last call because a part was drawn."""
    notes = list(_notes)
    _notes.clear()
    return notes


def leave_notes(task_dir: str) -> None:
    """Tell the worker of the task what this process copied."""
    _leave(task_dir, (brought for brought in take_notes() if brought.copied or brought.warning))


def _leave(task_dir: str, notes: Iterable[StagingReport]) -> None:
    for number, brought in enumerate(notes):
        place = f"{task_dir}/{NOTES}{os.uname().nodename}-{os.getpid()}-{number}.json"
        put(place, json.dumps(brought._asdict()))


def read_notes(task_dir: str) -> list[StagingReport]:
    """Read and remove what processes of a task left."""
    notes = []
    for path in sorted(Path(task_dir).glob(f"{NOTES}*.json")):
        notes.append(StagingReport(**json.loads(path.read_text(encoding="utf-8"))))
        path.unlink()
    return notes


def main() -> None:
    """Carry out the plan that the task's worker left, and report back."""
    items, local, task_dir = pickle.loads(Path(sys.argv[1]).read_bytes())
    _leave(task_dir, [fetch(items, local, os.environ)[0]])


if __name__ == "__main__":
    main()
