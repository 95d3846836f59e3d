"""The directory of the runs: whether a journal can be kept there, and whether nodes can see it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from diel.doctor.finding import Finding
from diel.errors import counted
from diel.site import FileSystem, Site
from diel.streams.item import kind_of_file_system
from diel.values import format_duration, format_size

LEAST_SPACE = 1 << 30
"""A disk with fewer free bytes counts as nearly full."""
MOST_SKEW = 5.0
"""Seconds that a file system's clock may differ: heartbeats depend on it."""
SHARED = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "panfs", "ceph", "afs", "orangefs", "pvfs2", "glusterfs"}
    | {"wekafs", "dvs", "daos", "cifs", "smb3", "9p", "virtiofs"}
)
"""File systems that several hosts see. FUSE puts its own name first: `fuse.glusterfs`."""
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
OF_ONE_HOST = ("/tmp", "/var/tmp", "/dev/shm", "/local")


def existing(path: Path) -> Path:
    """The path, or the nearest directory above it that exists."""
    path = path.absolute()
    return next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))


def check_runs(runs: Path) -> Finding:
    """Whether runs can be written there, by the operations that a journal needs."""
    folder = existing(runs)
    try:
        with tempfile.TemporaryDirectory(prefix=".diel-doctor-", dir=folder) as trial:
            _write_like_a_journal(Path(trial))
    except OSError as error:
        fix = "give a directory that you can write to with --runs DIR or DIEL_RUNS"
        return Finding("runs", False, f"{runs.absolute()}: {error.strerror or error}", fix)
    free = shutil.disk_usage(folder).free
    found = f"{runs.absolute()} on {file_system(folder)}, {format_size(free)} free"
    full = free < LEAST_SPACE
    fix = "free space there (`diel clean`), or give another directory with --runs DIR" if full else ""
    return Finding("runs", not full, found, fix)


def _write_like_a_journal(folder: Path) -> None:
    """Makes a new file, appends to it, and replaces another with it."""
    new, old = folder / "new", folder / "old"
    old.touch()
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND), "wb", buffering=0) as file:
        file.write(b"one\n")
        file.write(b"two\n")
        os.fsync(file.fileno())
    os.replace(new, old)
    if old.read_bytes() != b"one\ntwo\n":
        raise OSError(0, "what is read back there differs from what was written")


def file_system(folder: Path) -> str:
    """Its type: `ext4`, `nfs4`, `lustre`."""
    return kind_of_file_system(folder) or "a file system of unknown type"


def check_clock(runs: Path) -> Finding:
    """Whether the clocks of the file system and this machine agree: heartbeats are file times."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".diel-doctor-", dir=existing(runs)) as file:
            skew = os.fstat(file.fileno()).st_mtime - time.time()
    except OSError as error:
        return Finding("clock", False, f"cannot be compared: {error.strerror}", "see 'runs'")
    ok = abs(skew) <= MOST_SKEW
    fix = "" if ok else "set the clocks of this machine and of the file server (NTP)"
    return Finding("clock", ok, f"files get times {abs(skew):.1f} s from this machine's clock", fix)


# --- on a site with a scheduler ---------------------------------------------------------------------


def check_shared(runs: Path, site: Site) -> Iterator[Finding]:
    """Whether nodes can see the runs and write there, to this host's knowledge."""
    yield _check_type(runs)
    if site.filesystems:
        yield _check_place(runs, site)
    yield check_private(runs)


def _check_type(runs: Path) -> Finding:
    folder = existing(runs).resolve()
    kind = file_system(folder)
    if kind.lower().removeprefix("fuse.") in SHARED:
        return Finding("shared", True, f"{kind}: several hosts can see it", required=False)
    place = next((place for place in OF_ONE_HOST if folder.is_relative_to(place)), None)
    if kind in IN_MEMORY or place is not None:
        found = f"{folder} is on {kind}{f', below {place}' if place else ''}: each host has its own"
        fix = "keep runs on a file system that nodes share: --runs DIR or DIEL_RUNS"
    else:
        found = f"{folder} is on {kind}: perhaps only this host sees it"
        fix = "check whether nodes share it with `diel doctor --job`; if not, give another with --runs DIR"
    return Finding("shared", False, found, fix, required=False)


def _check_place(runs: Path, site: Site) -> Finding:
    """Which of the site's file systems the runs are on, and its limits."""
    name = _place_of(existing(runs).resolve(), site)
    writable = [known for known, each in site.filesystems.items() if each.compute == "write"]
    better = f"choose one of {', '.join(f'{known} ({site.filesystems[known].path})' for known in writable)}"
    if name is None:
        known = ", ".join(site.filesystems)
        found = f"on none of the file systems that the site file names ({known})"
        return Finding("filesystem", False, found, f"{better}, by --runs DIR", required=False)
    place = site.filesystems[name]
    if place.compute != "write":
        may = "read there, not write" if place.compute == "read" else "not see it"
        return Finding("filesystem", False, f"{name}: compute nodes may {may}", f"{better}, by --runs DIR")
    return Finding("filesystem", True, f"{name}: {_facts(place)}")


def _place_of(folder: Path, site: Site) -> str | None:
    """The file system whose path is the longest that holds a folder."""
    paths = {name: os.path.expanduser(os.path.expandvars(p.path)) for name, p in site.filesystems.items()}
    # A `$` is a variable that this host does not set.
    roots = {
        name: Path(path).resolve() for name, path in paths.items() if path.startswith("/") and "$" not in path
    }
    holding = [name for name, root in roots.items() if folder.is_relative_to(root)]
    return max(holding, key=lambda name: len(str(roots[name])), default=None)


def _facts(place: FileSystem) -> str:
    quota = f"{format_size(place.quota)} at most" if place.quota else ""
    files = f"{counted(place.files, 'file')} at most" if place.files else ""
    rest = f"files that nobody reads for {format_duration(place.purge)} are deleted" if place.purge else ""
    return "; ".join(filter(None, (quota, files, rest))) or "no limit is known"


def check_private(runs: Path) -> Finding:
    """Whether a directory there can be private: the runs hold the keys of Parsl's channels."""
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        with tempfile.TemporaryDirectory(prefix=".diel-doctor-", dir=existing(runs)) as trial:
            status = os.stat(trial)
    except OSError as error:
        return Finding("privacy", False, f"cannot be tried: {error.strerror}", "see 'runs'")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 or status.st_uid != os.geteuid():
        found = f"a directory made private there has mode {mode:04o}: others could read the keys of a run"
        fix = "keep runs on a file system that knows permissions: --runs DIR"
        return Finding("privacy", False, found, fix)
    if not mask & 0o002:
        found = f"directories can be private; umask {mask:04o} lets others write what you make elsewhere"
        return Finding("privacy", False, found, "set `umask 077` (or 022) in your shell", required=False)
    return Finding("privacy", True, f"directories can be private; umask {mask:04o}")
