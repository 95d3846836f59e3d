"""Schedulers: job scripts, states and answers of Slurm, PBS and Torque. Nothing here imports Parsl."""

from __future__ import annotations

from diel.scheduler.pbs import Pbs
from diel.scheduler.scheduler import Scheduler
from diel.scheduler.slurm import Slurm
from diel.scheduler.torque import Torque


def scheduler_named(name: str) -> Scheduler:
    """The scheduler that a site names: slurm, pbs or torque. Raises KeyError for another word."""
    known: dict[str, type[Slurm] | type[Pbs] | type[Torque]] = {"slurm": Slurm, "pbs": Pbs, "torque": Torque}
    return known[name]()
