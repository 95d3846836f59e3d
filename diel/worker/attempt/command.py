"""Running one attempt of a command, in a process group of its own."""

import errno
import os
import shutil
import signal
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from diel.base.errors import ModuleError
from diel.base.states import FailureClass
from diel.base.values import encode_ascii
from diel.store.artifacts import Artifacts, Outputs, Values, check_values, collect_files, collect_result
from diel.worker.attempt.block import with_hosts
from diel.worker.attempt.bundle import Failure, Request
from diel.worker.attempt.launcher import AT_HOME, NOT_HERE, Launches, is_at_home, words_of_warning
from diel.worker.attempt.leftovers import check_closed, end_left
from diel.worker.attempt.mpi import STALE, World
from diel.worker.attempt.reaper import is_full
from diel.worker.attempt.usage import counted
from diel.worker.attempt.watchdog import RunningAttempt, Watchdog

DYING = 1.0
"""Seconds to hold back a failure in a block, which the scheduler may just be ending: no fault of programs."""
STILL = "a part of it still ran in the background when it ended: write `wait`, or end that part (`kill $!`)"
_CLOSED = ": killed by SIGPIPE: its reader had ended, as in `PROGRAM | head -1`"
_RESET = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM)
_NO_INPUT = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]


def run_command(attempt: RunningAttempt, run_dir: str, env: Mapping[str, str], dog: Watchdog) -> Outputs:
    """Run a command and collect its outputs. Raises Failure: `launch`, `app`, or the watchdog's verdict."""
    launch(attempt, env, dog)
    return made_values(attempt, env), made_files(attempt, run_dir)


def launch(attempt: RunningAttempt, env: Mapping[str, str], dog: Watchdog) -> None:
    """Run the command to its end. Raise Failure as `run_command` does."""
    work, request = attempt.work, attempt.request
    assert request.command is not None
    write_inputs(request, env)
    for name, path in request.outputs.items():
        if "/" in path and not (name in work.promises and work.promises[name].glob is not None):
            os.makedirs(os.path.dirname(f"{attempt.task_dir}/{path}"), exist_ok=True)
    try:
        if work.launches:
            spawn_ranks(request.command, env, dog, attempt)
        elif work.launcher:
            spawn_ranks(
                (*words_of_warning(attempt.limits.interrupt, env), *request.command), env, dog, attempt
            )
        else:
            spawn((*attempt.inside, *request.command), env, dog, attempt)
    except Failure as failure:
        raise _interrupted(failure, attempt) from failure


def write_inputs(request: Request, env: Mapping[str, str]) -> None:
    """Write the files in which a command reads its parameters and inputs. Raise OSError."""
    for name, value in (("DIEL_PARAMS", request.params), ("DIEL_INPUTS", request.inputs)):
        if value:
            # It may exist: overwriting without emptying it first costs a tenth of a new one.
            file = os.open(env[name], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                data = rest = encode_ascii(value).encode()
                while rest:
                    rest = rest[os.write(file, rest) :]
                if os.fstat(file).st_size != len(data):
                    os.ftruncate(file, len(data))
            finally:
                os.close(file)


def made_values(attempt: RunningAttempt, env: Mapping[str, str]) -> Values:
    """Return the values that a command made. For the main thread. Raise Failure if one is amiss."""
    work = attempt.work
    try:
        values = collect_result(env["DIEL_RESULT"], work.values)
        if not work.promises:
            return values
        if any(output.way is not None for output in work.promises.values()):
            from diel.worker.attempt.extraction import extract  # only where it is used: it loads csv

            values |= extract(work.promises, attempt.request.outputs, attempt.task_dir, values)
        check_values(values, work.promises)
        return values
    except ModuleError as error:
        raise Failure(FailureClass.APP, str(error), 0) from error


def made_files(attempt: RunningAttempt, run_dir: str) -> Artifacts:
    """Return the files that a command has made. Raise Failure if one is missing or wrong."""
    if not attempt.request.outputs:
        return {}
    promises = attempt.work.promises
    extracted = {name for name, output in promises.items() if output.way is not None}
    outputs = {name: path for name, path in attempt.request.outputs.items() if name not in extracted}
    try:
        made = collect_files(outputs, Path(attempt.task_dir), Path(run_dir), promises)
        check_closed(attempt.writing, made, run_dir)
        return made
    except ModuleError as error:
        raise Failure(FailureClass.APP, str(error), 0) from error


def _interrupted(failure: Failure, attempt: RunningAttempt) -> Failure:
    """Return the failure of a command, unless it saved and stopped, or was stopped with its block."""
    if failure.kind != FailureClass.APP:
        return failure
    code, keeps = failure.exit_code, attempt.work.checkpoint
    if code == os.EX_TEMPFAIL:
        if keeps:
            return Failure(FailureClass.INTERRUPTED, "it saved a checkpoint and stopped", code)
        message = f"{failure.message} (EX_TEMPFAIL) asks to continue later: that needs `checkpoint: true`"
        return Failure(FailureClass.APP, message, code)
    if keeps and attempt.interrupted:
        message = f"{failure.message}, not {os.EX_TEMPFAIL}, when it was warned of its end"
        kind = FailureClass.TIMEOUT if attempt.limits.rehearsed else FailureClass.WALLTIME
        return Failure(kind, message, code)
    return failure


def start(words: tuple[str, ...], env: Mapping[str, str]) -> int:
    """Start a program in a process group of its own; return its pid. Raise Failure (`launch`)."""
    try:
        return os.posix_spawn(
            find_program(words[0], env), words, env, file_actions=_NO_INPUT, setpgroup=0, setsigdef=_RESET
        )
    except (OSError, ValueError) as error:
        raise _not_started(words, error) from error


def find_program(name: str, env: Mapping[str, str]) -> str:
    """Return the path of a program. Raise Failure (`launch`) if it is not on PATH."""
    try:
        return _find(name, env.get("PATH", os.defpath))
    except FileNotFoundError as error:
        hint = "; install it there, or write `shell: sh`" if name == "bash" else ""
        raise Failure(FailureClass.LAUNCH, f"no program '{name}' on PATH{hint}") from error


def spawn(words: tuple[str, ...], env: Mapping[str, str], dog: Watchdog, attempt: RunningAttempt) -> None:
    """Run a program to its end in a process group of its own. Raise Failure unless it exits with 0."""
    child = start(words, env)
    attempt.group = child
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    if attempt.launches is not None:
        attempt.launches.end()
    left = end_left(
        env.get("DIEL_DRAIN_DIR", attempt.task_dir), child, (attempt.request.command and words) or ()
    )
    attempt.writing = left.writing
    with dog.lock:
        dog.end()
        status = attempt.usage.reap(child, left.processes)
    if attempt.verdict is not None:
        raise attempt.verdict
    if not (status or left.has_copy):
        return
    code = os.waitstatus_to_exitcode(status)
    failed = code not in (0, os.EX_TEMPFAIL)
    if failed and code > 0 and is_full("."):  # asked at once: there may be room again in a moment
        message = f"no space left on the file system of the run (exit code {code}{meaning(code)})"
        raise Failure(FailureClass.NODE, message, code)
    if failed and "DIEL_BLOCK" in os.environ:
        time.sleep(DYING)
    if code > 0:
        raise Failure(FailureClass.APP, f"exit code {code}{meaning(code)}", code)
    if code < 0:
        raise Failure(FailureClass.APP, f"killed by {_signal_name(-code)}", 128 - code)
    raise Failure(FailureClass.APP, STILL, 0)


def spawn_ranks(
    words: tuple[str, ...], env: Mapping[str, str], dog: Watchdog, attempt: RunningAttempt
) -> None:
    """Run a program on a task's ranks. Raises Failure as `spawn`, and `launch` if they form no world."""
    work = attempt.work
    env = {name: value for name, value in env.items() if name not in STALE}
    if is_at_home(work.launcher, env):
        env = {**AT_HOME, **env}
    world = attempt.world = World(work, words, attempt.task_dir, env)
    before = (*with_hosts(work.launcher), *world.words, *counted(attempt.task_dir), *attempt.inside)
    if work.launches:
        task = f"{work.stage}/{attempt.request.index}"
        attempt.launches = started = Launches(attempt.task_dir, task, before, attempt.limits.interrupt)
        words, env = tuple(map(started.placed, words)), started.environment(env)
        if attempt.environment is None or attempt.environment.container is None:  # which is the ranks' alone
            words = (*attempt.inside, *words)
    else:
        words, env = (*before, *words), {**env, "DIEL_LAUNCHER": NOT_HERE}
    try:
        spawn(words, env, dog, attempt)
        apart = world.end(0)
    except Failure as failure:
        if failure.kind != FailureClass.APP:
            raise
        apart = world.end(failure.exit_code)
        if apart is None:
            raise
    finally:
        attempt.usage.take_ranks(attempt.task_dir, work.ranks)
        world.close()
    if apart is not None:
        raise apart


def _not_started(words: tuple[str, ...], error: OSError | ValueError) -> Failure:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        size = sum(len(word.encode("utf-8", "surrogateescape")) for word in words)
        message = (
            f"the command line is {size} bytes in {len(words)} words, more than the system takes; "
            "read a long list or text from the file DIEL_INPUTS or DIEL_PARAMS instead"
        )
    else:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"cannot start '{words[0]}': {reason}"
    return Failure(FailureClass.LAUNCH, message)


@cache
def _find(program: str, path: str) -> str:
    """Raise FileNotFoundError, which is not remembered: it may come."""
    whole = program if "/" in program else shutil.which(program, path=path)
    if whole is None:
        raise FileNotFoundError(program)
    return whole


def meaning(code: int) -> str:
    """Return what an exit code says beyond its number, to be put after it; empty for most."""
    meanings = {126: ": not executable", 127: ": command not found", 141: _CLOSED}
    if code in meanings:
        return meanings[code]
    return f": killed by {_signal_name(code - 128)}" if 128 < code <= 128 + 64 else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
