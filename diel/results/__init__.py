"""What a run made, read back from its directory."""

from diel.results.attempts import list_metrics, list_trials, list_usage
from diel.results.reader import RunReader, read
from diel.results.rows import DROPPED, answered_of, made_counts, make_table, picked_tasks, summarize, suspects
