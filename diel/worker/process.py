"""A worker: a process that runs bundles and commits each result to its own segment."""

import json
import os
import pickle
import shutil
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from diel.base.errors import DielError, JournalError, NotBegun
from diel.base.paths import RunPaths, task_dir_name
from diel.base.states import FailureClass
from diel.store.artifacts import Artifacts, FileChanged, Outputs, Values
from diel.store.journal.segment import SegmentWriter, worker_segment_name
from diel.store.project.lease import birth_of
from diel.store.project.requests import ALL, fenced
from diel.streams.services.endpoint import notes_of, variables
from diel.worker.attempt.block import limits_of, own_block, own_node, pin_gpus
from diel.worker.attempt.bundle import Bundle, BundleReport, Failure, Request, Work
from diel.worker.attempt.capture import Capture, read_tail
from diel.worker.attempt.command import launch, made_files, made_values, run_command
from diel.worker.attempt.environment import surround
from diel.worker.attempt.function import EDITED, call, call_apart
from diel.worker.attempt.ipc import SPENT, is_cut
from diel.worker.attempt.reaper import (
    OomKills,
    is_full,
    killer_of,
    message_of_mpiexec,
)
from diel.worker.attempt.staging import (
    Drain,
    disk_of,
    late_notes,
    open_drain,
    record_of,
    shard_environment,
    stage,
)
from diel.worker.attempt.stream import held_to_streams, stream_environment
from diel.worker.attempt.surrogate import Consultation, ask
from diel.worker.attempt.surroundings import (
    Surroundings,
    Variables,
    held_to_files,
    open_checkpoint,
    search_path,
    write_rendered,
)
from diel.worker.attempt.usage import begin_peak
from diel.worker.attempt.watchdog import RunningAttempt, Watchdog
from diel.worker.directory_pool import DirectoryPool
from diel.worker.staging.disk import StagingError, StagingReport, release
from diel.workflow.modules.beside import changed_in_place, executed_by, imports_beyond

if TYPE_CHECKING:
    from diel.store.journal import records
    from diel.store.journal.records import Done, Fail, Record

WITH_RANKS = {"SLURM_KILL_BAD_EXIT": "1"}
"""Options of launchers if the site gives no others: a rank that dies ends its task, as with mpiexec."""
LAST = 1.0
"""Seconds that a worker waits when it has no time left for its bundle: others may have."""


class Worker:
    """Runs the tasks of one run in this process, one at a time."""

    def __init__(self, run_dir: str, epoch: int) -> None:
        self.paths = RunPaths(Path(run_dir))
        self.epoch = epoch
        process = psutil.Process()
        name = worker_segment_name(epoch, socket.gethostname(), process.pid)
        self.segment = SegmentWriter(self.paths.journal / name)
        self.block = own_block(os.environ)
        record: records.WorkerRecord = {
            "event": "worker",
            "host": socket.gethostname(),
            "pid": process.pid,
            "started": process.create_time(),
            "birth": birth_of(process.pid),
            "time": time.time(),
        }
        self._in_block = "DIEL_BLOCK" in os.environ
        if self._in_block:
            record["block"], record["node"] = os.environ["DIEL_BLOCK"], own_node(os.environ)
        self.segment.append(record)
        self.capture = Capture(self.paths.captures, name.removesuffix(".jsonl"))
        self._surroundings = Surroundings(self.paths)
        self._root = str(self.paths.root)
        self._tasks = str(self.paths.tasks)
        self._successor = str(self.paths.controller_segment(epoch + 1))
        self._spare = DirectoryPool()
        os.environ["PATH"] = search_path()
        pin_gpus(os.environ)
        self.environ = dict(os.environ)
        self._variables = Variables()
        begin_peak()
        self._stage_made = ""
        self._rest: deque[Request] = deque()
        self._bundle: Bundle | None = None
        self._attempt: RunningAttempt | None = None
        self._kills = OomKills()
        self._drain: Drain | None = None
        self._drains = 0
        self.is_spent = False
        """Whether a function left a thread behind, so that no other task may run in this process."""
        self._copiers = ThreadPoolExecutor(thread_name_prefix="diel-drain")
        self._draining: list[Future[tuple[int, Record]]] = []
        self._reported: list[tuple[int, Record]] = []
        self.dog = Watchdog(self.paths, self._release_rest, self._give_up)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.dog.end_now)

    def run(self, bundle: Bundle) -> BundleReport:
        """Run a bundle's tasks until they are done, its time slice is over, or its controller is gone."""
        if bundle.imports:
            from diel.workflow.modules.beside import absent  # only the first workers of a pool are asked

            if missing := absent(bundle.imports):
                return BundleReport(self.segment.name, self.segment.size, (), missing, sys.executable)
        self._rest = deque(bundle.requests)
        self._bundle = bundle
        self.dog.look_again()
        self._kills.mark()
        end = time.monotonic() + bundle.slice
        records: list[tuple[int, Record]] = []
        while not (is_cut() or os.access(self._successor, os.F_OK) or self._is_given_up()):
            if self.block is not None and not self.block.has_room(bundle.work, time.time(), bundle.needed):
                self._release_rest()
                time.sleep(LAST)
                break
            if records and time.monotonic() > end and not self._draining:
                self._release_rest()  # it is no longer queued here, and who reads the journal sees that
            with self.dog.lock:
                if not self._rest:
                    break
                request = self._rest.popleft()
            ended = self._run_attempt(bundle.work, request)
            if self.is_spent:
                self._release_rest()
            if ended is not None:
                records.append(ended)
                if len(records) == 1 and ended[1]["event"] == "fail":
                    self._release_rest()  # it may fail as well: the controller sees this first, and decides
                    break
        records += [copied.result() for copied in self._draining]
        self._draining.clear()
        reported, self._reported = self._reported, []
        self._spare.drop(bundle.work)
        with self.dog.lock:
            self._rest.clear()
        return BundleReport(self.segment.name, self.segment.size, (*reported, *records))

    def _is_given_up(self) -> bool:
        """Return whether the controller gave this worker up for lost: another one does its work."""
        if self.block is None:
            return False
        given_up = fenced(self.paths, self.block.name)
        return bool(given_up) and (ALL in given_up or self.segment.name in given_up)

    def _commit(self, record: "Record") -> "tuple[int, Record]":
        """Append a result; a worker that was given up ends instead. Hold the lock."""
        if self._is_given_up():
            self.dog.end_now()
        return self.segment.append(record), record

    @property
    def _number(self) -> int:
        """The number of the running bundle."""
        return self._bundle.number if self._bundle is not None else 0

    def _release_rest(self) -> None:
        """Hand back the tasks after a slow one, so that other workers can run them."""
        with self.dog.lock:
            if self._rest and self._bundle is not None:
                self.segment.append(self._release(self._bundle.work, self._rest))
                self._rest.clear()

    def _release(self, work: Work, requests: Iterable[Request]) -> "records.Release":
        tasks = [request.index for request in requests]
        return {"event": "release", "stage": work.stage, "bundle": self._number, "tasks": tasks}

    def _run_attempt(self, work: Work, request: Request) -> "tuple[int, Record] | None":
        """Run an attempt and commits its result; None if its outputs are still to be copied."""
        now = time.time()
        # As text: pathlib would cost a tenth of a short task's time.
        task_dir = f"{self._tasks}/{work.stage}/{task_dir_name(request.index, request.attempt)}"
        attempt = RunningAttempt(work, request, task_dir, limits_of(work, now, self.block))
        if work.environments is not None and request.environment is not None:
            attempt.environment = work.environments[request.environment]
        unmade: OSError | None = None
        try:
            self._make(attempt)
        except OSError as error:
            if isinstance(error, FileExistsError) and error.filename == task_dir:
                record = self._release(work, [request])  # another worker has it: it needs a later number
                record["taken"] = request.attempt
                with self.dog.lock:
                    return self.segment.append(record), record
            unmade = error
        # As text too: nothing in it needs an escape.
        begun = f'"index":{request.index},"attempt":{request.attempt},"time":{now},"bundle":{self._number}'
        self.segment.write(f'{{"event":"start","stage":"{work.stage}",{begun}}}\n'.encode())
        self._attempt = attempt
        try:
            if unmade is not None:
                raise unmade
            return self._run_begun(attempt)
        except Failure as failure:
            return self._fail(attempt, _continued(work, failure))
        except FileChanged as error:
            return self._fail(attempt, Failure(FailureClass.CHANGED, str(error)))
        except (OSError, JournalError) as error:
            return self._fail(attempt, Failure(FailureClass.NODE, f"{type(error).__name__}: {error}"))

    def _run_begun(self, attempt: RunningAttempt) -> "tuple[int, Record] | None":
        work = attempt.work
        if work.checkpoint:
            answers, key = attempt.request.answers, attempt.request.key
            folder = f"{self._tasks}/{work.stage}/{attempt.request.index}.checkpoint"
            open_checkpoint(folder, key if answers is None else answers.key)
        self.dog.begin(attempt)
        consulted = None if work.surrogate is None else ask(self.paths, work, attempt.request)
        artifacts: Artifacts = {}
        values = None if consulted is None else consulted.values
        if values is not None:
            os.chdir(self._root)
        else:
            if attempt.request.staged is not None and not (work.module and work.launcher):  # ranks do it
                env = {**self.environ, **self._surroundings.variables(attempt)}
                self._tell_staging(attempt, stage(attempt, env, self.dog))
                if attempt.verdict is not None:
                    raise attempt.verdict
            try:
                values, artifacts = self._execute_held(attempt)
                if values or artifacts or work.module is not None:
                    hold_names(work, attempt.request, {**artifacts, **values})
            finally:
                if work.staging is not None:
                    for brought in late_notes(attempt):
                        self._tell_staging(attempt, brought)
                    release()
        with self.dog.lock:
            self.dog.end()
            drain, self._drain = self._drain, None
            if drain is not None:
                self._copy_drain(attempt, drain, values, consulted)
                return None
            record = done_record(attempt, values, artifacts, consulted)
            if self._tidy(attempt):
                record["output"] = True
            return self._commit(record)

    def _tell_staging(self, attempt: RunningAttempt, brought: StagingReport) -> None:
        record = record_of(attempt, own_node(self.environ), brought)
        if record is not None:
            with self.dog.lock:
                self._reported.append((self.segment.append(record), record))

    def _open_drain(self, attempt: RunningAttempt) -> Drain | None:
        """Return the outputs that the command should write to the node's disk; none if it cannot be used."""
        self._drains += 1
        try:
            return open_drain(attempt, self.environ, self._drains)
        except (StagingError, OSError) as error:
            self._tell_staging(attempt, StagingReport(warning=str(error)))
            return None

    def _copy_drain(
        self, attempt: RunningAttempt, drain: Drain, values: Values, consulted: Consultation | None
    ) -> None:
        """Copy and commits in a thread, while this one continues with the next task of the bundle."""
        tail = read_tail()
        wrote = self._tidy(attempt)
        bundle = self._number

        def commit() -> "tuple[int, Record]":
            record: Done | Fail
            try:
                drain.copy()
                record = done_record(attempt, values, made_files(attempt, self._root), consulted)
                if wrote:
                    record["output"] = True
            except Failure as failure:
                record = fail_record(attempt, bundle, failure, tail)
            except (OSError, DielError) as error:
                message = f"its outputs could not be copied from the node's disk: {error}"
                record = fail_record(attempt, bundle, Failure(FailureClass.NODE, message), tail)
            with self.dog.lock:
                committed = self._commit(record)
            drain.close()
            return committed

        self._draining.append(self._copiers.submit(commit))

    def _make(self, attempt: RunningAttempt) -> None:
        """Make the attempt's directory, and change to it. Raise FileExistsError if another has its number."""
        work, task_dir = attempt.work, attempt.task_dir
        if work.stage != self._stage_made:
            os.makedirs(f"{self._tasks}/{work.stage}", exist_ok=True)
            self._stage_made = work.stage
        try:
            self._spare.make(task_dir, work, attempt.request)
        except OSError:
            if self._in_block:
                raise
            shutil.rmtree(task_dir, ignore_errors=True)
            os.mkdir(task_dir)
        os.chdir(task_dir)

    def _execute_held(self, attempt: RunningAttempt) -> Outputs:
        """Execute an attempt whose files and streams stay whole. Raises Changed and Failure."""
        work, request = attempt.work, attempt.request
        answers = request.answers
        before = None if answers is None else answers.now(self.paths)
        watched = (*work.watched, *request.watched)
        asked = [*notes_of(self.paths, request.services)]
        if watched or request.reads or request.streams is not None:
            with held_to_files(watched, request.reads), held_to_streams(self._root, work, request):
                results = self._execute(attempt)
        else:  # the guards alone would take a fiftieth of a short task's time
            results = self._execute(attempt)
        for notes in {*asked, *notes_of(self.paths, request.services)}:
            files, edited = executed_by(notes)
            if edited:
                raise Failure(FailureClass.CHANGED, f"{edited} {EDITED}")
            attempt.imports = {**files, **attempt.imports}
        if answers is not None:
            key, part = answers.key_since(before, self.paths)
            attempt.request = attempt.request._replace(key=key, parts=(attempt.request.parts[0], part))
        return results

    def _execute(self, attempt: RunningAttempt) -> Outputs:
        work, request = attempt.work, attempt.request
        own, declared = self._surroundings.variables(attempt), request.env
        if request.streams is not None:
            own |= stream_environment(work, request)
        if request.services is not None:
            declared = {**declared, **variables(self.paths, request.services, request.index)}
        if request.rendered:
            write_rendered(request.rendered, attempt.task_dir)
        if attempt.in_process:
            return self._call(attempt, own, declared)
        env = {**self.environ, **own, **declared}
        if attempt.environment is not None:
            env = surround(attempt, self.environ, own, declared, self.dog, disk_of(work, self.environ))
        if work.service is not None:
            from diel.worker.service import Keeper  # it loads the HTTP client, which other tasks do not need

            context = self._surroundings.context(attempt)
            return Keeper(attempt, context, env, self.dog, self.segment.append).keep()
        if work.launcher:
            env = {**WITH_RANKS, **env}
        if work.staging is not None:
            env |= shard_environment(attempt, env)
            if work.staging.drains:
                self._drain = self._open_drain(attempt)
        if self._drain is not None:
            launch(attempt, {**env, "DIEL_DRAIN_DIR": self._drain.folder}, self.dog)
            return made_values(attempt, env), {}
        if work.module is None:
            return run_command(attempt, self._root, env, self.dog)
        return call_apart(attempt, self._surroundings.context(attempt), env, self.dog)

    def _call(self, attempt: RunningAttempt, own: Mapping[str, str], declared: Mapping[str, str]) -> Outputs:
        """Call a function in this process."""
        assert attempt.work.module is not None
        self._variables.enter(own, declared)
        before = _threads()
        attempt.usage.begin(attempt.work.module.path)
        try:
            results = call(attempt.work, attempt.request, self._surroundings.context(attempt))
            attempt.imports = imports_beyond(attempt.work.module.files)
            return results
        finally:
            attempt.usage.end()
            self.capture.recover()
            os.chdir(self._root)
            self._variables.leave(own)
            self.is_spent |= bool(_threads() - before or changed_in_place())  # has code of another version

    def _fail(self, attempt: RunningAttempt, failure: Failure) -> "tuple[int, Record]":
        with self.dog.lock:
            self.dog.end()
            drain, self._drain = self._drain, None
            if drain is not None:
                failure = drain.blame(failure)
                drain.close()
            self.capture.recover()
            request, tail = attempt.request, read_tail()
            kind, message = self._diagnose(attempt.work, failure, tail)
            record = fail_record(attempt, self._number, Failure(kind, message, failure.exit_code), tail)
            if kind != FailureClass.CANCELLED:
                from diel.worker.headline import END, headline, written  # its table costs a start-up 20 ms
                from diel.workflow.expressions.shell import misplaced  # here: only for what failed

                texts = written(attempt.task_dir, request.command or (), request.outputs.values())
                ends = read_tail(2, END), read_tail(1, END)
                lost = misplaced(request.command or (), self._folder(), attempt.task_dir, "".join(ends))
                if line := lost or headline(*ends, texts):
                    record["headline"] = line
            try:
                self.capture.collect(attempt.task_dir)
            except OSError as error:
                record["message"] += f" (and its output could not be kept: {error.strerror})"
            return self.segment.append(record), record

    def _folder(self) -> str:
        """Return the folder of the workflow, as far as it is known."""
        with suppress(OSError, ValueError, KeyError):
            return str(Path(json.loads(self.paths.run_file.read_text("utf-8"))["source"]).parent)
        return self._root

    def _diagnose(self, work: Work, failure: Failure, tail: str) -> tuple[str, str]:
        """Return the class and message of a failure: an exit code need not show the cause."""
        if failure.kind != FailureClass.APP or failure.exit_code == 0:
            return failure.kind, failure.message
        if is_full(self._root):
            return FailureClass.NODE, f"no space left on the file system of the run ({failure.message})"
        launched = bool(work.launcher)
        if launched:
            tail += message_of_mpiexec(read_tail(1))
        words = os.environ.get("DIEL_OOM_WORDS", "")
        why = self._kills.evidence(failure.exit_code, tail, launched=launched, words=words)
        self._kills.mark()
        if why:
            return FailureClass.OOM, f"out of memory: {why} ({failure.message})"
        if killer_of(failure.exit_code, tail, launched=launched) is not None:
            return FailureClass.NODE, f"ended from outside ({failure.message})"
        return failure.kind, failure.message

    def _tidy(self, attempt: RunningAttempt) -> bool:
        """Move the output to the task; outside blocks, keep an empty directory for the next one."""
        caught = self.capture.collect(attempt.task_dir)
        if not caught and not self._in_block:
            self._spare.keep(attempt.work, attempt.task_dir)
        return caught

    def _give_up(self, failure: Failure) -> None:
        """Commit the failure of a Python function; this process ends right after."""
        if self._attempt is not None:
            self._fail(self._attempt, failure)


def _threads() -> Set[threading.Thread]:
    """Return the threads that may write into later tasks: not diel's own, nor those of a harmless package."""
    return {
        thread
        for thread in threading.enumerate()
        if not thread.name.startswith("diel-") and type(thread).__module__.partition(".")[0] != "tqdm"
    }


def _continued(work: Work, failure: Failure) -> Failure:
    """Return a function's interruption; a failure if its stage keeps no checkpoints."""
    if failure.kind != FailureClass.INTERRUPTED or work.checkpoint or work.service is not None:
        return failure
    message = f"diel.Interrupted: {failure.message}; to continue it needs `checkpoint: true`"
    return Failure(FailureClass.APP, message, failure.exit_code)


def hold_names(work: Work, request: Request, made: Mapping[str, object]) -> None:
    """Raise Failure where a parameter of the task's axes and what it made could be taken for each other."""
    returns = {} if work.module is None else work.module.signature.returns or {}
    for name, own in request.point.items():
        value = made.get(name, own)
        fits = name in made if name in returns else value == own or repr(value) == repr(own)  # NaN is not NaN
        if not (fits or name in work.promises or name in work.values or name in request.outputs):
            message = f"'{name}' is a parameter of its axes, and an output of some tasks, with another value"
            hint = "declare it under `outputs`, so that all tasks make it, or rename it"
            raise Failure(FailureClass.APP, f"{message}; {hint}")


def done_record(
    attempt: RunningAttempt, values: Values, artifacts: Artifacts, consulted: Consultation | None
) -> "Done":
    """Return an attempt that ended well; `consulted` is what was answered before it ran."""
    request = attempt.request
    record: Done = {
        "event": "done",
        "stage": attempt.work.stage,
        "index": request.index,
        "attempt": request.attempt,
        "time": time.time(),
        "seconds": round(time.monotonic() - attempt.began, 6),
        "key": request.key,
        "parts": request.parts,
    }
    if values:
        record["values"] = values
    if artifacts:
        record["artifacts"] = artifacts
    if attempt.imports:
        record["imports"] = dict(attempt.imports)
    if consulted is not None:
        consulted.tell(record)
    if (usage := attempt.usage.facts()) is not None:
        record["usage"] = usage
    return record


def fail_record(attempt: RunningAttempt, bundle: int, failure: Failure, tail: str) -> "Fail":
    """Return an attempt that ended without a result; `tail` is the end of what it wrote to standard error."""
    record: Fail = {
        "event": "fail",
        "stage": attempt.work.stage,
        "index": attempt.request.index,
        "attempt": attempt.request.attempt,
        "bundle": bundle,
        "time": time.time(),
        "seconds": round(time.monotonic() - attempt.began, 6),
        "class": failure.kind,
        "message": failure.message,
        "exit_code": failure.exit_code,
        "stderr_tail": tail,
    }
    if (usage := attempt.usage.facts()) is not None:
        record["usage"] = usage
    return record


_worker: Worker | None = None
_making = threading.Lock()


def begin(bundle: Bundle) -> Worker:
    """Return this process's worker for a bundle. Raise NotBegun if it can run nothing."""
    global _worker
    with _making:
        if _worker is None or (str(_worker.paths.root), _worker.epoch) != (bundle.run_dir, bundle.epoch):
            try:
                _worker = Worker(bundle.run_dir, bundle.epoch)
            except (OSError, DielError) as error:
                raise NotBegun(f"on {socket.gethostname()}: {error}") from error
        return _worker


_masks: list[set[int]] = []


def _hold_signal() -> None:
    """Keep SIGTERM waiting: a child would lose it that gets it before it is left alone."""
    if _worker is not None:
        _masks.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])))


def _release_signal() -> None:
    if _masks:
        signal.pthread_sigmask(signal.SIG_SETMASK, _masks.pop())


def _leave_child() -> None:
    if _worker is not None:
        _worker.dog.leave_child()
    _release_signal()


os.register_at_fork(before=_hold_signal, after_in_parent=_release_signal, after_in_child=_leave_child)


def run_bundle(packed: bytes) -> bytes:
    """Run a packed bundle in this process's worker: Parsl calls this, and would pickle slowly itself."""
    bundle: Bundle = pickle.loads(packed)  # from the controller
    worker = begin(bundle)
    try:
        return json.dumps(worker.run(bundle)).encode() + (SPENT if worker.is_spent else b"")
    except (OSError, DielError) as error:
        # The end of its task cannot be written: only the end of this process still shows that it is lost.
        print(error, file=sys.stderr, flush=True)  # noqa: T201 - to the block's own output
        os._exit(os.EX_IOERR)
