"""A task's files on its node's disk: inputs are copied there before it begins, outputs are copied back.

A command writes through links in its directory. The result is committed once copies are in their places.
"""

import contextlib
import os
import pickle
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.base.carried import PYTHON
from diel.base.copying import copy_file, no_check
from diel.base.states import FailureClass
from diel.worker.attempt.block import with_hosts
from diel.worker.attempt.bundle import Failure, Request, StagedTask, Staging, Work
from diel.worker.attempt.command import spawn
from diel.worker.attempt.reaper import is_full
from diel.worker.attempt.watchdog import RunningAttempt, Watchdog
from diel.worker.staging.disk import (
    StagingError,
    StagingReport,
    fetch,
    local_folder,
    note,
    own_disk,
    read_notes,
    take_notes,
    tree,
)
from diel.worker.staging.item import Local, placed
from diel.worker.staging.shard import write_shards

if TYPE_CHECKING:
    from diel.store.journal import records

PLAN_FILE = ".stage.pickle"
SHARDS_FILE = ".shards.json"


def disk_of(work: Work, env: Mapping[str, str]) -> str:
    """Return the directory on the node's disk that a stage's tasks use; empty without one."""
    if work.staging is None:
        return ""
    with contextlib.suppress(StagingError):
        return local_folder(work.staging.local.folder, env)[0]
    return ""


def stage(attempt: RunningAttempt, env: Mapping[str, str], dog: Watchdog) -> StagingReport:
    """Copy a task's inputs to its node, and make its request name the copies. Raise Failure. Whoever was told
    meanwhile to end still tells what it copied: the caller looks at the verdict."""
    work, staged = attempt.work, attempt.request.staged
    assert work.staging is not None
    assert staged is not None

    def check() -> None:
        if attempt.verdict is not None:
            raise attempt.verdict

    if work.staging.each_node and work.module is None:
        return _on_each_node(attempt, work.staging, staged, env, dog)
    attempt.is_fetching = True
    try:
        brought, entries = fetch(staged.items, work.staging.local, env, check)
    finally:
        with dog.lock:
            attempt.is_fetching = False
    attempt.request = with_copies(attempt.request, entries)
    return brought


def with_copies(request: Request, entries: str) -> Request:
    """Return the request with the copies below a directory; unchanged without one."""
    staged = request.staged
    if not entries or staged is None:
        return request
    command: tuple[str, ...] | None = placed(staged.command, entries)
    inputs: dict[str, Any] = placed(staged.inputs, entries)
    params: dict[str, Any] = placed(staged.params, entries)
    env: dict[str, str] = placed(staged.env, entries)
    rendered = placed(staged.rendered, entries)
    fields = {"params": params, "inputs": inputs, "command": command, "env": env, "rendered": rendered}
    return request._replace(**fields, staged=None)


def on_this_node(request: Request, local: Local | None) -> Request:
    """Return the request with its artifacts on the node of this MPI rank: its first rank copies them."""
    if request.staged is None or local is None:
        return request
    brought, entries = fetch(request.staged.items, local, os.environ)
    note(brought)
    return with_copies(request, entries)


def _on_each_node(
    attempt: RunningAttempt, staging: Staging, staged: StagedTask, env: Mapping[str, str], dog: Watchdog
) -> StagingReport:
    """Copy them on each of a command's whole nodes, to the same path: one command line is for all ranks."""
    plan = Path(attempt.task_dir, PLAN_FILE)
    plan.write_bytes(pickle.dumps((staged.items, staging.local, attempt.task_dir)))
    words = (*with_hosts(staging.each_node), *PYTHON, "-m", "diel.worker.staging.disk", str(plan))
    try:
        spawn(words, env, dog, attempt)
    except Failure as failure:
        if attempt.verdict is not None:
            raise
        return StagingReport(warning=f"the inputs could not be staged on the task's nodes: {failure}")
    finally:
        plan.unlink(missing_ok=True)
        attempt.group = None
        dog.begin(attempt)
    notes = read_notes(attempt.task_dir)
    whole = _summed(notes)
    folders = sorted({brought.folder for brought in notes})
    if whole.warning or folders in ([], [""]):
        return whole
    if len(folders) > 1:
        places = " and ".join(folders[:2])
        wrong = f"the task's nodes have other directories ({places}): one command line cannot fit all"
        return whole._replace(warning=wrong)
    attempt.request = with_copies(attempt.request, f"{folders[0]}/entries")
    return whole


def _summed(notes: Sequence[StagingReport]) -> StagingReport:
    """Return the sum of what several processes copied."""
    return StagingReport(
        sum(note.copied for note in notes),
        sum(note.bytes for note in notes),
        sum(note.found for note in notes),
        max((note.seconds for note in notes), default=0.0),
        next((note.folder for note in notes if note.folder), ""),
        next((note.warning for note in notes if note.warning), ""),
    )


def late_notes(attempt: RunningAttempt) -> list[StagingReport]:
    """Return what was copied while the task ran: because it asked for its part, or by its ranks."""
    notes = take_notes()
    if attempt.request.shards or attempt.request.staged is not None:
        notes += read_notes(attempt.task_dir)
    return notes


def record_of(attempt: RunningAttempt, node: str, brought: StagingReport) -> "records.StagingRecord | None":
    """Return what the journal keeps; None if nothing was copied and nothing went wrong."""
    if not brought.copied and not brought.warning:
        return None
    return {  # type: ignore[return-value]
        "event": "staging",
        "stage": attempt.work.stage,
        "index": attempt.request.index,
        "attempt": attempt.request.attempt,
        "time": time.time(),
        "node": node,
        **brought._asdict(),
    }


def shard_environment(attempt: RunningAttempt, env: Mapping[str, str]) -> dict[str, str]:
    """Variables by which `diel shard` finds a task's parts."""
    staging, shards = attempt.work.staging, attempt.request.shards
    assert staging is not None
    if not shards:
        return {}
    path = f"{attempt.task_dir}/{SHARDS_FILE}"
    write_shards(path, shards, staging.local)
    variables = {"DIEL_SHARDS": path}
    if any(shard.stage for shard in shards.values()) and not staging.each_node:
        with contextlib.suppress(StagingError, OSError):  # reported when a part is asked for
            variables["DIEL_LOCAL_PINS"] = own_disk(staging.local, env).pins()
    return variables


class Drain(NamedTuple):
    """One attempt's outputs on the node's disk."""

    folder: str
    task_dir: str
    paths: tuple[str, ...]

    def blame(self, failure: Failure) -> Failure:
        """Return the failure of a command: a full disk is not its fault. Another attempt writes elsewhere."""
        if failure.kind != FailureClass.APP or not is_full(self.folder):
            return failure
        message = f"no space left on the node's disk {self.folder} ({failure.message})"
        return Failure(FailureClass.NODE, message, failure.exit_code)

    def copy(self) -> int:
        """Put the outputs in place of their links; return their bytes. Raise OSError."""
        copied = 0
        for path in self.paths:
            written, link = f"{self.folder}/{path}", f"{self.task_dir}/{path}"
            if not os.path.islink(link):
                continue  # the command put its own file there, as programs that rename do
            if not os.path.exists(written):
                os.unlink(link)  # so that it is reported as missing, and not as a stray link
                continue
            part = f"{self.task_dir}/.drain.part"
            if os.path.isdir(written):
                shutil.rmtree(part, ignore_errors=True)
                copied += sum(copy_file(*pair, no_check, shared=False) for pair in tree(written, part))
                os.unlink(link)
            else:
                copied += copy_file(written, part, no_check, shared=False)
            os.rename(part, link)
        return copied

    def close(self) -> None:
        """Delete its files on the node's disk."""
        shutil.rmtree(self.folder, ignore_errors=True)


def open_drain(attempt: RunningAttempt, environ: Mapping[str, str], number: int) -> Drain | None:
    """Make the links; None from the second attempt on: it writes to the run. Raises StagingError."""
    staging, request, task_dir = attempt.work.staging, attempt.request, attempt.task_dir
    assert staging is not None
    if request.attempt > 1:
        return None
    folder = own_disk(staging.local, environ).drain_dir(number)
    drain = Drain(folder, task_dir, tuple(request.outputs[name] for name in staging.drains))
    try:
        for path in drain.paths:
            for root in (folder, task_dir):
                os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
            os.symlink(f"{folder}/{path}", f"{task_dir}/{path}")
    except OSError as error:
        for path in drain.paths:
            with contextlib.suppress(OSError):
                os.unlink(f"{task_dir}/{path}")
        drain.close()
        raise StagingError(f"{folder}: {error.strerror}") from error
    return drain
