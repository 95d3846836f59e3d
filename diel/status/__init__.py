"""How a run stands: a pure view of its snapshot and of what its journal gained since.

Nothing here asks a controller or a scheduler, and nothing heavy is imported: the status of a run is
there in a blink, whoever asks, on whatever host.
"""

from diel.status.axis import AxisStatus, CourseStatus, axes_of
from diel.status.run import (
    StageStatus,
    Status,
    blocks_of,
    failure_document,
    fold_status,
    read_status,
    task_of,
)
from diel.status.standing import standing
from diel.status.tasks import UNDER_WAY, find_stage, find_task, never_came, tasks_by_state
from diel.status.written import stage_names

__all__ = [
    "UNDER_WAY",
    "AxisStatus",
    "CourseStatus",
    "StageStatus",
    "Status",
    "axes_of",
    "blocks_of",
    "failure_document",
    "find_stage",
    "find_task",
    "fold_status",
    "never_came",
    "read_status",
    "stage_names",
    "standing",
    "task_of",
    "tasks_by_state",
]
