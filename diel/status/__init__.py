"""The state of a run: a pure view of its snapshot and of the records since.

It asks no controller and no scheduler, and loads nothing heavy: the status of a run is there in a blink,
whoever asks, on whatever host.
"""

from diel.status.axis import AxisStatus as AxisStatus
from diel.status.axis import CourseStatus as CourseStatus
from diel.status.axis import axes_of as axes_of
from diel.status.run import Status as Status
from diel.status.run import blocks_of as blocks_of
from diel.status.run import fold_status as fold_status
from diel.status.run import read_status as read_status
from diel.status.run import standing as standing
from diel.status.stage import find_stage as find_stage
from diel.status.stage import find_task as find_task
from diel.status.stage import stage_names as stage_names
from diel.status.stage import task_of as task_of
