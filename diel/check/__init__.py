"""Everything that can be known to be wrong before anything runs, said at once."""

from diel.check.workflow import Checked, check

__all__ = ["Checked", "check"]
