"""The MPI launchers of a site: whether they are here, and whether the ranks that they start meet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from diel.attempt.mpi import MPICH, OPEN_MPI, Launcher, advice, launcher_of
from diel.carried import PYTHON
from diel.check.launcher import here
from diel.doctor.machine import Finding, attempt, last
from diel.doctor.probe import version_of
from diel.site import Site, find_program, launcher_words
from diel.spec import Resources

RANKS = "from mpi4py import MPI; print(f'ranks={MPI.COMM_WORLD.allreduce(1)};', end='', flush=True)"
COUNTS = ("sh", "-c", "echo ranks=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}\\;")
LIBRARY = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "print(MPI.Get_library_version().split(',')[0].splitlines()[0])"
)
"""Prints the MPI that mpi4py loads, without starting it."""


def check_launchers(site: Site) -> Iterator[Finding]:
    """The usual launcher, then the others that a stage can name."""
    check = check_launcher if site.scheduled else check_ranks
    usual = site.launcher if isinstance(site.launcher, str) else None
    yield check(site, usual, usual=True)
    yield from (check(site, name, usual=False) for name in launcher_names(site) if name != usual)


def launcher_names(site: Site) -> Iterator[str]:
    """The launchers that a stage can name, without those that this machine does not have."""
    yield from (name for name in site.launcher_names if name in site.launchers or here(name))


def first_word(site: Site) -> str:
    """The program of the usual launcher."""
    return _words(site, None)[0]


def _words(site: Site, name: str | None) -> tuple[str, ...]:
    """The words that start two ranks; by the usual launcher if there is no name."""
    names = {name for name in (name, site.launcher) if isinstance(name, str)} - {*site.launchers}
    known = site.model_copy(update={"launchers": {**site.launchers, **{one: here(one) for one in names}}})
    return launcher_words(known, next(iter(site.pools)), Resources(ranks=2, launcher=name)) or ("mpiexec",)


def _finding(kind: str, name: str | None, ok: bool, found: str, fix: str = "") -> Finding:
    return Finding(f"mpi {name or kind}", ok, found, fix, required=False)


def check_ranks(site: Site, name: str | None = None, *, usual: bool = True) -> Finding:
    """Whether two MPI ranks really start, and find each other: those of mpi4py if it can be under it.

    The MPI that mpi4py loads must be that of the usual launcher.
    """
    words = _words(site, name)
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
    found = f"two started, but did not meet: {both}" if alone else f"{both}: {last(output)}"
    return _finding("ranks", name, False, found, _fix(launcher, family, get) if usual else get)


def _fix(launcher: Launcher, family: str, get: str) -> str:
    return advice(launcher, family, os.environ) if launcher.fits(family) is False else get


def check_launcher(site: Site, name: str | None = None, *, usual: bool = True) -> Finding:
    """Whether an MPI launcher is here. It is not started: outside a job it might ask for one."""
    words = _words(site, name)
    program = find_program(words[0])
    if program is not None:
        found = launcher_of([program, *words[1:]], os.environ).text
        more = "; --job shows whether nodes have it, and whether ranks meet" if usual else ""
        return _finding("launcher", name, True, found + more)
    key = f"`launchers: {name}`" if name else "`launcher`"
    fix = f"load the module that has it in `setup`, or correct {key} in the file of site '{site.name}'"
    return _finding("launcher", name, False, f"no '{words[0]}' on this host", fix)
