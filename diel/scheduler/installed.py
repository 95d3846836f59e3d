"""Whether a scheduler's commands are on this machine. Nothing is asked: its server may be down or busy."""

from __future__ import annotations

import shutil

from diel.scheduler import pbs

COMMANDS = {
    "slurm": ("sbatch", "squeue", "scancel"),
    "pbs": ("qsub", "qstat", "qdel", "qselect"),
    "torque": ("qsub", "qstat", "qdel"),
}
"""What jobs are queued, asked for and ended with, by the scheduler that a site names."""


def lacking(name: str) -> tuple[str, ...]:
    """The commands of a scheduler that are not here; none for a site without one."""
    find = pbs.program if name == "pbs" else str
    return tuple(command for command in COMMANDS.get(name, ()) if shutil.which(find(command)) is None)
