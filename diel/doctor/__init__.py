"""What a machine, or a site, needs to run workflows, checked one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from diel.doctor import machine, programs
from diel.doctor.launcher import check_launchers
from diel.doctor.machine import EXTRAS as EXTRAS
from diel.doctor.machine import Finding as Finding
from diel.errors import DielError
from diel.site import find_site

PROGRAMS = frozenset({"mpi ranks", "mpi launcher", "lmp", "dot"})
"""Checks of programs that not every workflow needs."""


def examine(runs: Path, site: str | None, *, deep: bool) -> Iterator[Finding]:
    """All checks, in turn; some start a program and take a second."""
    yield machine.check_python()
    yield from (machine.check_package(package, "", required=True) for package in machine.CORE)
    known = None
    try:
        known = find_site(site, Path())
    except DielError as error:
        yield Finding("site", False, str(error), "fix the site file, or choose another with --site")
    else:
        yield machine.check_site(known)
    yield machine.check_machine()
    yield machine.check_runs(runs)
    yield machine.check_clock(runs)
    yield machine.check_loopback()
    if known is not None and known.scheduled:
        from diel.doctor.scheduler import check_scheduler  # without a scheduler it need not be loaded

        yield machine.check_account(known)
        yield from check_scheduler(known)
        yield from machine.check_shared(runs, known)
        yield machine.check_addresses(known)
    elif known is not None:
        yield machine.check_local(known, runs)
    yield from machine.check_extras()
    if known is not None:
        yield from check_launchers(known)
    yield programs.check_lammps()
    yield programs.check_dot()
    if deep:
        yield programs.check_deep()
