"""Whether the ranks of an attempt form one MPI world: the MPI of launchers and programs, what ranks report.

An MPI that finds nothing of a launcher that it knows takes itself for a world of one process. So each rank is
started by a few lines of shell, which let what this launcher does not offer lead nowhere: such an MPI fails
before it computed anything, and what it says goes to a file of the attempt. A process without MPI notices
nothing, and a rank takes a millisecond longer.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from diel.base.states import FailureClass
from diel.worker.attempt.bundle import Failure, Work
from diel.worker.attempt.capture import read_tail

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
_PROGRAMS = 20
_PATIENCE = 10.0
"""Seconds that a program may take to print its version."""


class Launcher(NamedTuple):
    """What starts the ranks of a task."""

    text: str
    family: str | None
    """The MPI whose ranks find each other under it; empty for none at all, None if unknown."""
    slurm: bool = False

    def fits(self, family: str) -> bool | None:
        """Return whether ranks of an MPI form one world under it; None if unknown."""
        return None if self.family is None else self.family == family


def launcher_of(words: Sequence[str], environ: Mapping[str, str]) -> Launcher:
    """Return the launcher that a site's words start."""
    for word in words:
        name = os.path.basename(word)
        if name == "srun":
            kinds = re.findall(r"--mpi[= ](\S+)", " ".join(words)) or [environ.get("SLURM_MPI_TYPE", "")]
            text = f"Slurm's srun --mpi={kinds[-1]}" if kinds[-1] else "Slurm's srun, without --mpi"
            return Launcher(text, _SLURM_TYPES.get(kinds[-1].partition("_")[0]), slurm=True)
        if name.partition(".")[0] in _STARTERS:
            return _starter(shutil.which(word, path=environ.get("PATH", os.defpath)) or word)
    return Launcher(f"'{words[0]}'", None)


@cache
def _starter(program: str) -> Launcher:
    output = _output(program, "--version")
    for pattern, family, name in _VERSIONS:
        if match := pattern.search(output):
            return Launcher(f"{program} ({name} {match[1].rstrip('.')})", family)
    return Launcher(program, None)


def starter_of(family: str, environ: Mapping[str, str]) -> str | None:
    """Return a launcher of an MPI on PATH; None if there is none."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in ("mpiexec", "mpirun", "mpirun.openmpi", "mpiexec.hydra"):
            program = os.path.join(folder, name)
            if os.access(program, os.X_OK) and _starter(program).family == family:
                return program
    return None


def library_of(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the MPI that a command's programs are linked to, with its file and program; None for none."""
    texts, programs = [*command], set[str]()
    for place, text in enumerate(texts):  # it grows by the command's scripts
        for word in _WORD.findall(text[:_MOST]):
            there = None if "/" in word else shutil.which(word, path=environ.get("PATH", os.defpath))
            program = there or str(folder / word)
            if program in programs or len(programs) > _PROGRAMS or not os.path.isfile(program):
                continue
            programs.add(program)
            with contextlib.suppress(OSError), open(program, "rb") as file:
                start = file.read(_MOST)
                if place < len(command) and not start.startswith(b"\x7fELF"):
                    texts.append(start.decode("utf-8", "replace"))
                elif match := _LIBRARY.search(output := _output("ldd", program)):
                    family = OPEN_MPI if _OF_OPEN_MPI.search(output) else MPICH
                    return family, f"{match[2] or match[1]} of {os.path.basename(program)}"
    return None


def _output(*words: str) -> str:
    """Return the output of a program; empty if it does not start or end."""
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
_SIZE = re.compile(r"^size=(\d+)$", re.MULTILINE)
_REPORTS = {
    MPICH: re.compile(r"^cmd=init\b", re.MULTILINE),
    OPEN_MPI: re.compile(
        r"no/launcher/of|MPI_INIT|orte_init|PMIx_Init|no-pmi\b|OPAL ERROR: .* in file \S*_client\.c"
    ),
}
_ERRORS = {
    MPICH: re.compile(r"Fatal error in (?:internal_|P?MPI_)Init"),
    OPEN_MPI: re.compile(r"An error occurred in MPI_Init"),
}
_UNKNOWN_PMI = "unsupported PMI version"
"""What MPICH from 4.2 on says under a launcher that only offers PMIx."""


class World:
    """The ranks of one attempt that is under way."""

    def __init__(self, work: Work, command: tuple[str, ...], task_dir: str, env: Mapping[str, str]) -> None:
        """Make the file for their reports. Raises OSError."""
        self._work, self._command, self._folder, self._env = work, command, Path(task_dir), env
        self._file = self._folder / FILE
        self._reports = ""
        self._failure: Failure | None = None
        self._lock = threading.Lock()
        if work.ranks > 1:  # one rank is a world of one, whatever started it
            self._file.touch()

    @property
    def words(self) -> tuple[str, ...]:
        """The words between the launcher and the command."""
        several = self._work.ranks > 1
        return ("sh", "-c", _RANK, "rank", str(self._file), str(self._work.ranks)) if several else ()

    def look(self) -> Failure | None:
        """Return what is wrong, from the ranks' reports so far; cheap enough to call often."""
        with self._lock:  # the watchdog may be using it
            if self._work.ranks > 1 and self._failure is None:
                with contextlib.suppress(OSError):  # the task removed the file
                    self._reports = self._file.read_text("utf-8", "replace")
                    self._failure = self._judge()
            return self._failure

    def _judge(self) -> Failure | None:
        if started := _SIZE.search(self._reports):
            launcher, ranks = launcher_of(self._work.launcher, self._env), self._work.ranks
            message = f"{ranks} ranks were asked for, and {launcher.text} started {started[1]}"
            hint = "let `launcher` of the site file say {ranks} where it says how many"
            return Failure(FailureClass.LAUNCH, f"{message}: {hint}")
        family = MPICH if _UNKNOWN_PMI in read_tail() else _first(_REPORTS, self._reports)
        return None if family is None else self._apart(family)

    def end(self, exit_code: int | None) -> Failure | None:
        """Return what was wrong when all ranks had ended: if they failed, their programs say so too."""
        failure = self.look()
        if failure is not None or exit_code in (0, os.EX_TEMPFAIL):
            return failure
        errors = read_tail()
        if _UNKNOWN_PMI in errors:
            return self._apart(MPICH)
        library = library_of(self._command, self._folder, self._env)
        family = _first(_ERRORS, errors) or (library and library[0])
        launcher = launcher_of(self._work.launcher, self._env)
        return self._apart(family) if family is not None and launcher.fits(family) is False else None

    def close(self) -> None:
        """Remove the file. Forwards Open MPI's other output to where it belongs."""
        if self._work.ranks > 1:
            self._file.unlink(missing_ok=True)
            if self._failure is None:
                sys.stderr.write(self._reports)

    def _apart(self, family: str) -> Failure:
        launcher, ranks = launcher_of(self._work.launcher, self._env), self._work.ranks
        library = library_of(self._command, self._folder, self._env)
        linked = f" ({library[1]})" if library is not None and library[0] == family else ""
        linked = linked if self._work.module is None else " (mpi4py loads it)"
        message = f"{ranks} ranks do not form one world" if ranks > 1 else "its MPI cannot start"
        message += f": the launcher is {launcher.text}, and the MPI of what it starts is {family}{linked}"
        return Failure(FailureClass.LAUNCH, f"{message}; {advice(launcher, family, self._env)}")


def advice(launcher: Launcher, family: str, environ: Mapping[str, str]) -> str:
    """Say what to write so that ranks of an MPI find each other."""
    if launcher.slurm:
        kind = "pmix" if family == OPEN_MPI else "pmi2"
        return f"write --mpi={kind} in `launcher` of the site file (`srun --mpi=list` shows what there is)"
    program = starter_of(family, environ)
    if program is None:
        return f"load the module of {family}, and let `launcher` of the site file name its mpiexec"
    name = "openmpi" if family == OPEN_MPI else "mpich"
    stage = f"let the stage say `resources: {{launcher: {name}}}`"
    return f'{stage}, or write `launcher: [{program}, -n, "{{ranks}}"]` in the site file'


def _first(patterns: Mapping[str, re.Pattern[str]], text: str) -> str | None:
    return next((family for family, pattern in patterns.items() if pattern.search(text)), None)
