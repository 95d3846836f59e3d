"""What an earlier controller left: its running tasks are adopted, or what still runs is ended and recorded.

A worker whose controller is gone commits its task and ends. The next controller counts such tasks as handed
out; what becomes of their blocks, the caller decides (docs/decisions/026).
"""

import contextlib
import time
from collections.abc import Callable, Container
from typing import NamedTuple

from diel.backends.blocks.block import Adopt, Block
from diel.base.paths import RunPaths
from diel.base.states import RunState
from diel.observe.status.run import Status
from diel.site.find import read_kept_site
from diel.site.scheduler import JobState, SchedulerBusy, scheduler_named
from diel.site.shape import Shape
from diel.store.journal import records
from diel.store.journal.history import History
from diel.store.journal.segment import Reader, SegmentWriter
from diel.store.journal.snapshot import read_run
from diel.store.journal.stage_history import ranges
from diel.store.project.lease import beat, take
from diel.store.project.requests import put_up
from diel.store.project.submission import job_prefix, read_submissions
from diel.tasks.ledger import Ledger
from diel.worker.attempt.reaper import kill_marked

AGAIN = 15.0
"""Seconds after which jobs that have not ended are cancelled again."""
PAUSE = 0.5


def adopt(ledger: Ledger, take: Adopt) -> list[Block]:
    """Count what runs in an earlier controller's blocks as handed out, and return these blocks."""
    history = ledger.history
    live = {name: record for name, record in history.blocks.items() if not JobState(record["state"]).ended}
    _give_up(ledger, live)
    tasks = [
        (stage, i, attempt.number, attempt.worker) for (stage, i), attempt in sorted(history.left.items())
    ]
    for stage, index, number, _ in tasks:
        take(stage, index, number)
    if tasks:
        ledger.append({"event": "adopted", "tasks": tasks})
    return [_block(record) for record in live.values()]


def _give_up(ledger: Ledger, live: Container[str]) -> None:
    """Fence what may still run in blocks that have ended: it is handed out again."""
    history = ledger.history
    over = {history.workers[attempt.worker]["block"] for attempt in history.left.values()}
    for block in sorted(name for name in over if name not in live):
        with contextlib.suppress(OSError):  # the record decides
            put_up(ledger.paths, block)
    ledger.read_all()
    for (stage, index), attempt in sorted(history.left.items()):
        if history.workers[attempt.worker]["block"] not in live:
            ledger.append({"event": "fenced", "stage": stage, "tasks": [[index, attempt.number]]})


def _block(record: records.BlockFacts) -> Block:
    """Return a block from its journal record."""
    return Block(
        name=record["block"],
        shape=Shape(**record["needs"]),
        slots=0,
        walltime=record["walltime"],
        asked=record["asked"],
        epoch=record["epoch"],
        job=record["job"],
        state=JobState(record["state"]),
        reason=record["reason"],
        nodes=record["nodes"],
        began=record["began"],
        adopted=True,
    )


class Leftovers(NamedTuple):
    """What became of a run's jobs."""

    ended: tuple[str, ...]
    """Ids of the jobs that existed and have ended."""
    left: tuple[str, ...]
    why: str = ""
    """What the scheduler said last, if it does not answer."""


def end_jobs(
    paths: RunPaths, history: History, *, patience: float, tend: Callable[[], None] = lambda: None
) -> Leftovers | None:
    """Cancel a run's jobs, by how their names begin, and wait for their end; `tend` is called meanwhile. No
    journal has a job whose controller just died, and old ids may be others' now. Those that it has are
    returned if the scheduler does not answer."""
    if not paths.site.exists() or not (site := read_kept_site(paths)).scheduled:
        return None
    scheduler = scheduler_named(site.scheduler)
    ended: set[str] = set()
    jobs, why = noted_jobs(paths, history), ""
    if absent := scheduler.lacking():  # waiting for an answer is no use here
        return Leftovers((), tuple(sorted(jobs)), f"no {', '.join(absent)} here")
    end = time.monotonic() + patience
    again, pause = 0.0, PAUSE
    while True:
        tend()
        try:
            jobs, why = set(scheduler.find(job_prefix(paths)).values()), ""
            ended |= jobs
            if not jobs:
                return Leftovers(tuple(sorted(ended)), ())
            if time.monotonic() >= again:
                scheduler.cancel(sorted(jobs))
                again = time.monotonic() + AGAIN
            pause = PAUSE
        except SchedulerBusy as error:
            why, pause = str(error), min(2 * pause, 10.0)
        if time.monotonic() + pause > end:
            return Leftovers(tuple(sorted(ended - jobs)), tuple(sorted(jobs)), why)
        time.sleep(pause)


def noted_jobs(paths: RunPaths, history: History) -> set[str]:
    """Return the jobs that have not ended according to the run's files."""
    controllers = [controller.job for controller in read_submissions(paths) if controller.job is not None]
    live = (block for block in history.blocks.values() if not JobState(block["state"]).ended)
    blocks = {block["job"] for block in live if block["job"]}
    # Within an allocation blocks are not jobs of the scheduler: they end with it.
    within = {job for job in blocks if any(job.startswith(f"{controller}.") for controller in controllers)}
    return (blocks - within) | set(controllers[-2:])


PATIENCE = 90.0
"""Seconds that the scheduler gets to answer, and jobs to end."""


def close(paths: RunPaths, reader: Reader, status: Status) -> Leftovers | None:
    """End what still runs of a run, and record that it was cancelled; return what became of its jobs. The
    lease comes first: a controller that is only just coming then finds the run taken."""
    with contextlib.closing(take(paths)[1]) as segment:
        kill_marked("DIEL_RUN_DIR", str(paths.root))
        leftovers = end_jobs(paths, reader.history, patience=PATIENCE, tend=lambda: beat(paths))
        if leftovers is not None:
            _note_blocks(paths, leftovers, segment)
        _verdicts(paths, status, segment)
    read_run(paths).save()
    return leftovers


def _note_blocks(paths: RunPaths, leftovers: Leftovers, segment: SegmentWriter) -> None:
    """Record how the run's blocks ended, but for those whose job may still be there."""
    now = time.time()
    for block in read_run(paths).history.blocks.values():
        job = str(block.get("job") or "")
        # Within an allocation a block's job is a part of the allocation's: `62.1` of `62`.
        ended = any(job == parent or job.startswith(f"{parent}.") for parent in leftovers.ended)
        is_leftover = bool(leftovers.why) or job in leftovers.left
        if JobState(block["state"]).ended or (is_leftover and not ended):
            continue
        state = JobState.CANCELLED if ended else JobState.GONE
        segment.append({**block, "event": "block", "state": state.value, "ended": now, "time": now})


def _verdicts(paths: RunPaths, status: Status, segment: SegmentWriter) -> None:
    """Give the verdicts: tasks that failed stay failed; the rest without a result is cancelled."""
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
