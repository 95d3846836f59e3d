"""What a machine, or a site, needs to run workflows, checked one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from diel.doctor.finding import Finding as Finding
from diel.doctor.folder import check_clock, check_runs, check_shared
from diel.doctor.machine import (
    CORE,
    check_account,
    check_addresses,
    check_local,
    check_loopback,
    check_machine,
    check_package,
    check_python,
    check_site,
)
from diel.doctor.machine import EXTRAS as EXTRAS
from diel.doctor.programs import check_deep, check_dot, check_lammps, check_launcher, check_ranks
from diel.errors import DielError
from diel.site import Site, find_site

PROGRAMS = frozenset({"mpi ranks", "mpi launcher", "lmp", "dot"})
"""Checks of programs that not every workflow needs."""


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
    if known is not None and not known.scheduled:
        yield check_local(known, runs)
    if known is not None and known.scheduled:
        yield from _examine_site(known, runs)
    for extra, packages in EXTRAS.items():
        yield from (check_package(package, extra, required=False) for package in packages)
    if known is not None:
        yield check_launcher(known) if known.scheduled else check_ranks(known)
    yield check_lammps()
    yield check_dot()
    if deep:
        yield check_deep()


def _examine_site(site: Site, runs: Path) -> Iterator[Finding]:
    """What a site with a scheduler needs besides."""
    from diel.doctor.scheduler import check_scheduler  # without a scheduler it need not be loaded

    yield check_account(site)
    yield from check_scheduler(site)
    yield from check_shared(runs, site)
    yield check_addresses(site)


def try_jobs(
    site: Site, name: str | None, pools: Sequence[str], runs: Path, wait: float, tell: Callable[[str], None]
) -> Iterator[Finding]:
    """One tiny job in each pool, and a real run where that found nothing wrong.

    `name` is the site as it was asked for; `wait` in seconds, for each of the two; `tell` gets why they wait.
    """
    from diel.doctor.trial import trials  # only on request
    from diel.doctor.world import try_runs

    good = dict.fromkeys(pools, False)
    for finding in trials(site, pools, runs, wait, tell):
        pool, _, what = finding.name.partition(": ")
        if what == "job":
            good[pool] = finding.ok
        elif finding.required and not finding.ok:
            good[pool] = False
        yield finding
    yield from try_runs(site, name, [pool for pool in pools if good[pool]], runs, wait, tell)
