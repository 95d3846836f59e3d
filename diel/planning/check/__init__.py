"""Finds everything that is known to be wrong before anything runs, and reports it at once."""

from diel.planning.check.workflow import CheckedWorkflow, check

__all__ = ["CheckedWorkflow", "check"]
