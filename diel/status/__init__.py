"""How a run stands: a pure view of its snapshot and of what its journal gained since.

Nothing here asks a controller or a scheduler, and nothing heavy is imported: the status of a run is
there in a blink, whoever asks, on whatever host.
"""

from diel.status.axis import AxisStatus, CourseStatus, Running, axes_of
from diel.status.run import (
    StageStatus,
    Status,
    blocks_of,
    failure_document,
    fold_status,
    is_open,
    open_reader,
    read_status,
    records_with,
    task_of,
)
from diel.status.standing import Standing, run_state, standing
from diel.status.tasks import UNDER_WAY, find_stage, find_task, never_came, tasks_by_state
from diel.status.written import run_document, stage_names, workflow_name

__all__ = [
    "UNDER_WAY",
    "AxisStatus",
    "CourseStatus",
    "Running",
    "StageStatus",
    "Standing",
    "Status",
    "axes_of",
    "blocks_of",
    "failure_document",
    "find_stage",
    "find_task",
    "fold_status",
    "is_open",
    "never_came",
    "open_reader",
    "read_status",
    "records_with",
    "run_document",
    "run_state",
    "stage_names",
    "standing",
    "task_of",
    "tasks_by_state",
    "workflow_name",
]
