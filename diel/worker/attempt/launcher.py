"""What starts the ranks of an attempt, and a command that does so itself, as often as it likes.

Such a command runs once. DIEL_LAUNCHER names a program that diel writes into the task's directory: called
with the words of another, it starts that one on the ranks, after all that diel puts before it elsewhere.
"""

import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from diel.worker.attempt.bundle import AT_LAUNCHER, LAUNCHER
from diel.worker.attempt.reaper import end_marked, kill_marked
from diel.worker.attempt.usage import in_launches

NOT_HERE = "these-are-the-ranks-already:write-launcher-in-the-command"
"""DIEL_LAUNCHER where a whole command is launched: a script that calls it learns why it does not start."""
AT_HOME = {"HYDRA_IFACE": "lo", "UCX_NET_DEVICES": "lo", "FI_TCP_IFACE": "lo", "OMPI_MCA_btl": "^tcp,ofi"}
"""What keeps the ports of ranks on one machine from other hosts: MPICH's networks by UCX and libfabric on the
loopback interface, and Open MPI in shared memory. A launcher's own ports stay open (docs/decisions/079)."""
_HOSTS = re.compile("-f|-H|--?hosts?|--?hostfile|-machinefile|-configfile")
_ALLOCATIONS = ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_JOBID", "PE_HOSTFILE", "FLUX_URI", "HYDRA_HOST_FILE")
"""Where launchers find hosts that nobody named."""
PATIENCE = 0.5
"""Seconds that launchers which a command left running may take to end their ranks."""
_PROGRAM = """\
#!/bin/sh
# What ${{{{ launcher }}}} stands for: it starts a program on the ranks of {task}.
case ${{1:--}} in -*)
  echo "diel: expected a program after the launcher, found '$1': its options belong into the site file" >&2
  exit 2;;
esac
{told}exec {before} "$@"
"""
_TOLD = """\
left=$(({end} - $(date +%s)))
set -- timeout --foreground --preserve-status --signal=TERM $((left > 0 ? left : 1)) "$@"
"""


def is_at_home(launcher: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether all ranks of a launcher are on this machine: no words or scheduler name hosts."""
    if any(map(_HOSTS.fullmatch, launcher)) or environ.keys() & {"DIEL_BLOCK", *_ALLOCATIONS}:
        return False
    return os.path.exists("/sys/class/net/lo")


def words_of_warning(interrupt: float | None, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return words before a rank that send it SIGTERM in time: srun (22.05) would kill it instead."""
    program = None if interrupt is None else shutil.which("timeout", path=env.get("PATH", os.defpath))
    if interrupt is None or program is None:
        return ()
    seconds = max(0.1, interrupt - time.time())
    return (program, "--foreground", "--preserve-status", "--signal=TERM", f"{seconds:.1f}")


class Launches:
    """The launchers that a command starts."""

    def __init__(self, folder: str, task: str, before: Sequence[str], warning: float | None) -> None:
        """Write the program; ranks get SIGTERM at `warning`, seconds since the epoch. Raises OSError."""
        self._folder = folder
        self._program = os.path.join(folder, LAUNCHER)
        text = _PROGRAM.format(
            task=task,
            told="" if warning is None else _TOLD.format(end=int(warning)),
            before=in_launches(shlex.join(before)),
        )
        Path(self._program).write_text(text, encoding="utf-8", errors="surrogateescape")
        os.chmod(self._program, 0o755)

    def placed(self, text: str) -> str:
        """Return a word or a shell's text with the program in place of `${{ launcher }}`."""
        return text.replace(shlex.quote(AT_LAUNCHER), shlex.quote(self._program)).replace(
            AT_LAUNCHER, self._program
        )

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the command."""
        variables = {
            name: self.placed(value) if AT_LAUNCHER in value else value for name, value in env.items()
        }
        return {**variables, "DIEL_LAUNCHER": self._program}

    def end(self) -> None:
        """End what the command left running: a launcher ends its ranks, which may be on other nodes."""
        if end_marked("DIEL_TASK_DIR", self._folder, PATIENCE):
            kill_marked("DIEL_TASK_DIR", self._folder)  # what they started meanwhile
