"""Everything that can be known to be wrong before anything runs, told at once."""

from diel.check.workflow import Checked, check

__all__ = ["Checked", "check"]
