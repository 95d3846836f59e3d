"""Closes a run without a controller: ends what still runs, and writes what its controller would write."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from diel.attempt.reaper import kill_marked
from diel.blocks.leftovers import Leftovers, end_jobs
from diel.journal.segment import Reader, SegmentWriter
from diel.journal.snapshot import read_run
from diel.journal.stage_history import ranges
from diel.paths import RunPaths
from diel.project.lease import beat, take
from diel.scheduler import JobState
from diel.site import read_kept_site
from diel.states import RunState
from diel.status import Status

PATIENCE = 90.0
"""Seconds that the scheduler gets to answer, and jobs to end."""


def close(paths: RunPaths, reader: Reader, status: Status) -> Leftovers | None:
    """End what still runs of a run, and record that it was cancelled; return what became of its jobs. The
    lease comes first: a controller that is only just coming then finds the run taken."""
    with closing(take(paths)[1]) as segment:
        kill_marked("DIEL_RUN_DIR", str(paths.root))
        found = end_left_jobs(paths, reader, patience=PATIENCE, tend=lambda: beat(paths))
        if found is not None:
            _note_blocks(paths, found, segment)
        _verdicts(paths, status, segment)
    read_run(paths).save()
    return found


def end_left_jobs(
    paths: RunPaths, reader: Reader, *, patience: float, tend: Callable[[], None] = lambda: None
) -> Leftovers | None:
    """End the jobs of a run on a site with a scheduler; None without one."""
    if not paths.site.exists():
        return None
    site = read_kept_site(paths)
    if not site.scheduled:
        return None
    return end_jobs(paths, site, reader.history, patience=patience, tend=tend)


def _note_blocks(paths: RunPaths, found: Leftovers, segment: SegmentWriter) -> None:
    """Record how the run's blocks ended, but for those whose job may still be there."""
    now = time.time()
    for block in read_run(paths).history.blocks.values():
        job = str(block.get("job") or "")
        # Within an allocation a block's job is a part of the allocation's: `62.1` of `62`.
        ended = any(job == one or job.startswith(f"{one}.") for one in found.ended)
        left = bool(found.why) or job in found.left
        if JobState(block["state"]).ended or (left and not ended):
            continue
        state = JobState.CANCELLED if ended else JobState.GONE
        segment.append({**block, "event": "block", "state": state.value, "ended": now, "time": now})


def _verdicts(paths: RunPaths, status: Status, segment: SegmentWriter) -> None:
    """The verdicts: tasks that failed stay failed; the rest without a result is cancelled."""
    now = time.time()
    for record in status.failures:
        record["time"] = now
    segment.append(*status.failures)
    history = read_run(paths).history
    for name, stage in history.stages.items():
        open_ = [i for i in range(stage.total) if not stage.state(i).ended]
        if open_:
            segment.append({"event": "cancelled", "stage": name, "tasks": ranges(open_), "time": now})
    segment.append({"event": "end", "state": RunState.CANCELLED.value, "time": time.time()})
