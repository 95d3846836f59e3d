"""Calling one attempt of a Python module, in this process, in one of its own, or on MPI ranks."""

import contextlib
import gc
import io
import json
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from diel.base.errors import DielError, Interrupted, ModuleError, Pruned
from diel.base.states import FailureClass
from diel.store.artifacts import Outputs, collect_returned
from diel.worker.attempt.annotated import hold_arguments
from diel.worker.attempt.arguments import arguments
from diel.worker.attempt.bundle import Failure, Request, Work
from diel.worker.attempt.capture import read_tail
from diel.worker.attempt.command import spawn, spawn_ranks
from diel.worker.attempt.leftovers import check_closed, end_left, written_below
from diel.worker.attempt.state import load
from diel.worker.attempt.stream import class_of, close_streams
from diel.worker.attempt.watchdog import RunningAttempt, Watchdog
from diel.worker.context import Context
from diel.workflow.modules.beside import begin_call, changed_in_place, hidden_package

_BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
_OPEN = "is still open: close it, or write it in a `with`"
EDITED = "was changed since the run began, and is executed from where it lies"
_ARCHIVES = {"zipfile", "gzip", "bz2", "lzma", "tarfile"}
CALL_FILE = ".call.pickle"
RETURN_FILE = ".return.json"


def call(work: Work, request: Request, context: Context, communicator: Any = None) -> Outputs:
    """Call a module in this process and collect what it returned. Raises Failure for whatever it raises."""
    module = work.module
    assert module is not None
    worker = os.getpid()
    begin_call(module.files)
    try:
        loaded = load(module)
    except DielError as error:
        raise Failure(FailureClass.LAUNCH, str(error)) from error
    except BaseException as error:  # an import can raise anything, even SystemExit
        raise _failure(FailureClass.LAUNCH, f"cannot import {module.reference}: ", error) from error
    good = False
    try:
        rules = work.conversions, work.columns
        places, named = arguments(loaded.function, module, request, context, communicator, *rules)
        try:
            returned = loaded.call(f"{request.key} {context.rank or ''}", places, named)
        finally:
            _stay_one(worker)
            left = end_left(str(context.task_dir))
        if path := changed_in_place():
            raise Failure(FailureClass.CHANGED, f"{path} {EDITED}")
        if context.heard:  # it caught that: what it made is cut short, and must not be found in the cache
            raise Pruned(context.heard[0])
        good = True
        if context.rank:
            return {}, {}
        open_files = {**left.writing, **_open_files(context.task_dir)}
        collected = collect_returned(
            returned, context.task_dir, context.run_dir, work.promises, request.inputs
        )
        by_name = returned if isinstance(returned, dict) else dict.fromkeys(collected[1], returned)
        arrays = {
            name for name in collected[1] if hasattr(type(by_name.get(name)), "__array__")
        }  # mapped, whole
        files = {name: collected[1][name] for name in collected[1].keys() - arrays}
        check_closed(open_files, files, str(context.run_dir))
        return collected
    except Failure:
        raise
    except BaseException as error:  # whatever it is, the worker continues
        _stay_one(worker)
        raise _ended_by(error, context) from error
    finally:
        if context.streams is not None:
            close_streams(context, good=good)


def _stay_one(worker: int) -> None:
    """End a child that the module forked and that returned in the worker's place."""
    if os.getpid() != worker:
        os._exit(1)


def _ended_by(error: BaseException, context: Context) -> Failure:
    if isinstance(error, ModuleError):
        return Failure(FailureClass.APP, str(error))
    if isinstance(error, Pruned):  # raised by the module itself, it is a failure like any other
        kind = FailureClass.CANCELLED if context.heard else FailureClass.APP
        return Failure(kind, f"diel.Pruned: {error}")
    if isinstance(error, Interrupted):
        return Failure(FailureClass.INTERRUPTED, str(error), os.EX_TEMPFAIL)
    return _failure(class_of(error), "", error)


def _failure(kind: str, prefix: str, error: BaseException) -> Failure:
    own = error.__traceback__
    while own is not None and os.path.dirname(own.tb_frame.f_code.co_filename) == os.path.dirname(__file__):
        own = own.tb_next  # diel's own frames are of no use to the module's author
    lines = traceback.format_exception(error.with_traceback(own))
    trace = "".join(lines)
    sys.stderr.write(trace)
    try:
        text = str(error)
    except Exception:  # the module's own class, whose text can fail too
        text = ""
    text = f"{prefix}{type(error).__name__}{': ' if text else ''}{text}{hidden_package(error)}"
    return Failure(kind, text, traceback=trace)


def call_apart(attempt: RunningAttempt, context: Context, env: Mapping[str, str], dog: Watchdog) -> Outputs:
    """Start the module in a process of its own, or on MPI ranks, whose rank 0 returns the result."""
    _hold(attempt)
    call_file, return_file = write_call(attempt, context), context.task_dir / RETURN_FILE
    words = (*attempt.caller, str(call_file), *attempt.lent)
    try:
        if attempt.work.launcher:
            spawn_ranks(words, env, dog, attempt)
        else:
            spawn((*attempt.inside, *words), env, dog, attempt)
    except Failure as failure:
        raise _failure_of_ranks(return_file, failure) or _not_callable(attempt, env) or failure from failure
    finally:
        call_file.unlink(missing_ok=True)
    try:
        values, artifacts, imports = json.loads(return_file.read_text(encoding="utf-8"))
        for file in context.task_dir.glob(f"{RETURN_FILE}.imports.*"):
            imports.update(json.loads(file.read_text(encoding="utf-8")))
            file.unlink()
        attempt.imports = imports
    except (OSError, ValueError) as error:
        raise Failure(FailureClass.APP, f"it left no result: {error}") from error
    return_file.unlink(missing_ok=True)
    check_closed(attempt.writing, artifacts, str(context.run_dir))
    return values, artifacts


def _hold(attempt: RunningAttempt) -> None:
    """Hold the arguments to the types that are read: the Python that calls may have no pydantic."""
    module, request = attempt.work.module, attempt.request
    assert module is not None
    try:
        hold_arguments(None, module.signature, {**request.params, **request.inputs})
    except ModuleError as error:
        raise Failure(FailureClass.APP, str(error)) from error


def _not_callable(attempt: RunningAttempt, env: Mapping[str, str]) -> Failure | None:
    """Return why a function that ended without a word was not called, if that is what its container lacks."""
    python = attempt.caller[0]
    if os.path.isabs(python):  # not one of a container
        return None
    tried = subprocess.run((*attempt.inside, python, "-c", ""), env=env, capture_output=True, check=False)
    what = f"{python} does not start in its container: functions need Python 3.11 or newer in the image, with"
    failure = Failure(FailureClass.LAUNCH, f"{what} psutil and xxhash; or make the stage a `command`")
    return failure if tried.returncode else None


def write_call(attempt: RunningAttempt, context: Context) -> Path:
    """Write what another process needs to call the module, but for the environment, which holds tokens."""
    path = context.task_dir / CALL_FILE
    path.write_bytes(pickle.dumps((attempt.work, attempt.request._replace(env={}), context)))
    return path


def read_call(path: str) -> tuple[Work, Request, Context]:
    """Return a call that a worker wrote for this process."""
    unpacked: tuple[Work, Request, Context] = pickle.loads(Path(path).read_bytes())
    return unpacked


def _failure_of_ranks(path: Path, failure: Failure) -> Failure | None:
    """Return the failure that a rank wrote before it ended, or the watchdog's: an exit code says less."""
    if failure.kind not in (FailureClass.APP, FailureClass.INTERRUPTED):
        return failure
    failures = []
    for file in sorted(path.parent.glob(f"{RETURN_FILE}.failure.*")):
        with contextlib.suppress(OSError, ValueError):  # MPI ended that rank while it wrote
            failures.append(json.loads(file.read_text(encoding="utf-8")))
        file.unlink(missing_ok=True)
    if not failures:
        return None
    # One rank's error beats the interruption that others met.
    kind, message, trace = min(failures, key=lambda report: bool(report[0] == FailureClass.INTERRUPTED))
    if trace.rstrip().rpartition("\n")[2] not in read_tail():  # an MPI launcher may drop what comes last
        sys.stderr.write(trace)
    return Failure(kind, message, failure.exit_code)


def _open_files(task_dir: Path) -> dict[str, str]:
    """Return the files of a task that this process has open for writing; closes what nothing refers to."""
    with contextlib.suppress(FileNotFoundError), os.scandir(task_dir) as entries:  # a function may remove it
        if next(entries, None) is None:  # as a function leaves it that returns values
            return {}
    folder = os.path.realpath(task_dir)
    if not (open_files := written_below(folder, os.getpid())):
        return {}
    _close_garbage({*open_files})
    return dict.fromkeys(written_below(folder, os.getpid()).values(), _OPEN)


def _close_garbage(numbers: Set[int]) -> None:
    """Write out these files' buffers, and close those in cycles but archives: Python closes in any order."""
    files = gc.get_objects()
    if any(type(file).__module__ in _ARCHIVES for file in files):
        return
    for file in files:
        with contextlib.suppress(OSError, ValueError):  # closed, or no file at all
            if issubclass(type(file), _BUFFERED) and file.fileno() in numbers:
                file.flush()
    del files
    gc.collect()
