"""Reasons for which a job will never run, however long it waits."""

from __future__ import annotations

from diel.scheduler.slurm import HOPELESS


def is_hopeless(reason: str) -> bool:
    """Whether a scheduler says by these words, of a job that is queued, that waiting is of no use."""
    return "can never run" in reason.lower() or reason.split(",")[0].strip() in HOPELESS
