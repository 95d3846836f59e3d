"""Whether the ranks of an attempt form one MPI world: the MPI of launchers and programs, what ranks report.

An MPI that finds nothing of a launcher that it knows takes itself for a world of one process. Under the wrong
launcher a task would so succeed with as many small worlds as it has ranks, all in one directory. Each rank is
therefore started by a few lines of shell, which let what this launcher does not offer lead nowhere: such an
MPI fails when it is initialised, before it computed anything, and what it says on the way goes to a file of
the attempt. This costs a rank a millisecond, and holds for scripts, for programs that load MPI later or have
it linked in, and on other nodes. A process that uses no MPI notices nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from diel.attempt.bundle import Failure, Work
from diel.attempt.capture import errors_so_far
from diel.states import FailureClass

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
"""The most bytes of a script to look at."""
_PROGRAMS = 20
"""The most programs of a command to look at."""
_PATIENCE = 10.0
"""Seconds that a program may take to print its version."""


class Launcher(NamedTuple):
    """What starts the ranks of a task."""

    text: str
    """It in words: its program and version."""
    family: str | None
    """The MPI whose ranks find each other under it; empty for none at all, None if unknown."""
    slurm: bool = False

    def fits(self, family: str) -> bool | None:
        """Whether ranks of an MPI form one world under it; None if unknown."""
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
    """A launcher of an MPI on PATH; None if there is none."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in ("mpiexec", "mpirun", "mpirun.openmpi", "mpiexec.hydra"):
            program = os.path.join(folder, name)
            if os.access(program, os.X_OK) and _starter(program).family == family:
                return program
    return None


class Library(NamedTuple):
    """The MPI that a program is linked to."""

    family: str
    text: str
    """Its file, and the program."""


def library_of(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Library | None:
    """The MPI of the programs that a command or its scripts name; None if none is linked to one.

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
    """The compiled programs that some texts name, including those in scripts."""
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
    """The output of a program; empty if it does not start or end."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode("utf-8", "replace")


FILE = ".world"
STALE = frozenset(
    {"PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE", "PMIX_NAMESPACE", "PMIX_RANK"}
    | {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}
)
"""What a launcher tells its ranks; from one that started diel itself, ranks would take it for theirs."""
_RANK = """\
diel_file=$1 diel_ranks=$2 diel_fd=987; shift 2
diel_size=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-$diel_ranks}}
[ "$diel_size" = "$diel_ranks" ] || echo "size=$diel_size" >>"$diel_file"
if [ -w "$diel_file" ]; then
  for diel_free in 9 8 7 6 5 4 3; do
    [ -e "/proc/self/fd/$diel_free" ] || break
  done
  diel_fd=$diel_free
  eval "exec $diel_fd>>\\"\\$diel_file\\""
fi
if [ -z "$PMI_FD$PMI_PORT$PMI_RANK$PMI_CONTROL_PORT$PALS_RANKID$FLUX_TASK_RANK" ]; then
  export PMI_FD="$diel_fd"
fi
export OMPI_MCA_ess_singleton_server="${OMPI_MCA_ess_singleton_server:-file:/no/launcher/of/Open/MPI}"
if [ -z "$PMIX_RANK$OMPI_COMM_WORLD_RANK" ]; then
  export PMIX_MCA_gds="${PMIX_MCA_gds:-none}"
  [ "$diel_fd" = 987 ] || export OPAL_OUTPUT_STDERR_FD="$diel_fd"
fi
exec "$@"
"""
"""Starts one rank: `sh -c TEXT rank FILE RANKS PROGRAM [ARG…]`.

MPICH and its kin write a first word to PMI_FD and wait for an answer, which the file does not give. Open MPI
up to 4 asks a server before it is a world of its own, and the file that should name it is not there; from 5
on it asks PMIx, whose store is not there either. A shell has descriptors of one digit: a free one is taken.
"""
_FAMILIES = (
    (re.compile(r"^cmd=init\b", re.MULTILINE), MPICH),
    (
        re.compile(
            r"no/launcher/of|MPI_INIT|orte_init|PMIx_Init|no-pmi\b|OPAL ERROR: .* in file \S*_client\.c"
        ),
        OPEN_MPI,
    ),
)
_SIZE = re.compile(r"^size=(\d+)$", re.MULTILINE)
_FAILED = (
    (re.compile(r"Fatal error in (?:internal_|P?MPI_)Init"), MPICH),
    (re.compile(r"An error occurred in MPI_Init"), OPEN_MPI),
)
_UNKNOWN_PMI = "unsupported PMI version"
"""What MPICH from 4.2 on says under a launcher that only offers PMIx."""


class World:
    """The ranks of one attempt that is under way."""

    def __init__(self, work: Work, command: tuple[str, ...], task_dir: str, env: Mapping[str, str]) -> None:
        """Makes the file for their reports. Raises OSError."""
        self._work = work
        self._command = command
        self._folder = Path(task_dir)
        self._env = env
        self._file = os.path.join(task_dir, FILE)
        self._said = ""
        self._seen = (0, 0)
        self._found: Failure | None = None
        self._looking = threading.Lock()
        if work.ranks > 1:  # one rank is a world of one, whatever started it
            Path(self._file).touch()

    @property
    def words(self) -> tuple[str, ...]:
        """The words between the launcher and the command."""
        return ("sh", "-c", _RANK, "rank", self._file, str(self._work.ranks)) if self._work.ranks > 1 else ()

    def look(self) -> Failure | None:
        """What is wrong, from the ranks' reports so far; cheap enough to call often."""
        with self._looking:  # the watchdog may be using it
            if self._work.ranks > 1 and self._found is None:
                with contextlib.suppress(OSError):  # the task removed the file
                    self._look()
            return self._found

    def _look(self) -> None:
        with open(self._file, encoding="utf-8", errors="replace") as file:  # NFS looks again when it opens
            seen = (os.fstat(file.fileno()).st_size, os.fstat(2).st_size)
            if seen != self._seen:
                self._seen = seen
                self._said = file.read()
                self._found = self._judged()

    def _judged(self) -> Failure | None:
        started = _SIZE.search(self._said)
        if started is not None:
            return self._of_another_size(int(started[1]))
        family = MPICH if _UNKNOWN_PMI in errors_so_far() else _first(_FAMILIES, self._said)
        return None if family is None else self._apart(family)

    def end(self, exit_code: int | None) -> Failure | None:
        """What was wrong when all ranks had ended: if they failed, their programs say so too."""
        found = self.look()
        if found is not None or exit_code in (0, os.EX_TEMPFAIL):
            return found
        stderr = errors_so_far()
        if _UNKNOWN_PMI in stderr:
            return self._apart(MPICH)
        launcher = launcher_of(self._work.launcher, self._env)
        library = library_of(self._command, self._folder, self._env)
        family = _first(_FAILED, stderr) or (library.family if library else None)
        return self._apart(family) if family is not None and launcher.fits(family) is False else None

    def close(self) -> None:
        """Removes the file. Forwards Open MPI's other output to where it belongs."""
        if self._work.ranks > 1:
            Path(self._file).unlink(missing_ok=True)
            if self._found is None:
                sys.stderr.write(self._said)

    def _of_another_size(self, started: int) -> Failure:
        launcher = launcher_of(self._work.launcher, self._env)
        message = (
            f"{self._work.ranks} ranks were asked for, and {launcher.text} started {started}: let `launcher` "
            "of the site file say {ranks} where it says how many"
        )
        return Failure(FailureClass.LAUNCH, message)

    def _apart(self, family: str) -> Failure:
        launcher = launcher_of(self._work.launcher, self._env)
        library = library_of(self._command, self._folder, self._env)
        linked = f" ({library.text})" if library is not None and library.family == family else ""
        if self._work.module is not None:
            linked = " (mpi4py loads it)"
        ranks = self._work.ranks
        what = f"{ranks} ranks do not form one world" if ranks > 1 else "its MPI cannot start"
        message = (
            f"{what}: the launcher is {launcher.text}, and the MPI of what it starts is {family}{linked}; "
            f"{advice(launcher, family, self._env)}"
        )
        return Failure(FailureClass.LAUNCH, message)


def advice(launcher: Launcher, family: str, environ: Mapping[str, str]) -> str:
    """What to write so that ranks of an MPI find each other."""
    if launcher.slurm:
        kind = "pmix" if family == OPEN_MPI else "pmi2"
        return f"write --mpi={kind} in `launcher` of the site file (`srun --mpi=list` shows what there is)"
    program = starter_of(family, environ)
    if program is None:
        return f"load the module of {family}, and let `launcher` of the site file name its mpiexec"
    name = "openmpi" if family == OPEN_MPI else "mpich"
    stage = f"let the stage say `resources: {{launcher: {name}}}`"
    return f'{stage}, or write `launcher: [{program}, -n, "{{ranks}}"]` in the site file'


def _first(patterns: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str | None:
    return next((family for pattern, family in patterns if pattern.search(text)), None)
