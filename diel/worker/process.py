"""A worker: a process that runs bundles and commits each result to its own segment."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from diel.artifacts import Values
from diel.context import Context
from diel.errors import DielError, JournalError
from diel.journal.segment import Record, SegmentWriter, worker_segment_name
from diel.paths import RunPaths, task_dir_name
from diel.staging.bring import Brought
from diel.staging.disk import StagingError, release
from diel.states import FailureClass
from diel.worker.block import own_block, own_node, pin_gpus
from diel.worker.bundle import Bundle, Failure, Job, Report, Request
from diel.worker.capture import Capture
from diel.worker.command import collect, launch, run_command
from diel.worker.drain import Drain, open_drain
from diel.worker.function import call_function, call_on_ranks
from diel.worker.limits import Limits, limits_of
from diel.worker.oom import OomKills
from diel.worker.space import is_full
from diel.worker.staging import late_notes, record_of, shard_environment, stage
from diel.worker.streaming import stream_environment
from diel.worker.surrogate import Asked, ask
from diel.worker.watchdog import Watchdog, Watched, watched_of

WITH_RANKS = {"SLURM_KILL_BAD_EXIT": "1"}
"""What launchers are told where the site does not say otherwise: a rank that dies takes its task along.

Unlike mpiexec, srun would leave the other ranks waiting for it.
"""
LAST = 1.0
"""Seconds for which a worker waits that has no time left for what it was given: others may have."""


class Worker:
    """Runs the tasks of one run in this process, one at a time."""

    def __init__(self, run_dir: str, epoch: int) -> None:
        self.paths = RunPaths(Path(run_dir))
        self.epoch = epoch
        process = psutil.Process()
        name = worker_segment_name(epoch, socket.gethostname(), process.pid)
        self.segment = SegmentWriter(self.paths.journal / name)
        self.block = own_block(os.environ)
        record: Record = {
            "event": "worker",
            "host": socket.gethostname(),
            "pid": process.pid,
            "started": process.create_time(),
            "time": time.time(),
        }
        if "DIEL_BLOCK" in os.environ:
            record |= {"block": os.environ["DIEL_BLOCK"], "node": own_node(os.environ)}
        self.segment.append(record)
        self.capture = Capture(self.paths.captures, name.removesuffix(".jsonl"))
        nothing = self.paths.captures / "nothing.json"
        nothing.write_text("{}")
        self._nothing = str(nothing)
        self._root = str(self.paths.root)
        self._tasks = str(self.paths.tasks)
        self._successor = str(self.paths.controller_segment(epoch + 1))
        self._spare: tuple[str, int] | None = None
        os.environ["PATH"] = search_path()
        pin_gpus(os.environ)
        self.environ = dict(os.environ)
        self._stage_made = ""
        self._rest: deque[Request] = deque()
        self._bundle: Bundle | None = None
        self._attempt: tuple[Job, Request, float] | None = None
        self._kills = OomKills()
        self._asked: dict[int, Asked] = {}
        """What the surrogate said of the tasks that have not ended yet."""
        self._drain: Drain | None = None
        self._drains = 0
        self._draining: list[threading.Thread] = []
        self._drained: list[tuple[int, Record]] = []
        self._told: list[tuple[int, Record]] = []
        self.dog = Watchdog(self.paths, self._release_rest, self._give_up)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.dog.end_now)

    def run(self, bundle: Bundle) -> Report:
        """Runs a bundle's tasks until they are done or the bundle's time slice is over."""
        self._rest = deque(bundle.requests)
        self._bundle = bundle
        self.dog.look_again()
        self._kills.mark()
        end = time.monotonic() + bundle.slice
        records: list[tuple[int, Record]] = []
        while not os.path.exists(self._successor):
            if self.block is not None and not self.block.has_room(bundle.job, time.time()):
                self._release_rest()
                time.sleep(LAST)
                break
            with self.dog.lock:
                late = time.monotonic() > end and not self._draining
                if not self._rest or (records and late):
                    break
                request = self._rest.popleft()
            ended = self._run_attempt(bundle.job, request)
            if ended is not None:
                records.append(ended)
        records += self._end_drains()
        told, self._told = self._told, []
        self._drop_spare()
        with self.dog.lock:
            unstarted = tuple(request.index for request in self._rest)
            self._rest.clear()
        return Report(self.segment.name, self.segment.size, (*told, *records), unstarted)

    def _release_rest(self) -> None:
        """Hands back the tasks behind one that takes long, so that other workers can run them."""
        with self.dog.lock:
            if self._rest and self._bundle is not None:
                self.segment.append(
                    {
                        "event": "release",
                        "stage": self._bundle.job.stage,
                        "bundle": self._bundle.number,
                        "tasks": [request.index for request in self._rest],
                    }
                )
                self._rest.clear()

    def _run_attempt(self, job: Job, request: Request) -> tuple[int, Record] | None:
        """Runs an attempt and commits what became of it; None where its outputs are still to be copied."""
        began = time.time()
        task_dir = self._task_dir(job, request)
        limits = limits_of(job, began, self.block)
        watched = watched_of(job, request.index, task_dir, limits)
        self.segment.append(
            {
                "event": "start",
                "stage": job.stage,
                "index": request.index,
                "attempt": request.attempt,
                "time": began,
                "bundle": self._bundle.number if self._bundle else 0,
            }
        )
        self._attempt = (job, request, began)
        record: Record
        try:
            self._make(job.stage, task_dir)
            if job.checkpoint:
                os.makedirs(f"{self._tasks}/{job.stage}/{request.index}.checkpoint", exist_ok=True)
            self.dog.begin(watched)
            answer = None if job.surrogate is None else self._ask(job, request)
            if answer is not None:
                return self._answered(job, request, began, task_dir, answer)
            if request.staged is not None:
                request = self._stage(job, request, task_dir, watched)
            try:
                values, artifacts = self._execute(job, request, task_dir, watched)
            finally:
                if job.staging is not None:
                    self._end_staging(job, request, task_dir)
            with self.dog.lock:
                self.dog.end()
                if self._drain is not None:
                    self._copy_drain(job, request, began, task_dir)
                    return None
                record = self._done(job, request, began)
                if values:
                    record["values"] = values
                if artifacts:
                    record["artifacts"] = artifacts
                self._tell_asked(job, request, record)
                if self._tidy(job, task_dir):
                    record["output"] = True
                return self.segment.append(record), record
        except Failure as failure:
            with self.dog.lock:
                self.dog.end()
                return self._fail(job, request, began, _continued(job, failure))
        except (OSError, JournalError) as error:
            with self.dog.lock:
                self.dog.end()
                broken = Failure(FailureClass.NODE, f"{type(error).__name__}: {error}")
                return self._fail(job, request, began, broken)

    # --- surrogates ---------------------------------------------------------------------------------

    def _ask(self, job: Job, request: Request) -> Values | None:
        """What the surrogate answers for a task; None where it must be simulated."""
        asked = self._asked[request.index] = ask(self.paths, job, request)
        return asked.values

    def _answered(
        self, job: Job, request: Request, began: float, task_dir: str, answer: Values
    ) -> tuple[int, Record]:
        """Commits an answer as a task's result."""
        with self.dog.lock:
            self.dog.end()
            os.chdir(self._root)
            record = self._done(job, request, began)
            record["values"] = answer
            self._tell_asked(job, request, record)
            self._tidy(job, task_dir)
            return self.segment.append(record), record

    def _tell_asked(self, job: Job, request: Request, record: Record) -> None:
        if job.surrogate is not None and (asked := self._asked.pop(request.index, None)) is not None:
            asked.tell(record)

    # --- the node's disk ----------------------------------------------------------------------------

    def _stage(self, job: Job, request: Request, task_dir: str, watched: Watched) -> Request:
        """Brings what the task reads to its node; ranks of a function see to that themselves."""
        if job.module is not None and job.launcher:
            return request
        env = {**self.environ, **self._own_environment(job, request, task_dir, watched.limits)}
        request, brought = stage(job, request, task_dir, env, self.dog, watched)
        self._tell_staging(job, request, brought)
        return request

    def _tell_staging(self, job: Job, request: Request, brought: Brought) -> None:
        record = record_of(job.stage, request, own_node(self.environ), brought, time.time())
        if record is not None:
            with self.dog.lock:
                self._told.append((self.segment.append(record), record))

    def _end_staging(self, job: Job, request: Request, task_dir: str) -> None:
        for brought in late_notes(request, task_dir):
            self._tell_staging(job, request, brought)
        release()

    def _open_drain(self, job: Job, request: Request, task_dir: str) -> Drain | None:
        """The outputs that the command is to write on the node's disk; none where that cannot be used."""
        self._drains += 1
        try:
            return open_drain(job, request, task_dir, self.environ, self._drains)
        except (StagingError, OSError) as error:
            self._tell_staging(job, request, Brought(warning=str(error)))
            return None

    def _copy_drain(self, job: Job, request: Request, began: float, task_dir: str) -> None:
        """Copies and commits in a thread, while this one goes on with the next task of the bundle."""
        drain, self._drain = self._drain, None
        assert drain is not None
        wrote = self._tidy(job, task_dir)
        env = self._own_environment(job, request, task_dir, Limits())

        def copy() -> None:
            record = self._drained_record(job, request, began, drain, env)
            if wrote and record["event"] == "done":
                record["output"] = True
            with self.dog.lock:
                self._drained.append((self.segment.append(record), record))
            drain.close()

        thread = threading.Thread(target=copy, name="diel-drain")
        self._draining.append(thread)
        thread.start()

    def _drained_record(
        self, job: Job, request: Request, began: float, drain: Drain, env: Mapping[str, str]
    ) -> Record:
        try:
            drain.copy()
            values, artifacts = collect(job, request, drain.task_dir, self._root, env)
        except Failure as failure:
            return self._failed(job, request, began, failure, "")
        except (OSError, DielError) as error:
            told = f"its outputs could not be copied from the node's disk: {error}"
            return self._failed(job, request, began, Failure(FailureClass.NODE, told), "")
        record = self._done(job, request, began)
        if values:
            record["values"] = values
        if artifacts:
            record["artifacts"] = artifacts
        self._tell_asked(job, request, record)
        return record

    def _end_drains(self) -> list[tuple[int, Record]]:
        """What became of the tasks of which outputs were copied, once all are."""
        while self._draining:
            self._draining.pop().join()
        ended, self._drained = self._drained, []
        return ended

    # --- an attempt's surroundings --------------------------------------------------------------------

    def _task_dir(self, job: Job, request: Request) -> str:
        """The attempt's directory; as text, for pathlib would cost a tenth of a short task's time."""
        return f"{self._tasks}/{job.stage}/{task_dir_name(request.index, request.attempt)}"

    def _make(self, stage: str, task_dir: str) -> None:
        if stage != self._stage_made:
            os.makedirs(f"{self._tasks}/{stage}", exist_ok=True)
            self._stage_made = stage
        spare, self._spare = self._spare, None
        try:
            if spare is not None and os.stat(spare[0]).st_mtime_ns == spare[1]:
                os.rename(spare[0], task_dir)  # still empty: half the cost of making a new one
            else:
                os.mkdir(task_dir)
        except OSError:
            shutil.rmtree(task_dir, ignore_errors=True)
            os.mkdir(task_dir)
        os.chdir(task_dir)

    def _drop_spare(self) -> None:
        if self._spare is not None:
            with contextlib.suppress(OSError):
                os.rmdir(self._spare[0])
            self._spare = None

    def _execute(
        self, job: Job, request: Request, task_dir: str, watched: Watched
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if request.services:
            # Only here, and below: it loads the HTTP client, which other tasks do not need.
            from diel.worker.service import asking

            request = asking(self.paths, request)
        own = self._own_environment(job, request, task_dir, watched.limits)
        if request.streams is not None:
            own |= stream_environment(job.stage, request, self.environ)
        if job.service is not None:
            from diel.worker.service import run_service  # see above

            env = {**self.environ, **own, **request.env}
            context = self._context(job, request, task_dir, watched.limits)
            return run_service(job, request, context, env, self.dog, watched, self.segment.append)
        if job.module is None or job.launcher:
            env = {
                **(WITH_RANKS if job.launcher else {}),
                **self.environ,
                **own,
                **request.env,
            }
            if job.staging is not None:
                env |= shard_environment(job, request, task_dir, env)
                if job.staging.drains:
                    self._drain = self._open_drain(job, request, task_dir)
            if self._drain is not None:
                self._launch_with_drain(job, request, task_dir, env, watched)
                return {}, {}
            if job.module is None:
                return run_command(job, request, task_dir, self._root, env, self.dog, watched)
            context = self._context(job, request, task_dir, watched.limits)
            return call_on_ranks(job, request, context, env, self.dog, watched)
        os.environ.update(own)
        os.environ.update(request.env)
        try:
            context = self._context(job, request, task_dir, watched.limits)
            return call_function(job, request, context)
        finally:
            os.chdir(self._root)
            self._restore_environment(own)

    def _launch_with_drain(
        self, job: Job, request: Request, task_dir: str, env: Mapping[str, str], watched: Watched
    ) -> None:
        drain = self._drain
        assert drain is not None
        try:
            launch(job, request, task_dir, {**env, "DIEL_DRAIN_DIR": drain.folder}, self.dog, watched)
        except Failure as failure:
            self._drain = None
            blamed = drain.blame(failure)
            drain.close()
            raise blamed from failure

    def _restore_environment(self, own: dict[str, str]) -> None:
        """Takes back what a function changed: the next task must not depend on it."""
        now = dict(os.environ)
        for name in now.keys() - self.environ.keys() - own.keys():
            del os.environ[name]
        for name, value in self.environ.items():
            if now.get(name) != value and name not in own:
                os.environ[name] = value

    def _own_environment(self, job: Job, request: Request, base: str, limits: Limits) -> dict[str, str]:
        deadline = "" if limits.deadline is None else f"{limits.deadline:.3f}"
        return {
            "DIEL_RUN_ID": self.paths.run_id,
            "DIEL_RUN_DIR": self._root,
            "DIEL_STAGE": job.stage,
            "DIEL_TASK_ID": f"{job.stage}/{request.index}",
            "DIEL_ATTEMPT": str(request.attempt),
            "DIEL_TASK_DIR": base,
            "DIEL_PARAMS": f"{base}/.params.json" if request.params else self._nothing,
            "DIEL_INPUTS": f"{base}/.inputs.json" if request.inputs else self._nothing,
            "DIEL_RESULT": f"{base}/.result.json",
            "DIEL_METRICS": f"{base}/.metrics.jsonl",
            "DIEL_CHECKPOINT_DIR": f"{self._tasks}/{job.stage}/{request.index}.checkpoint",
            "DIEL_DEADLINE": deadline,
            "OMP_NUM_THREADS": str(job.threads),
        }

    def _context(self, job: Job, request: Request, task_dir: str, limits: Limits) -> Context:
        return Context(
            task_dir=Path(task_dir),
            run_id=self.paths.run_id,
            run_dir=self.paths.root,
            stage=job.stage,
            task_id=f"{job.stage}/{request.index}",
            index=request.index,
            attempt=request.attempt,
            deadline=limits.deadline,
            checkpoint=job.checkpoint,
            interrupt_at=limits.interrupt,
            params=request.params,
            inputs=request.inputs,
            services=request.services or {},
            streams=request.streams,
            shards=request.shards or {},
            local=None if job.staging is None else job.staging.local,
        )

    def _done(self, job: Job, request: Request, began: float) -> Record:
        now = time.time()
        return {
            "event": "done",
            "stage": job.stage,
            "index": request.index,
            "attempt": request.attempt,
            "time": now,
            "seconds": round(now - began, 6),
            "key": request.key,
            "parts": request.parts,
        }

    def _fail(self, job: Job, request: Request, began: float, failure: Failure) -> tuple[int, Record]:
        tail = self.capture.tail()
        kind, message = self._diagnose(job, failure, tail)
        record = self._failed(job, request, began, Failure(kind, message, failure.exit_code), tail)
        try:
            self._tidy(job, self._task_dir(job, request))
        except OSError as error:
            record["message"] += f" (and its output could not be kept: {error.strerror})"
        return self.segment.append(record), record

    def _failed(self, job: Job, request: Request, began: float, failure: Failure, tail: str) -> Record:
        now = time.time()
        return {
            "event": "fail",
            "stage": job.stage,
            "index": request.index,
            "attempt": request.attempt,
            "time": now,
            "seconds": round(now - began, 6),
            "class": failure.kind,
            "message": failure.message,
            "exit_code": failure.exit_code,
            "stderr_tail": tail,
        }

    def _diagnose(self, job: Job, failure: Failure, tail: str) -> tuple[str, str]:
        """The class and message of a failure: what a program died of may not show in its exit code."""
        if failure.kind != FailureClass.APP or failure.exit_code == 0:
            return failure.kind, failure.message
        if is_full(self._root):
            return FailureClass.NODE, f"no space left on the file system of the run ({failure.message})"
        why = self._kills.evidence(failure.exit_code, tail, launched=bool(job.launcher))
        self._kills.mark()
        return (
            (FailureClass.OOM, f"out of memory: {why} ({failure.message})")
            if why
            else (failure.kind, failure.message)
        )

    def _tidy(self, job: Job, task_dir: str) -> bool:
        """Moves the output to the task; keeps the empty directory of a function for the next one."""
        caught = self.capture.collect(task_dir)
        if job.module is not None and not caught:
            with contextlib.suppress(FileNotFoundError):  # a function may remove its own directory
                if not os.listdir(task_dir):
                    self._drop_spare()
                    self._spare = (task_dir, os.stat(task_dir).st_mtime_ns)
        return caught

    def _give_up(self, failure: Failure) -> None:
        """Commits the failure of a Python function; this process ends right after."""
        if self._attempt is not None:
            self._fail(*self._attempt, failure)


def _continued(job: Job, failure: Failure) -> Failure:
    """A function's interruption; a failure where its stage keeps no checkpoints."""
    if failure.kind != FailureClass.INTERRUPTED or job.checkpoint or job.service is not None:
        return failure
    message = f"diel.Interrupted: {failure.message}; to continue takes `checkpoint: true`"
    return Failure(FailureClass.APP, message, failure.exit_code)


def search_path() -> str:
    """PATH for tasks, with the programs of this virtual environment even where it is not activated."""
    path = os.environ.get("PATH", os.defpath)
    own = os.path.dirname(sys.executable)
    if sys.prefix == sys.base_prefix or own in path.split(os.pathsep):
        return path
    return f"{own}{os.pathsep}{path}"


_worker: Worker | None = None
_making = threading.Lock()


def run_bundle(packed: bytes) -> bytes:
    """The one function that Parsl sees: runs a packed bundle in this process's worker.

    Bundle and report travel as bytes, for Parsl would pickle them in Python, at a quarter of a short
    task's cost.
    """
    global _worker
    bundle: Bundle = pickle.loads(packed)  # from the controller
    with _making:
        if _worker is None or (str(_worker.paths.root), _worker.epoch) != (bundle.run_dir, bundle.epoch):
            _worker = Worker(bundle.run_dir, bundle.epoch)
    try:
        return pickle.dumps(_worker.run(bundle))
    except (OSError, DielError) as error:
        # What became of its task cannot be written: only the end of this process still tells that it is lost.
        print(error, file=sys.stderr, flush=True)  # noqa: T201 - to the block's own output
        os._exit(os.EX_IOERR)
