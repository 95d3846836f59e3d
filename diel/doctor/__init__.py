"""What a machine, or a site, needs to run workflows, checked one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from diel.doctor.machine import (
    CORE,
    check_account,
    check_addresses,
    check_clock,
    check_extras,
    check_local,
    check_loopback,
    check_machine,
    check_package,
    check_python,
    check_runs,
    check_shared,
    check_site,
)
from diel.doctor.machine import EXTRAS as EXTRAS
from diel.doctor.machine import Finding as Finding
from diel.doctor.programs import check_deep, check_dot, check_lammps, check_launcher, check_ranks
from diel.errors import DielError
from diel.site import find_site

PROGRAMS = frozenset({"mpi ranks", "mpi launcher", "lmp", "dot"})
"""Checks of programs that not every workflow needs."""


def examine(runs: Path, site: str | None, *, deep: bool) -> Iterator[Finding]:
    """All checks, in turn; some start a program and take a second."""
    yield check_python()
    yield from (check_package(package, "", required=True) for package in CORE)
    known = None
    try:
        known = find_site(site, Path())
    except DielError as error:
        yield Finding("site", False, str(error), "fix the site file, or choose another with --site")
    else:
        yield check_site(known)
    yield check_machine()
    yield check_runs(runs)
    yield check_clock(runs)
    yield check_loopback()
    if known is not None and known.scheduled:
        from diel.doctor.scheduler import check_scheduler  # without a scheduler it need not be loaded

        yield check_account(known)
        yield from check_scheduler(known)
        yield from check_shared(runs, known)
        yield check_addresses(known)
    elif known is not None:
        yield check_local(known, runs)
    yield from check_extras()
    if known is not None:
        yield check_launcher(known) if known.scheduled else check_ranks(known)
    yield check_lammps()
    yield check_dot()
    if deep:
        yield check_deep()
