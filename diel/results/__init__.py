"""What a run made, read back from its directory."""

from diel.results.metrics import list_metrics, list_trials
from diel.results.picked import picked_tasks
from diel.results.reader import RunReader, read
from diel.results.rows import DROPPED, answered_of, made_counts, make_table, summarize
from diel.results.suspect import suspects
from diel.results.usage import list_usage
