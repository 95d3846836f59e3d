"""What a run made, read back from its directory."""

from diel.observe.results.attempts import list_metrics, list_trials, list_usage
from diel.observe.results.reader import RunReader, read
from diel.observe.results.rows import (
    DROPPED,
    answered_of,
    made_counts,
    make_table,
    picked_tasks,
    summarize,
    suspects,
)
