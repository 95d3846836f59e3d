"""What a run made, read back from its directory."""

from diel.results.picked import picked_tasks
from diel.results.recorded import Recorded
from diel.results.rows import make_table, summarize

__all__ = ["Recorded", "make_table", "picked_tasks", "summarize"]
