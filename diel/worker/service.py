"""Keeping one replica of a service up: started, asked whether it is well, restarted, stopped.

The worker that has its task starts it as a process of its own, in a process group of its own, and looks
after it until the controller wants it stopped. That it is well is asked from here, the node it runs on, so
that no network stands between.
"""

from __future__ import annotations

import http.client
import json
import os
import pickle
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from diel.artifacts import Artifacts, Values
from diel.context import Context
from diel.journal.segment import Record
from diel.paths import RunPaths
from diel.services.endpoint import Endpoint, read_token, variables, write_endpoint
from diel.spec import Ready, Service
from diel.states import FailureClass
from diel.worker.bundle import Failure, Job, Request
from diel.worker.reaper import signal_group
from diel.worker.watchdog import Watchdog, Watched

CALL_FILE = ".call.pickle"
TICK = 0.1
"""Seconds between two looks at the process, and at what the controller wants."""
CHECK = 2.0
"""Seconds between two questions whether it is well; while it starts, it is asked at each look."""
ANSWER = 5.0
"""Seconds for which an answer is awaited."""
LONGEST_PAUSE = 5.0
"""Seconds before a restart; the first comes after a tenth, and each pause is twice the last."""
ALONE = 60.0
"""Seconds without a heartbeat of its controller after which a service is stopped; or `idle`, if longer."""
LOOKED_AT = 1 << 20
"""Bytes of what it printed last in which the text is looked for that says it is ready."""
_NO_INPUT = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
_RESET = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM)

Note = Callable[[Record], int]
"""Writes a record to the worker's segment."""


class _Stopped(Exception):
    """The controller wants the service stopped: `over` for good, or `idle` for now."""


class _Lost(Exception):
    """The service must be restarted; says why."""


@dataclass
class _Process:
    """One start of the service."""

    pid: int
    port: int
    url: str
    began: float
    """In time.monotonic seconds, as `answered`."""
    printed: tuple[int, int]
    """Bytes that had been printed before, on either stream."""
    answered: float = 0.0
    checked: float = 0.0
    is_ready: bool = False


def run_service(
    job: Job,
    request: Request,
    context: Context,
    env: Mapping[str, str],
    dog: Watchdog,
    watched: Watched,
    note: Note,
) -> tuple[Values, Artifacts]:
    """Keeps a replica up until it is no longer wanted; then it has ended well, without a result.

    Raises Failure: `interrupted` where it was stopped and may be started again, `app` where it died or fell
    silent more often than it may, `launch` where it cannot be started, or the watchdog's verdict.
    """
    return _Keeper(job, request, context, env, dog, watched, note).keep()


def asking(paths: RunPaths, request: Request) -> Request:
    """The same with what its environment says of its services. Raises Failure where their token is gone."""
    try:
        told = variables(paths, request.services or {}, request.index)
    except OSError as error:
        raise Failure(
            FailureClass.NODE, f"the token of its services cannot be read: {error.strerror}"
        ) from error
    return replace(request, env={**request.env, **told})


class _Keeper:
    def __init__(
        self,
        job: Job,
        request: Request,
        context: Context,
        env: Mapping[str, str],
        dog: Watchdog,
        watched: Watched,
        note: Note,
    ) -> None:
        assert job.service is not None
        self._service: Service = job.service
        self._job = job
        self._request = request
        self._context = context
        self._dog = dog
        self._watched = watched
        self._note = note
        self._paths = RunPaths(context.run_dir)
        self._file = self._paths.service(job.stage, request.index)
        self._stop_file = self._paths.service_stop(job.stage, request.index, request.attempt)
        self._renewal = self._paths.service_renewal(job.stage, request.index, request.attempt)
        self._renewed = 0
        """When the newer inputs were written that it has, as st_mtime_ns."""
        self._parent = os.getppid()
        self._heartbeat = (0.0, time.monotonic())
        self._host = _own_address(env)
        self._token = read_token(self._paths)
        self._restarts = 0
        self._env = {**env, "DIEL_SERVICE_TOKEN": self._token, "DIEL_SERVICE_HOST": self._host}
        self._words = self._prepare()

    def keep(self) -> tuple[Values, Artifacts]:
        try:
            while True:
                process = self._start()
                try:
                    self._attend(process)
                except _Lost as lost:
                    self._end(process)
                    self._give_up_or_pause(process, str(lost))
                except BaseException:
                    self._end(process)
                    raise
        except _Stopped as stopped:
            over = str(stopped) == "over"
            self._tell("stopped", "", "" if over else str(stopped))
            if not over:
                raise Failure(FailureClass.INTERRUPTED, str(stopped)) from None
            return {}, {}
        except Failure as failure:
            self._tell("failed", "", failure.message)
            if failure.kind == FailureClass.WALLTIME:  # it is nobody's failure that a service has no end
                raise Failure(FailureClass.INTERRUPTED, failure.message) from failure
            raise

    # --- starting -----------------------------------------------------------------------------------

    def _prepare(self) -> tuple[str, ...]:
        """The words that start it; writes what it reads."""
        if self._job.module is None:
            assert self._request.command is not None
            for name, value in (("DIEL_PARAMS", self._request.params), ("DIEL_INPUTS", self._request.inputs)):
                if value:
                    text = json.dumps(value)
                    Path(self._env[name]).write_text(text, encoding="utf-8", errors="surrogateescape")
            program = self._request.command[0]
            if shutil.which(program, path=self._env.get("PATH", os.defpath)) is None:
                raise Failure(FailureClass.LAUNCH, f"no program '{program}' on PATH")
            return (sys.executable, "-m", "diel.worker.tied", *self._request.command)
        call_file = self._context.task_dir / CALL_FILE
        call_file.write_bytes(pickle.dumps((self._job, self._request, self._context)))
        return (sys.executable, "-m", "diel.worker.served", str(call_file))

    def _start(self) -> _Process:
        self._check_wanted()
        port = self._service.port if isinstance(self._service.port, int) else _free_port(self._host)
        env = {**self._env, "DIEL_SERVICE_PORT": str(port)}
        url = f"http://{self._host}:{port}"
        try:
            pid = os.posix_spawn(
                self._words[0], self._words, env, file_actions=_NO_INPUT, setpgroup=0, setsigdef=_RESET
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise Failure(FailureClass.LAUNCH, f"cannot start the service: {reason}") from error
        now = time.monotonic()
        self._watched.group = pid
        process = _Process(pid, port, url, now, _sizes(), answered=now)
        self._tell("starting" if not self._restarts else "restarting", url)
        return process

    def _give_up_or_pause(self, process: _Process, why: str) -> None:
        """Waits a moment before the next start. Raises Failure where there were too many."""
        if self._restarts >= self._service.restarts:
            often = f"; it was restarted {self._restarts} times" if self._restarts else ""
            raise Failure(FailureClass.APP, f"the service {why}{often}", 1)
        pause = min(LONGEST_PAUSE, TICK * 2.0**self._restarts)
        self._restarts += 1
        self._renewed = 0
        self._tell("restarting", process.url, why)
        end = time.monotonic() + pause
        while time.monotonic() < end:
            self._check_wanted()
            time.sleep(TICK / 2)

    # --- looking after it ---------------------------------------------------------------------------

    def _attend(self, process: _Process) -> None:
        """Looks after one start of it. Raises _Lost, _Stopped, or the watchdog's verdict."""
        while True:
            self._check_alive(process)
            self._check_wanted()
            now = time.monotonic()
            if not process.is_ready:
                if self._is_well(process):
                    process.is_ready, process.answered = True, now
                    self._renew(process)
                    self._tell("ready", process.url)
                elif now - process.began > self._service.startup:
                    raise _Lost(f"was not ready within {self._service.startup:g} s")
            elif now - process.checked >= min(CHECK, self._service.silence / 4):
                process.checked = now
                if self._is_well(process):
                    process.answered = time.monotonic()
                elif now - process.answered > self._service.silence:
                    raise _Lost(f"did not answer its ready check for {self._service.silence:g} s")
            if process.is_ready:
                self._renew(process)
            time.sleep(TICK / 2 if not process.is_ready else TICK)

    def _check_alive(self, process: _Process) -> None:
        """Raises _Lost where the process has ended, or the watchdog's verdict where that ended it."""
        if self._watched.verdict is not None:
            raise self._watched.verdict
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            return
        if self._watched.verdict is not None:
            raise self._watched.verdict
        how = (
            f"exit code {ended.si_status}" if ended.si_code == os.CLD_EXITED else f"signal {ended.si_status}"
        )
        raise _Lost(f"ended with {how}{'' if process.is_ready else ' before it was ready'}")

    def _check_wanted(self) -> None:
        """Raises _Stopped where the controller wants it stopped, or is gone; the watchdog's verdict."""
        if self._watched.verdict is not None:
            raise self._watched.verdict
        try:
            raise _Stopped(self._stop_file.read_text(encoding="utf-8").strip() or "over")
        except OSError:
            pass
        if os.getppid() != self._parent:
            raise _Stopped("the controller of its run is gone")
        seen, since = self._heartbeat
        now = time.monotonic()
        if now - since > CHECK:
            try:
                beat = os.stat(self._paths.lease).st_mtime
            except OSError:
                beat = seen
            if beat != seen:
                self._heartbeat = (beat, now)
            elif now - since > max(ALONE, self._service.idle):
                raise _Stopped("the controller of its run is gone")

    def _is_well(self, process: _Process) -> bool:
        ready: Ready = self._service.ready
        if ready.log is not None:
            return process.is_ready or ready.log in _printed_since(process.printed)
        patience = max(TICK, min(ANSWER, self._service.silence / 2)) if process.is_ready else 1.0
        if ready.tcp:
            return _takes_connections(self._host, process.port, patience)
        return _answers(process.url, str(ready.http), self._token, patience)

    def _renew(self, process: _Process) -> None:
        """Sends the service its newer inputs, where there are any that it does not have."""
        if self._service.reload is None:
            return
        try:
            written = os.stat(self._renewal).st_mtime_ns
            if written == self._renewed:
                return
            body = self._renewal.read_bytes()
        except OSError:
            return
        self._renewed = written
        why = _post(process.url, self._service.reload, self._token, body, self._service.startup)
        self._write("reloaded" if not why else "refused", process.url, why)

    # --- ending it ----------------------------------------------------------------------------------

    def _end(self, process: _Process) -> None:
        """Ends the process and its group: SIGTERM, then SIGKILL."""
        signal_group(process.pid, signal.SIGTERM)
        patience = time.monotonic() + self._service.stop
        while time.monotonic() < patience and not _has_ended(process.pid):
            time.sleep(TICK / 4)
        with self._dog.lock:
            if self._watched.verdict is not None:
                self._dog.end()  # it has nothing to end any more
            self._watched.group = None
            signal_group(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)

    # --- telling ------------------------------------------------------------------------------------

    def _tell(self, state: str, url: str, message: str = "") -> None:
        """Writes how it stands: to its file, for consumers, and to the journal."""
        endpoint = Endpoint(state, url, self._request.attempt, self._restarts, message)
        try:
            write_endpoint(self._file, endpoint)
        except OSError as error:
            raise Failure(FailureClass.NODE, f"its file cannot be written: {error.strerror}") from error
        self._write(state, url, message)

    def _write(self, state: str, url: str, message: str) -> None:
        record: Record = {
            "event": "service",
            "stage": self._job.stage,
            "index": self._request.index,
            "attempt": self._request.attempt,
            "time": time.time(),
            "state": state,
            "url": url,
            "restarts": self._restarts,
        }
        with self._dog.lock:
            self._note({**record, "message": message} if message else record)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _own_address(env: Mapping[str, str]) -> str:
    """Where the service listens: this machine alone, or the node's address where it runs in a block."""
    if "DIEL_BLOCK" not in env:
        return "127.0.0.1"
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    if not named.startswith("127."):
        return named
    every = (one for found in psutil.net_if_addrs().values() for one in found)
    others = (
        one.address for one in every if one.family == socket.AF_INET and not one.address.startswith("127.")
    )
    return next(others, "127.0.0.1")


def _free_port(host: str) -> int:
    """A port that nobody has now. Should another take it before the service does, that is restarted."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _takes_connections(host: str, port: int, patience: float) -> bool:
    try:
        with socket.create_connection((host, port), patience):
            return True
    except OSError:
        return False


def _answers(url: str, path: str, token: str, patience: float) -> bool:
    return 200 <= _ask(url, "GET", path, token, None, patience)[0] < 400


def _post(url: str, path: str, token: str, body: bytes, patience: float) -> str:
    """Sends newer inputs; returns what is wrong, or nothing."""
    code, said = _ask(url, "POST", path, token, body, patience)
    return "" if 200 <= code < 400 else f"{path} answered {code or 'nothing'}: {said[:200]}"


def _ask(
    url: str, method: str, path: str, token: str, body: bytes | None, patience: float
) -> tuple[int, str]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=patience)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(65536).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()


def _sizes() -> tuple[int, int]:
    """Bytes in the files of this process's two streams, which the service prints to."""
    return os.fstat(1).st_size, os.fstat(2).st_size


def _printed_since(before: tuple[int, int]) -> str:
    """The end of what was printed since these sizes."""
    text = b""
    for number, size, begin in zip((1, 2), _sizes(), before, strict=True):
        first = max(begin, size - LOOKED_AT)
        text += os.pread(number, max(0, size - first), first)
    return text.decode("utf-8", "replace")
