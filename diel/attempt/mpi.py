"""Which MPI a launcher is of, and which a program: asked where ranks found no world, and by `diel doctor`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

MPICH = "MPICH"
"""MPICH and its kin, of Intel and others: their ranks find each other by PMI."""
OPEN_MPI = "Open MPI"
"""Its ranks find each other by PMIx."""

_STARTERS = ("mpiexec", "mpirun", "orterun", "prterun")
_VERSIONS = (
    (re.compile(r"Intel\(R\) MPI Library.*?Version\s+([\d.]+)"), MPICH, "Intel MPI"),
    (re.compile(r"HYDRA.*?Version:\s+([\d.]+)", re.DOTALL), MPICH, "MPICH"),
    (re.compile(r"(?:Open MPI|OpenRTE|PRRTE)\D*([\d.]+)"), OPEN_MPI, "Open MPI"),
)
_SLURM_TYPES = {"pmi2": MPICH, "pmix": OPEN_MPI, "none": ""}
_LIBRARY = re.compile(r"^\s*(lib(?:mpi|mpich|mpi_cray|mpi_abi)\.so\S*)(?: => (\S+))?", re.MULTILINE)
_OF_OPEN_MPI = re.compile(r"\blibopen-(?:pal|rte)\.so")
_WORD = re.compile(r"[\w./+@%-]+")
_MOST = 1 << 16
"""Bytes of a script that are looked at."""
_PROGRAMS = 20
"""Programs of a command that are looked at."""
_PATIENCE = 10.0
"""Seconds that a program may take to tell its version."""


@dataclass(frozen=True)
class Launcher:
    """What starts the ranks of a task."""

    text: str
    """It in words: its program and version."""
    family: str | None
    """The MPI whose ranks find each other under it; empty for none at all, None where that is not known."""
    slurm: bool = False

    def fits(self, family: str) -> bool | None:
        """Whether ranks of an MPI become one world under it; None where that is not known."""
        return None if self.family is None else self.family == family


def launcher_of(words: Sequence[str], environ: Mapping[str, str]) -> Launcher:
    """The launcher that a site's words start."""
    path = environ.get("PATH", os.defpath)
    for word in words:
        name = os.path.basename(word)
        if name == "srun":
            return _srun(words, environ)
        if name.partition(".")[0] in _STARTERS:
            return _starter(shutil.which(word, path=path) or word)
    return Launcher(f"'{words[0]}'", None)


def _srun(words: Sequence[str], environ: Mapping[str, str]) -> Launcher:
    given = [word.removeprefix("--mpi=") for word in words if word.startswith("--mpi=")]
    given += [after for word, after in pairwise(words) if word == "--mpi"]
    kind = given[-1] if given else environ.get("SLURM_MPI_TYPE", "")
    if not kind:
        return Launcher("Slurm's srun, without --mpi", None, slurm=True)
    return Launcher(f"Slurm's srun --mpi={kind}", _SLURM_TYPES.get(kind.partition("_")[0]), slurm=True)


@cache
def _starter(program: str) -> Launcher:
    said = _output(program, "--version")
    for pattern, family, name in _VERSIONS:
        match = pattern.search(said)
        if match is not None:
            return Launcher(f"{program} ({name} {match[1].rstrip('.')})", family)
    return Launcher(program, None)


def starter_of(family: str, environ: Mapping[str, str]) -> str | None:
    """A launcher of an MPI on PATH; None where there is none."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in ("mpiexec", "mpirun", "mpirun.openmpi", "mpiexec.hydra"):
            program = os.path.join(folder, name)
            if os.access(program, os.X_OK) and _starter(program).family == family:
                return program
    return None


@dataclass(frozen=True)
class Library:
    """The MPI that a program is linked to."""

    family: str
    text: str
    """Its file, and the program."""


def library_of(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Library | None:
    """The MPI of the programs that a command or its scripts name; None where none is linked to one.

    What a program loads while it runs does not show in it.
    """
    seen: set[str] = set()
    for program in _programs(command, folder, environ.get("PATH", os.defpath), seen, deeper=True):
        said = _output("ldd", program)
        match = _LIBRARY.search(said)
        if match is not None:
            family = OPEN_MPI if _OF_OPEN_MPI.search(said) else MPICH
            return Library(family, f"{match[2] or match[1]} of {os.path.basename(program)}")
        if len(seen) > _PROGRAMS:
            break
    return None


def _programs(
    words: Sequence[str], folder: Path, path: str, seen: set[str], *, deeper: bool
) -> Iterator[str]:
    """The compiled programs that are named in some texts, those in scripts among them."""
    for word in (word for text in words for word in _WORD.findall(text[:_MOST])):
        found = str(folder / word) if "/" in word else shutil.which(word, path=path) or str(folder / word)
        if found in seen or not os.path.isfile(found):
            continue
        seen.add(found)
        try:
            with open(found, "rb") as file:
                start = file.read(_MOST)
        except OSError:
            continue
        if start.startswith(b"\x7fELF"):
            yield found
        elif deeper:
            yield from _programs([start.decode("utf-8", "replace")], folder, path, seen, deeper=False)


def _output(*words: str) -> str:
    """What a program says; nothing where it does not start or end."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode("utf-8", "replace")
