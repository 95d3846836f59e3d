"""What a run made, read back from its directory."""

from diel.results.metrics import list_metrics as list_metrics
from diel.results.metrics import list_trials as list_trials
from diel.results.picked import picked_tasks as picked_tasks
from diel.results.reader import RunReader as RunReader
from diel.results.reader import read as read
from diel.results.rows import DROPPED as DROPPED
from diel.results.rows import answered_of as answered_of
from diel.results.rows import made_counts as made_counts
from diel.results.rows import make_table as make_table
from diel.results.rows import summarize as summarize
from diel.results.suspect import suspects as suspects
from diel.results.usage import list_usage as list_usage
