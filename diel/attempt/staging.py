"""A task's inputs on its node's disk: brought there before it begins, let go at its end."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diel.attempt.block import with_hosts
from diel.attempt.bundle import Failure, Job, Request, Staged, Staging
from diel.attempt.command import spawn
from diel.attempt.watchdog import Watchdog, Watched
from diel.staging.bring import Brought, fetch, read_notes, take_notes
from diel.staging.disk import StagingError, own_disk
from diel.staging.item import placed
from diel.staging.shard import write_shards

if TYPE_CHECKING:
    from diel.journal import records

PLAN_FILE = ".stage.pickle"
SHARDS_FILE = ".shards.json"


def stage(
    job: Job, request: Request, task_dir: str, env: Mapping[str, str], dog: Watchdog, watched: Watched
) -> tuple[Request, Brought]:
    """Brings a task's inputs to its node; the request with the copies' paths, or as it was.

    Raises Failure where the task was cancelled, or its time was over, meanwhile.
    """
    assert job.staging is not None
    assert request.staged is not None

    def check() -> None:
        if watched.verdict is not None:
            raise watched.verdict

    if job.staging.each_node and job.module is None:
        return _on_each_node(job.staging, request, task_dir, env, dog, watched)
    watched.staging = True
    try:
        brought, entries = fetch(request.staged.items, job.staging.local, env, check)
    finally:
        with dog.lock:
            watched.staging = False
    check()
    return with_copies(request, entries), brought


def with_copies(request: Request, entries: str) -> Request:
    """The request with the copies below a directory; as it was where there is none."""
    staged = request.staged
    if not entries or staged is None:
        return request
    command: tuple[str, ...] | None = placed(staged.command, entries)
    inputs: dict[str, Any] = placed(staged.inputs, entries)
    params: dict[str, Any] = placed(staged.params, entries)
    env: dict[str, str] = placed(staged.env, entries)
    return replace(request, params=params, inputs=inputs, command=command, env=env, staged=None)


def _on_each_node(
    staging: Staging,
    request: Request,
    task_dir: str,
    env: Mapping[str, str],
    dog: Watchdog,
    watched: Watched,
) -> tuple[Request, Brought]:
    """The same for a command on nodes of its own: a program on each of them, before the command's ranks.

    One command line is for all ranks, so that the copies must have the same path on all nodes.
    """
    assert isinstance(request.staged, Staged)
    plan = Path(task_dir, PLAN_FILE)
    plan.write_bytes(pickle.dumps((request.staged.items, staging.local, task_dir)))
    words = (*with_hosts(staging.each_node), sys.executable, "-m", "diel.staging.bring", str(plan))
    try:
        spawn(words, env, dog, watched)
    except Failure as failure:
        if watched.verdict is not None:
            raise
        return request, Brought(warning=f"the inputs could not be staged on the task's nodes: {failure}")
    finally:
        plan.unlink(missing_ok=True)
    watched.group = None
    dog.begin(watched)
    told = read_notes(task_dir)
    whole = summed(told)
    folders = {brought.folder for brought in told}
    if whole.warning or not told or folders == {""}:
        return request, whole
    if len(folders) > 1:
        places = " and ".join(sorted(folders)[:2])
        return request, replace(
            whole, warning=f"the task's nodes have other directories ({places}): one command line fits none"
        )
    return with_copies(request, f"{folders.pop()}/entries"), whole


def summed(told: Sequence[Brought]) -> Brought:
    """What several processes brought, in one."""
    return Brought(
        sum(one.copied for one in told),
        sum(one.bytes for one in told),
        sum(one.found for one in told),
        max((one.seconds for one in told), default=0.0),
        next((one.folder for one in told if one.folder), ""),
        next((one.warning for one in told if one.warning), ""),
    )


def late_notes(request: Request, task_dir: str) -> list[Brought]:
    """What was brought while the task ran: because it asked for its part, or by its ranks."""
    found = take_notes()
    if request.shards or request.staged is not None:
        found += read_notes(task_dir)
    return found


def record_of(
    stage: str, request: Request, node: str, brought: Brought, now: float
) -> records.StagingRecord | None:
    """What the journal keeps; None where nothing was copied and nothing went wrong."""
    if not brought.copied and not brought.warning:
        return None
    return {
        "event": "staging",
        "stage": stage,
        "index": request.index,
        "attempt": request.attempt,
        "time": now,
        "node": node,
        "copied": brought.copied,
        "bytes": brought.bytes,
        "found": brought.found,
        "seconds": brought.seconds,
        "folder": brought.folder,
        "warning": brought.warning,
    }


def shard_environment(job: Job, request: Request, task_dir: str, env: Mapping[str, str]) -> dict[str, str]:
    """Variables by which `diel shard` finds a task's parts."""
    assert job.staging is not None
    if not request.shards:
        return {}
    path = f"{task_dir}/{SHARDS_FILE}"
    write_shards(path, request.shards, job.staging.local)
    found = {"DIEL_SHARDS": path}
    if any(shard.stage for shard in request.shards.values()) and not job.staging.each_node:
        try:
            found["DIEL_LOCAL_PINS"] = own_disk(job.staging.local, env).pins()
        except (StagingError, OSError):
            return found  # told when a part is asked for
    return found
