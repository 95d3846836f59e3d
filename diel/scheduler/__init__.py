"""Schedulers: job scripts, states and answers, one file each. Nothing here imports Parsl.

What a package with a scheduler of its own needs is imported from here.
"""

from diel.scheduler.command import Answer as Answer
from diel.scheduler.directives import check_outputs as check_outputs
from diel.scheduler.directives import clock as clock
from diel.scheduler.directives import mebibytes as mebibytes
from diel.scheduler.directives import options as options
from diel.scheduler.directives import quoted as quoted
from diel.scheduler.installed import scheduler_named as scheduler_named
from diel.scheduler.job import Job as Job
from diel.scheduler.job import JobState as JobState
from diel.scheduler.job import JobStatus as JobStatus
from diel.scheduler.job import SchedulerBusy as SchedulerBusy
from diel.scheduler.job import SchedulerRefused as SchedulerRefused
from diel.scheduler.nodes import Dialect as Dialect
from diel.scheduler.nodes import NodeKind as NodeKind
from diel.scheduler.nodes import Offer as Offer
from diel.scheduler.nodes import Queue as Queue
from diel.scheduler.scheduler import Scheduler as Scheduler
