"""Calling one attempt of a Python module, in this process, in one of its own, or on MPI ranks."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diel.artifacts import Artifacts, Values, collect_returned
from diel.attempt.annotated import hold_arguments
from diel.attempt.arguments import arguments
from diel.attempt.bundle import Failure, Request, Work
from diel.attempt.capture import errors_so_far
from diel.attempt.command import spawn, spawn_ranks
from diel.attempt.held import check_closed, held_files
from diel.attempt.state import load
from diel.attempt.stream import class_of, close_streams
from diel.attempt.watchdog import RunningAttempt, Watchdog
from diel.context import Context
from diel.errors import DielError, Interrupted, ModuleError, Pruned
from diel.states import FailureClass

CALL_FILE = ".call.pickle"
RETURN_FILE = ".return.json"


def call(
    work: Work, request: Request, context: Context, communicator: Any = None
) -> tuple[Values, Artifacts]:
    """Calls a module in this process and collects what it returned.

    Anything that it raises becomes a Failure with the last line of its traceback.
    """
    module = work.module
    assert module is not None
    worker = os.getpid()
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
        returned = loaded.call(f"{request.key} {context.rank or ''}", places, named)
        _stay_one(worker)
        if context.heard:  # it caught that: what it made is cut short, and must not be found in the cache
            raise Pruned(context.heard[0])
        good = True
        if context.rank:
            return {}, {}
        held = held_files(context.task_dir, context.run_dir)
        made = collect_returned(returned, context.task_dir, context.run_dir, work.promises, request.inputs)
        one = returned if isinstance(returned, dict) else dict.fromkeys(made[1], returned)
        arrays = {name for name in made[1] if hasattr(type(one.get(name)), "__array__")}  # mapped, whole
        check_closed(held, {name: made[1][name] for name in made[1].keys() - arrays})
        return made
    except ModuleError as error:
        _stay_one(worker)
        raise Failure(FailureClass.APP, str(error)) from error
    except Pruned as error:
        _stay_one(worker)
        # Raised by the module itself, it is a failure like any other.
        kind = FailureClass.CANCELLED if context.heard else FailureClass.APP
        raise Failure(kind, f"diel.Pruned: {error}") from error
    except Interrupted as error:
        _stay_one(worker)
        raise Failure(FailureClass.INTERRUPTED, str(error), os.EX_TEMPFAIL) from error
    except BaseException as error:  # whatever it is, the worker continues
        _stay_one(worker)
        raise _failure(class_of(error), "", error) from error
    finally:
        if context.streams is not None:
            close_streams(context, good=good)


def _stay_one(worker: int) -> None:
    """Ends a child that the module forked and that returned in the worker's place."""
    if os.getpid() != worker:
        os._exit(1)


def _failure(kind: str, prefix: str, error: BaseException) -> Failure:
    own = error.__traceback__
    while own is not None and os.path.dirname(own.tb_frame.f_code.co_filename) == os.path.dirname(__file__):
        own = own.tb_next  # diel's own frames are of no use to the module's author
    lines = traceback.format_exception(error.with_traceback(own))
    told = "".join(lines)
    sys.stderr.write(told)
    try:
        text = str(error)
    except Exception:  # the module's own class, whose text can fail too
        text = ""
    return Failure(kind, f"{prefix}{type(error).__name__}{': ' if text else ''}{text}", traceback=told)


def call_apart(
    attempt: RunningAttempt, context: Context, env: Mapping[str, str], dog: Watchdog
) -> tuple[Values, Artifacts]:
    """Starts the module in a process of its own, or on MPI ranks, whose rank 0 returns the result."""
    _hold(attempt)
    call_file, return_file = write_call(attempt, context), context.task_dir / RETURN_FILE
    words = (*attempt.caller, str(call_file), *attempt.lent)
    try:
        if attempt.work.launcher:
            spawn_ranks(words, env, dog, attempt)
        else:
            spawn((*attempt.inside, *words), env, dog, attempt)
    except Failure as failure:
        raise _told_by_rank(return_file, failure) or _not_callable(attempt, env) or failure from failure
    finally:
        call_file.unlink(missing_ok=True)
    try:
        values, artifacts = json.loads(return_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure(FailureClass.APP, f"it left no result: {error}") from error
    return_file.unlink(missing_ok=True)
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
    """Why a function that ended without a word was not called, if that is what its container lacks."""
    python = attempt.caller[0]
    if os.path.isabs(python):  # not one of a container
        return None
    tried = subprocess.run((*attempt.inside, python, "-c", ""), env=env, capture_output=True, check=False)
    what = f"{python} does not start in its container: functions need Python 3.11 or newer in the image, with"
    told = Failure(FailureClass.LAUNCH, f"{what} psutil and xxhash; or make the stage a `command`")
    return told if tried.returncode else None


def write_call(attempt: RunningAttempt, context: Context) -> Path:
    """Writes what another process needs to call the module, which `read_call` reads; returns the file.

    The environment is left out: that process has it, and it holds tokens that others may not read.
    """
    path = context.task_dir / CALL_FILE
    path.write_bytes(pickle.dumps((attempt.work, attempt.request._replace(env={}), context)))
    return path


def read_call(path: str) -> tuple[Work, Request, Context]:
    """A call that a worker wrote for this process."""
    told: tuple[Work, Request, Context] = pickle.loads(Path(path).read_bytes())
    return told


def _told_by_rank(path: Path, failure: Failure) -> Failure | None:
    """What says more than an exit code: the failure that a rank wrote before it ended, or the watchdog's."""
    if failure.kind not in (FailureClass.APP, FailureClass.INTERRUPTED):
        return failure
    said = []
    for file in sorted(path.parent.glob(f"{RETURN_FILE}.failure.*")):
        with contextlib.suppress(OSError, ValueError):  # MPI ended that rank while it wrote
            said.append(json.loads(file.read_text(encoding="utf-8")))
        file.unlink(missing_ok=True)
    if not said:
        return None
    # One rank's error beats the interruption that others met.
    kind, message, told = min(said, key=lambda one: bool(one[0] == FailureClass.INTERRUPTED))
    if told.rstrip().rpartition("\n")[2] not in errors_so_far():  # an MPI launcher may drop what comes last
        sys.stderr.write(told)
    return Failure(kind, message, failure.exit_code)
