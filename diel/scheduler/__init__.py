"""Schedulers: job scripts, states and answers, one file each. Nothing here imports Parsl.

What a package with a scheduler of its own needs is imported from here.
"""

from diel.scheduler.job import Job as Job
from diel.scheduler.job import JobState as JobState
from diel.scheduler.job import JobStatus as JobStatus
from diel.scheduler.job import SchedulerBusy as SchedulerBusy
from diel.scheduler.job import SchedulerRefused as SchedulerRefused
from diel.scheduler.job import check_outputs as check_outputs
from diel.scheduler.job import clock as clock
from diel.scheduler.job import mebibytes as mebibytes
from diel.scheduler.job import quoted as quoted
from diel.scheduler.scheduler import Answer as Answer
from diel.scheduler.scheduler import Dialect as Dialect
from diel.scheduler.scheduler import NodeKind as NodeKind
from diel.scheduler.scheduler import Offer as Offer
from diel.scheduler.scheduler import Queue as Queue
from diel.scheduler.scheduler import Scheduler as Scheduler
from diel.scheduler.scheduler import scheduler_named as scheduler_named
