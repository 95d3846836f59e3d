"""What one check found; the checks of this machine: Python, packages, disks, network, launchers, the site."""

import contextlib
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from diel.base.carried import PYTHON
from diel.base.errors import UsageError, counted
from diel.base.values import format_duration, format_size
from diel.doctor.probe import version_of
from diel.planning.check.launcher import here
from diel.site.find import find_program
from diel.site.shape import cores_of, launcher_words
from diel.site.site import FileSystem, Pool, Site, missing
from diel.streams.item import kind_of_file_system
from diel.worker.attempt.addresses import addresses, interfaces, is_own
from diel.worker.attempt.mpi import MPICH, OPEN_MPI, advice, launcher_of
from diel.worker.staging.disk import StagingError, local_folder
from diel.workflow.models import Resources

CORE = ("parsl", "pydantic", "pyyaml", "click", "rich", "simpleeval", "psutil", "networkx", "pyzmq", "xxhash")
EXTRAS = {
    "mpi": ("mpi4py",),
    "examples": ("lammps", "scikit-learn", "numpy"),
    "sample": ("scipy",),
    "search": ("optuna", "cmaes", "scipy"),
    "torch": ("torch", "numpy", "pytorch-optimizer"),
    "reinforcement": ("gymnasium", "numpy"),
    "serve": ("uvicorn", "starlette", "httptools", "uvloop", "numpy"),
    "tables": ("pandas", "pyarrow"),
    "data": ("h5py", "netCDF4", "numpy", "xarray", "zarr"),
    "ase": ("ase",),
    "units": ("pint",),
    "uv": ("uv",),
    "report": ("vl-convert-python",),
    "view": ("textual", "plotext"),
    "notify": ("apprise",),
    "gpu": ("nvidia-ml-py",),
    "mlflow": ("mlflow-skinny", "sqlalchemy", "alembic"),
    "tensorboard": ("tensorboard",),
    "rocrate": ("rocrate",),
}
LEAST_PYTHON = (3, 11)
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


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    required: bool = True
    """Whether every workflow needs it."""


def check_python() -> Finding:
    version = f"{platform.python_version()}, {sys.executable}"
    least = ".".join(map(str, LEAST_PYTHON))
    fix = "" if sys.version_info >= LEAST_PYTHON else f"install Python {least} or newer"
    return Finding("python", not fix, version, fix)


def check_package(package: str, extra: str, *, required: bool) -> Finding:
    """Return whether a package is installed; importing it would take seconds."""
    spec = f"diel[{extra}]" if extra else package
    version = version_of(package)
    if version is not None:
        return Finding(package, True, version, required=required)
    return Finding(package, False, "not installed", f"{sys.executable} -m pip install '{spec}'", required)


def check_extras() -> Iterator[Finding]:
    """Return whether the packages of extras are installed, each once."""
    extras: dict[str, str] = {}
    for extra, packages in EXTRAS.items():
        for package in packages:
            extras.setdefault(package, extra)
    return (check_package(package, extra, required=False) for package, extra in extras.items())


def check_site(site: Site) -> Finding:
    """Tell the pools of the site."""
    pools = ", ".join(
        f"{name} ({pool.nodes} × {cores_of(pool)} cores{f', {pool.gpus} GPUs' if pool.gpus else ''})"
        for name, pool in site.pools.items()
    )
    return Finding("site", True, f"{site.name}, {site.scheduler}: {pools}")


def check_account(site: Site) -> Finding:
    """Return the account that jobs are charged to, if the site needs one."""
    lacking = missing(site)
    if lacking:
        return Finding("account", False, "none is given, and the site needs one", lacking[0])
    names = [site.account, *(pool.account for pool in site.pools.values())]
    accounts = ", ".join(dict.fromkeys(name for name in names if name)) or "none, and the site needs none"
    return Finding("account", True, accounts)


def check_machine() -> Finding:
    """Cores that this process may use, and memory."""
    memory, cores = psutil.virtual_memory(), cores_of(Pool())
    have = f"{cores} of {counted(os.cpu_count() or 1, 'core')}, {format_size(memory.total)} of memory"
    return Finding("machine", True, f"{have} ({format_size(memory.available)} free), {platform.platform()}")


def check_local(site: Site, runs: Path) -> Finding:
    """Return whether the node's disk can be used, and is not the disk of the runs."""
    try:
        folder, named = local_folder(site.local.dir or "", os.environ)
    except StagingError as error:
        fix = "set `local: {dir: …}` in the site file, or DIEL_LOCAL_DIR, to a directory of this machine"
        return Finding("local disk", False, f"{error}; inputs are not staged", fix, required=False)
    place = existing(Path(folder))
    if not os.access(place, os.W_OK | os.X_OK):
        fix = "give a directory that you can write to: `local: {dir: …}` in the site file, or DIEL_LOCAL_DIR"
        return Finding("local disk", False, f"{folder} cannot be written to", fix, required=False)
    space = os.statvfs(place)
    disk = f"{folder} on {file_system(place.resolve())}, {format_size(space.f_bavail * space.f_frsize)} free"
    if not named and place.stat().st_dev == existing(runs).stat().st_dev:
        disk += "; the runs are on the same disk, so nothing is staged"
    return Finding("local disk", True, disk)


def existing(path: Path) -> Path:
    """Return the path, or the nearest directory above it that exists."""
    path = path.absolute()
    return next((folder for folder in (path, *path.parents) if folder.is_dir()), Path("/"))


def check_runs(runs: Path) -> Finding:
    """Return whether runs can be written there, by the operations that a journal needs."""
    folder = existing(runs)
    try:
        with tempfile.TemporaryDirectory(prefix=".diel-doctor-", dir=folder) as trial:
            _write_like_a_journal(Path(trial))
    except OSError as error:
        fix = "give a directory that you can write to with --runs DIR or DIEL_RUNS"
        return Finding("runs", False, f"{runs.absolute()}: {error.strerror or error}", fix)
    free = shutil.disk_usage(folder).free
    place = f"{runs.absolute()} on {file_system(folder)}, {format_size(free)} free"
    full = free < LEAST_SPACE
    fix = "free space there (`diel clean`), or give another directory with --runs DIR" if full else ""
    return Finding("runs", not full, place, fix)


def _write_like_a_journal(folder: Path) -> None:
    """Make a new file, append to it, and replace another with it."""
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
    """Return a file system's type: `ext4`, `nfs4`, `lustre`."""
    return kind_of_file_system(folder) or "a file system of unknown type"


def check_clock(runs: Path) -> Finding:
    """Return whether the clocks of the file system and this machine agree: heartbeats are file times."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".diel-doctor-", dir=existing(runs)) as file:
            skew = os.fstat(file.fileno()).st_mtime - time.time()
    except OSError as error:
        return Finding("clock", False, f"cannot be compared: {error.strerror}", "see 'runs'")
    ok = abs(skew) <= MOST_SKEW
    fix = "" if ok else "set the clocks of this machine and of the file server (NTP)"
    return Finding("clock", ok, f"files get times {abs(skew):.1f} s from this machine's clock", fix)


def check_shared(runs: Path, site: Site) -> Iterator[Finding]:
    """Yield whether nodes can see the runs and write there, to this host's knowledge."""
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
        verdict = f"{folder} is on {kind}{f', below {place}' if place else ''}: each host has its own"
        fix = "keep runs on a file system that nodes share: --runs DIR or DIEL_RUNS"
    else:
        verdict = f"{folder} is on {kind}: perhaps only this host sees it"
        fix = "check whether nodes share it with `diel doctor --job`; if not, give another with --runs DIR"
    return Finding("shared", False, verdict, fix, required=False)


def _check_place(runs: Path, site: Site) -> Finding:
    """Name the site's file system of the runs, by the longest path, and its limits."""
    folder = existing(runs).resolve()
    paths = {name: os.path.expanduser(os.path.expandvars(p.path)) for name, p in site.filesystems.items()}
    # A `$` is a variable that this host does not set.
    whole = {name: path for name, path in paths.items() if path.startswith("/") and "$" not in path}
    roots = {name: Path(path).resolve() for name, path in whole.items()}
    holding = [name for name, root in roots.items() if folder.is_relative_to(root)]
    name = max(holding, key=lambda name: len(str(roots[name])), default=None)
    writable = [names for names, system in site.filesystems.items() if system.compute == "write"]
    better = f"choose one of {', '.join(f'{names} ({site.filesystems[names].path})' for names in writable)}"
    if name is None:
        names = ", ".join(site.filesystems)
        verdict = f"on none of the file systems that the site file names ({names})"
        return Finding("filesystem", False, verdict, f"{better}, by --runs DIR", required=False)
    place = site.filesystems[name]
    if place.compute != "write":
        may = "read there, not write" if place.compute == "read" else "not see it"
        return Finding("filesystem", False, f"{name}: compute nodes may {may}", f"{better}, by --runs DIR")
    return Finding("filesystem", True, f"{name}: {_facts(place)}")


def _facts(place: FileSystem) -> str:
    quota = f"{format_size(place.quota)} at most" if place.quota else ""
    files = f"{counted(place.files, 'file')} at most" if place.files else ""
    rest = f"files that nobody reads for {format_duration(place.purge)} are deleted" if place.purge else ""
    return "; ".join(filter(None, (quota, files, rest))) or "no limit is known"


def check_private(runs: Path) -> Finding:
    """Return whether a directory there can be private: the runs hold the keys of Parsl's channels."""
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        with tempfile.TemporaryDirectory(prefix=".diel-doctor-", dir=existing(runs)) as trial:
            status = os.stat(trial)
    except OSError as error:
        return Finding("privacy", False, f"cannot be tried: {error.strerror}", "see 'runs'")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 or status.st_uid != os.geteuid():
        verdict = f"a directory made private there has mode {mode:04o}: others could read the keys of a run"
        fix = "keep runs on a file system that knows permissions: --runs DIR"
        return Finding("privacy", False, verdict, fix)
    if not mask & 0o002:
        verdict = f"directories can be private; umask {mask:04o} lets others write what you make elsewhere"
        return Finding("privacy", False, verdict, "set `umask 077` (or 022) in your shell", required=False)
    return Finding("privacy", True, f"directories can be private; umask {mask:04o}")


def check_loopback() -> Finding:
    """Return whether a port on this machine can be bound and reached: Parsl's workers need that."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
            return Finding("loopback", True, "a port on 127.0.0.1 can be bound and reached")
    except OSError as error:
        fix = "let processes of this machine reach each other on 127.0.0.1 (a firewall or container rule?)"
        return Finding("loopback", False, f"127.0.0.1: {error.strerror or error}", fix)


def check_addresses(site: Site) -> Finding:
    """Return whether a port can be bound on an address at which nodes can reach a controller here."""
    try:
        hosts = addresses(site.address)
    except UsageError as error:
        verdict, _, fix = str(error).partition("\n")
        # A controller in a job looks for the address on the node where it runs.
        return Finding("address", False, verdict, fix, required=site.controller.home == "login")
    here = interfaces().items()
    listed = ", ".join(f"{address} ({name})" for address, name in here) or "127.0.0.1 alone"
    bound = [address for address in hosts if _bindable(address)]
    if not bound:
        verdict = f"no port can be bound on {', '.join(hosts)}; this host has {listed}"
        return Finding("address", False, verdict, "fix `address` in the site file, or omit it")
    if all(map(is_own, bound)):
        verdict = f"{', '.join(bound)} is a loopback or link-local address: no other node can use it"
        fix = f"give an `address` that nodes reach (this host has {listed}), or let controllers live in jobs"
        return Finding("address", False, verdict, fix, required=False)
    return Finding("address", True, f"a port can be bound on {', '.join(bound)}; this host has {listed}")


def _bindable(address: str) -> bool:
    with contextlib.suppress(OSError), socket.create_server((address, 0)):
        return True
    return False


PATIENCE = 60.0
DEEP = """\
diel: 1
name: doctor
axes: {number: {range: 250}}
stages: {nothing: {over: [number], command: ["true"]}}
"""


def attempt(
    words: Sequence[str], folder: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and output of a program; one that does not start or end counts as failed."""
    pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        done = subprocess.run(words, cwd=folder, env=env, timeout=PATIENCE, check=False, **pipes)
    except subprocess.TimeoutExpired:
        return 1, f"did not end within {PATIENCE:.0f} s"
    except OSError as error:
        return 1, error.strerror or str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last(output: str) -> str:
    """Return the last line of an output that says something."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def check_lammps() -> Finding:
    """Return the program that the shipped molecular dynamics runs."""
    program = find_program("lmp")
    get = f"{sys.executable} -m pip install 'diel[examples]', or load your site's LAMMPS module"
    if program is None:
        return Finding("lmp", False, "no 'lmp'", get, required=False)
    code, output = attempt([program, "-help"])
    version = next((line.strip() for line in output.splitlines() if "Atomic" in line), program)
    if code != 0:
        return Finding("lmp", False, f"{program}: {last(output)}", get, required=False)
    return Finding("lmp", True, version[:100], required=False)


def check_dot() -> Finding:
    """Graphviz, which draws the SVG of `diel graph`."""
    program = shutil.which("dot")
    if program is None:
        get = "install graphviz to draw graphs as SVG: apt-get install graphviz"
        return Finding("dot", False, "no 'dot'", get, required=False)
    code, output = attempt([program, "-V"])
    return Finding("dot", code == 0, last(output), "" if code == 0 else "reinstall graphviz", required=False)


def check_deep() -> Finding:
    """Run a small workflow, from beginning to end."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="diel-doctor-") as folder:
        Path(folder, "doctor.yaml").write_text(DEEP, encoding="utf-8")
        words = [*PYTHON, "-m", "diel", "run", "doctor.yaml", "--runs", "runs", "--no-cache", "-q"]
        code, output = attempt(words, Path(folder))
    if code == 0:
        return Finding("deep", True, f"250 tasks in {time.monotonic() - began:.1f} s")
    fix = "run it by hand to see more: diel init study && cd study && diel run workflow.yaml"
    return Finding("deep", False, f"exit code {code}: {last(output)}", fix)


RANKS = "from mpi4py import MPI; print(f'ranks={MPI.COMM_WORLD.allreduce(1)};', end='', flush=True)"
COUNTS = ("sh", "-c", "echo ranks=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}\\;")
LIBRARY = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "print(MPI.Get_library_version().split(',')[0].splitlines()[0])"
)
"""Prints the MPI that mpi4py loads, without starting it."""


def check_launchers(site: Site) -> Iterator[Finding]:
    """Yield the usual launcher, then the others that a stage can name."""
    check = check_launcher if site.scheduled else check_ranks
    usual = site.launcher if isinstance(site.launcher, str) else None
    yield check(site, usual, usual=True)
    # without those that this machine lacks
    names = (name for name in site.launcher_names if name in site.launchers or here(name))
    yield from (check(site, name, usual=False) for name in names if name != usual)


def start_words(site: Site, name: str | None) -> tuple[str, ...]:
    """Return the words that start two ranks; by the usual launcher if there is no name."""
    names = {name for name in (name, site.launcher) if isinstance(name, str)} - {*site.launchers}
    adapted = site.model_copy(update={"launchers": {**site.launchers, **{key: here(key) for key in names}}})
    return launcher_words(adapted, next(iter(site.pools)), Resources(ranks=2, launcher=name)) or ("mpiexec",)


def _finding(kind: str, name: str | None, ok: bool, text: str, fix: str = "") -> Finding:
    return Finding(f"mpi {name or kind}", ok, text, fix, required=False)


def check_ranks(site: Site, name: str | None = None, *, usual: bool = True) -> Finding:
    """Start two MPI ranks, which must find each other, by mpi4py if its MPI is the usual launcher's."""
    words = start_words(site, name)
    program = find_program(words[0])
    get = f"{sys.executable} -m pip install 'diel[mpi]', or load your site's MPI module"
    if program is None or (version_of("mpi4py") is None and usual):
        lacking = f"{program}, but no mpi4py" if program else f"no '{words[0]}'"
        return _finding("ranks", name, False, lacking, get)
    launcher = launcher_of([program, *words[1:]], os.environ)
    library = last(attempt([*PYTHON, "-c", LIBRARY])[1])
    family = OPEN_MPI if OPEN_MPI in library else MPICH
    tried = (*PYTHON, "-c", RANKS) if usual or launcher.fits(family) is True else COUNTS
    code, output = attempt([program, *words[1:], *tried])
    both = f"the launcher is {launcher.text}, mpi4py loads {library}"
    if code == 0 and output.count("ranks=2;") == 2:
        return _finding("ranks", name, True, f"two started{' and met' if tried != COUNTS else ''}: {both}")
    alone = code == 0 and output.count("ranks=1;") == 2
    verdict = f"two started, but did not meet: {both}" if alone else f"{both}: {last(output)}"
    unfit = usual and launcher.fits(family) is False
    return _finding("ranks", name, False, verdict, advice(launcher, family, os.environ) if unfit else get)


def check_launcher(site: Site, name: str | None = None, *, usual: bool = True) -> Finding:
    """Return whether an MPI launcher is here. It is not started: outside a job it might ask for one."""
    words = start_words(site, name)
    program = find_program(words[0])
    if program is not None:
        text = launcher_of([program, *words[1:]], os.environ).text
        more = "; --job shows whether nodes have it, and whether ranks meet" if usual else ""
        return _finding("launcher", name, True, text + more)
    key = f"`launchers: {name}`" if name else "`launcher`"
    fix = f"load the module that has it in `setup`, or correct {key} in the file of site '{site.name}'"
    return _finding("launcher", name, False, f"no '{words[0]}' on this host", fix)
