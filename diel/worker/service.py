"""Keeps one replica of a service up: starts it, checks it, restarts it, stops it.

The worker that has its task starts it as a process of its own, in a process group of its own, and looks
after it until the controller wants it stopped.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diel.base.carried import PYTHON
from diel.base.errors import counted
from diel.base.files import put
from diel.base.paths import RunPaths
from diel.base.states import FailureClass
from diel.store.artifacts import Outputs
from diel.streams.services.client import in_url
from diel.streams.services.endpoint import (
    INPUTS,
    STOP,
    Endpoint,
    counts_file,
    endpoint_file,
    message_file,
    read_token,
    write_endpoint,
)
from diel.worker.attempt.addresses import interfaces
from diel.worker.attempt.bundle import Failure
from diel.worker.attempt.command import find_program, meaning, start, write_inputs
from diel.worker.attempt.function import write_call
from diel.worker.attempt.ipc import is_cut
from diel.worker.attempt.leftovers import end_left
from diel.worker.attempt.reaper import kill_marked, signal_group
from diel.worker.attempt.watchdog import RunningAttempt, Watchdog
from diel.worker.context import Context

if TYPE_CHECKING:
    from diel.store.journal import records
    from diel.store.journal.records import Record
    from diel.workflow.models import Ready, Service

TICK = 0.1
"""Seconds between two looks at the process and at the controller's wishes."""
CHECK = 2.0
"""Seconds between two ready checks; while it starts, each look checks it."""
ANSWER = 5.0
"""Seconds to wait for an answer; one, while it starts."""
LONGEST_PAUSE = 5.0
"""Seconds before a restart; the first comes after a tenth, and each pause is twice the last."""
TIED = (*PYTHON, "-m", "diel.worker.die_with_parent")

Note = Callable[["Record"], int]
"""Writes a record to the worker's segment."""
LOOK = 2.0
"""Seconds between two looks at the controller's heartbeat."""
ALONE = 60.0
"""A service is stopped after so many seconds without a heartbeat of its controller; or `idle`, if longer."""
LOOKED_AT = 1 << 20
"""Bytes of its latest output in which to look for the text that says it is ready."""
GONE = "the controller of its run is gone"


class _Lost(Exception):
    """The service must be restarted; says why."""


@dataclass(frozen=True)
class Line:
    """Where one start of a service listens, and the token that it expects."""

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def is_well(self, ready: "Ready", patience: float) -> bool:
        """Return whether it answers as promised, within so many seconds."""
        if ready.tcp:
            try:
                with socket.create_connection((self.host, self.port), patience):
                    return True
            except OSError:
                return False
        return 200 <= self._ask("GET", str(ready.http), None, patience)[0] < 400

    def send(self, path: str, body: bytes, patience: float) -> str:
        """Send newer inputs; return what is wrong, or nothing."""
        code, answer = self._ask("POST", path, body, patience)
        return "" if 200 <= code < 400 else f"{path} answered {code or 'nothing'}: {answer[:200]}"

    def counts(self, patience: float) -> str:
        """Return what it says at /metrics; nothing where it has no such page."""
        code, answer = self._ask("GET", "/metrics", None, patience)
        return answer if code == 200 and "_total" in answer else ""

    def _ask(self, method: str, path: str, body: bytes | None, patience: float) -> tuple[int, str]:
        """Return the code and the beginning of the answer; 0 and the reason if there was none."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=patience)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, in_url(path), body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(65536).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()


class PrintedOutput:
    """What a service prints from now on, on this process's stdout and stderr."""

    def __init__(self) -> None:
        self._before = _sizes()

    def holds(self, text: str) -> bool:
        """Return whether the end of it has a text."""
        printed = b""
        for number, size, begin in zip((1, 2), _sizes(), self._before, strict=True):
            first = max(begin, size - LOOKED_AT)
            printed += os.pread(number, max(0, size - first), first)
        return text in printed.decode("utf-8", "replace")


def _sizes() -> tuple[int, int]:
    return os.fstat(1).st_size, os.fstat(2).st_size


@dataclass
class _Process:
    """One start of the service."""

    pid: int
    line: Line
    printed: PrintedOutput
    began: float
    """In time.monotonic seconds, as `answered` and `checked`."""
    answered: float
    checked: float = 0.0
    is_ready: bool = False


class Keeper:
    """Keeps one replica up, for one attempt of its task."""

    def __init__(
        self, attempt: RunningAttempt, context: Context, env: Mapping[str, str], dog: Watchdog, note: Note
    ) -> None:
        """`env` has the task's variables, `note` writes to the journal. Raises OSError without a token."""
        work, request = attempt.work, attempt.request
        assert work.service is not None
        paths = RunPaths(context.run_dir)
        self._service: Service = work.service
        self._attempt = attempt
        self._context = context
        self._dog = dog
        self._note = note
        self._file = endpoint_file(paths, work.stage, request.index)
        self._counts = counts_file(paths, work.stage, request.index)
        self._counted = work.service.ready.http is not None
        """Whether it may have numbers to keep."""
        self._wanted = ReplicaRequest(paths, work.stage, request.index, request.attempt, work.service.idle)
        self._renewal = message_file(paths, work.stage, request.index, request.attempt, INPUTS)
        self._renewed = (0, 0)
        """The file of newer inputs that it has: its inode, and when it was written in nanoseconds."""
        self._inputs, self._refused = request.key, ""
        """The keys of the inputs that it has, and of newer ones that it did not take."""
        self._restarts = 0
        self._host = _own_address(env)
        self._token = read_token(paths)
        self._env = {**env, "DIEL_SERVICE_TOKEN": self._token, "DIEL_SERVICE_HOST": self._host}

    def keep(self) -> Outputs:
        """Keep it up until it is not wanted: then it has succeeded. Raises Failure that says why not."""
        try:
            words = self._prepare()
            while True:
                self._check_wanted()
                process = self._start(words)
                try:
                    self._attend(process)
                except _Lost as lost:
                    self._end(process)
                    self._give_up_or_pause(process, str(lost))
                except BaseException:
                    self._end(process)
                    raise
        except Stopped as stopped:
            over = str(stopped) == "over"
            with contextlib.suppress(Failure):  # it cannot be written
                self._tell("stopped", "", "" if over else str(stopped))
            if not over:
                raise Failure(FailureClass.INTERRUPTED, str(stopped)) from None
            return {}, {}
        except Failure as failure:
            at_work = failure.kind in (FailureClass.CANCELLED, FailureClass.WALLTIME)
            with contextlib.suppress(Failure):
                self._tell("stopped" if at_work else "failed", "", failure.message)
            if failure.kind == FailureClass.WALLTIME:  # a service without an end is not a failure
                raise Failure(FailureClass.INTERRUPTED, failure.message) from failure
            raise

    def _prepare(self) -> tuple[str, ...]:
        """Return the words that start it; writes its inputs. Raise Failure if there is no such program."""
        tied = (*TIED, str(os.getpid()), *self._attempt.inside)
        if self._attempt.work.module is not None:
            call_file = write_call(self._attempt, self._context)
            return (*tied, *self._attempt.caller, str(call_file), *self._attempt.lent)
        assert self._attempt.request.command is not None
        if not self._attempt.inside:
            find_program(self._attempt.request.command[0], self._env)
        write_inputs(self._attempt.request, self._env)
        return (*tied, *self._attempt.request.command)

    def _start(self, words: tuple[str, ...]) -> _Process:
        port = self._service.port if isinstance(self._service.port, int) else _free_port(self._host)
        printed = PrintedOutput()
        pid = start(words, {**self._env, "DIEL_SERVICE_PORT": str(port)})
        self._attempt.group = pid
        now = time.monotonic()
        return _Process(pid, Line(self._host, port, self._token), printed, now, now)

    def _give_up_or_pause(self, process: _Process, why: str) -> None:
        """Wait a moment before the next start. Raise Failure after too many."""
        if self._restarts >= self._service.restarts:
            often = f"; it was restarted {counted(self._restarts, 'time')}" if self._restarts else ""
            raise Failure(FailureClass.APP, f"the service {why}{often}", 1)
        pause = min(LONGEST_PAUSE, TICK * 2.0**self._restarts)
        self._restarts += 1
        self._renewed = (0, 0)
        self._inputs, self._refused = self._attempt.request.key, ""
        self._tell("restarting", process.line.url, why)
        end = time.monotonic() + pause
        while time.monotonic() < end:
            self._check_wanted()
            time.sleep(TICK / 2)

    def _attend(self, process: _Process) -> None:
        """Watch one start of it. Raise _Lost, Stopped, or the watchdog's verdict."""
        self._tell("starting" if not self._restarts else "restarting", process.line.url)
        while True:
            self._check_alive(process)
            self._check_wanted()
            if process.is_ready:
                self._check_well(process)
                self._renew(process)
                time.sleep(TICK)
            else:
                self._look_ready(process)
                time.sleep(TICK / 2)

    def _look_ready(self, process: _Process) -> None:
        """Check whether it is ready. Raise _Lost if that takes too long."""
        now = time.monotonic()
        if self._is_well(process):
            process.is_ready, process.answered = True, now
            self._renew(process)
            self._tell("ready", process.line.url)
        elif now - process.began > self._service.startup:
            raise _Lost(f"was not ready within {self._service.startup:g} s")

    def _check_well(self, process: _Process) -> None:
        """Check it now and then. Raise _Lost if it has been silent too long."""
        now = time.monotonic()
        if now - process.checked < min(CHECK, self._service.silence / 4):
            return
        process.checked = now
        if self._is_well(process):
            process.answered = time.monotonic()
            self._keep_counts(process)
        elif now - process.answered > self._service.silence:
            raise _Lost(f"did not answer its ready check for {self._service.silence:g} s")

    def _keep_counts(self, process: _Process) -> None:
        """Keep its numbers beside its file. One that once has none is not asked again."""
        counts = process.line.counts(1.0) if self._counted else ""
        self._counted = bool(counts)
        if counts:
            with contextlib.suppress(OSError):  # they are only to be looked at
                put(self._counts, counts)

    def _check_alive(self, process: _Process) -> None:
        """Raise _Lost if the process has ended."""
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            return
        self._check_wanted()  # whoever no longer wants it may have ended it
        code = ended.si_status
        how = f"exit code {code}{meaning(code)}" if ended.si_code == os.CLD_EXITED else f"signal {code}"
        before = "" if process.is_ready else " before it was ready"
        hint = ": it must stay in the foreground" if how == "exit code 0" and before else ""
        raise _Lost(f"ended with {how}{before}{hint}")

    def _check_wanted(self) -> None:
        """Raise Stopped if the controller wants it stopped or is gone; or the watchdog's verdict."""
        if self._attempt.verdict is not None:
            raise self._attempt.verdict
        self._wanted.check()

    def _is_well(self, process: _Process) -> bool:
        ready = self._service.ready
        if ready.log is not None:
            return process.is_ready or process.printed.holds(ready.log)
        patience = max(TICK, min(ANSWER, self._service.silence / 2)) if process.is_ready else 1.0
        return process.line.is_well(ready, patience)

    def _renew(self, process: _Process) -> None:
        """Send the service newer inputs, if there are any that it does not have."""
        if self._service.reload is None:
            return
        try:
            status = os.stat(self._renewal)
            state = status.st_ino, status.st_mtime_ns
            if state == self._renewed:
                return
            newer = json.loads(self._renewal.read_bytes())
        except (OSError, ValueError):
            return
        self._renewed = state
        if newer["key"] == self._inputs:
            return
        before, self._inputs = self._inputs, ""
        self._put("ready", process.line.url)  # nobody knows with which inputs it answers from here on
        body = json.dumps(newer["inputs"]).encode()
        why = process.line.send(self._service.reload, body, self._service.startup)
        self._inputs, self._refused = (before, newer["key"]) if why else (newer["key"], "")
        self._write("reloaded" if not why else "refused", process.line.url, why)
        self._put("ready", process.line.url)

    def _end(self, process: _Process) -> None:
        """Send SIGTERM to its group, then SIGKILL to the group and to what escaped from it."""
        if process.is_ready and not _has_ended(process.pid):
            self._keep_counts(process)
        signal_group(process.pid, signal.SIGTERM)
        patience = time.monotonic() + self._service.stop
        while time.monotonic() < patience and not _has_ended(process.pid):
            time.sleep(TICK / 4)
        left = end_left(str(self._context.task_dir), process.pid)
        with self._dog.lock:
            if self._attempt.verdict is not None:
                self._dog.end()  # it has nothing left to end
            self._attempt.group = None
            signal_group(process.pid, signal.SIGKILL)
            self._attempt.usage.reap(process.pid, left.processes)
        kill_marked("DIEL_TASK_DIR", str(self._context.task_dir))

    def _tell(self, state: str, url: str, message: str = "") -> None:
        """Write the state: to its file, for consumers, and to the journal. Raise Failure."""
        self._put(state, url, message)
        self._write(state, url, message)

    def _put(self, state: str, url: str, message: str = "") -> None:
        attempt = self._attempt.request.attempt
        endpoint = Endpoint(state, url, attempt, self._restarts, message, self._inputs, self._refused)
        try:
            write_endpoint(self._file, endpoint)
        except OSError as error:
            raise Failure(FailureClass.NODE, f"its file cannot be written: {error.strerror}") from error

    def _write(self, state: str, url: str, message: str) -> None:
        record: records.ServiceRecord = {
            "event": "service",
            "stage": self._attempt.work.stage,
            "index": self._attempt.request.index,
            "attempt": self._attempt.request.attempt,
            "time": time.time(),
            "state": state,
            "url": url,
            "restarts": self._restarts,
        }
        if message:
            record["message"] = message
        with self._dog.lock:
            self._note(record)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _own_address(env: Mapping[str, str]) -> str:
    """Return where the service listens: on this machine only, or at the node's address in a block."""
    if "DIEL_BLOCK" not in env:
        return "127.0.0.1"
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    return named if not named.startswith("127.") else next(iter(interfaces()), "127.0.0.1")


def _free_port(host: str) -> int:
    """Return a port that is free now. If another takes it first, the service is restarted."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


class Stopped(Exception):
    """The service must stop: `over` for good, anything else says why for now."""


class ReplicaRequest:
    """One attempt of a replica, as its controller wants it."""

    def __init__(self, paths: RunPaths, stage: str, index: int, attempt: int, idle: float) -> None:
        self._stop_file = message_file(paths, stage, index, attempt, STOP)
        self._lease = paths.lease
        self._patience = max(ALONE, idle)
        self._parent = os.getppid()
        self._beat, self._beaten = 0.0, time.monotonic()

    def check(self) -> None:
        """Raise Stopped if the controller wants it stopped or is gone."""
        try:
            raise Stopped(self._stop_file.read_text(encoding="utf-8").strip() or "over")
        except OSError:
            pass
        if os.getppid() != self._parent or is_cut():
            raise Stopped(GONE)
        now, beat = time.monotonic(), self._beat
        if now - self._beaten <= LOOK:
            return
        with contextlib.suppress(OSError):
            beat = os.stat(self._lease).st_mtime
        if beat != self._beat:
            self._beat, self._beaten = beat, now
        elif now - self._beaten > self._patience:
            raise Stopped(GONE)
