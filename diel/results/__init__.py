"""What a run made, read back from its directory."""

from diel.results.picked import picked_tasks
from diel.results.recorded import Recorded
from diel.results.rows import DROPPED, make_table, summarize

__all__ = ["DROPPED", "Recorded", "make_table", "picked_tasks", "summarize"]
