"""Finds everything that is known to be wrong before anything runs, and reports it at once."""

from diel.planning.check.workflow import Checked, check

__all__ = ["Checked", "check"]
