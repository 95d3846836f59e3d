"""Schedulers: job scripts, states and answers, one file each. Nothing here imports Parsl.

What a package with a scheduler of its own needs is imported from here.
"""

from diel.site.scheduler.job import (
    Job,
    JobState,
    JobStatus,
    SchedulerBusy,
    SchedulerRefused,
    check_outputs,
    clock,
    mebibytes,
    quoted,
)
from diel.site.scheduler.scheduler import Answer, Dialect, NodeKind, Offer, Queue, Scheduler, scheduler_named
