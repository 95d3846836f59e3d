"""The server that the workers of this machine are forked from: a process without threads.

The controller asks on a socket: for a worker, with its end of a line and a pipe that tells how it ended; or
for the end of all. Once the controller is gone, idle workers end at once, others commit their task before,
and this server ends after them. If it is killed, the kernel kills its workers.
"""

import contextlib
import gc
import os
import pickle
import select
import signal
import sys
import traceback
from socket import recv_fds, socket
from typing import NoReturn

from diel.base.errors import DielError
from diel.worker.attempt.ipc import hold, receive, send
from diel.worker.die_with_parent import tie
from diel.worker.process import begin, run_bundle


class Server:
    """Forks workers until the controller and all workers are gone."""

    def __init__(self, controller: int, requests: socket) -> None:
        self._controller = controller
        self._requests = requests
        self._pipes: dict[int, int] = {}
        """By worker: the pipe on which its end is reported."""
        self._awake, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lifeline, self._life = os.pipe2(os.O_CLOEXEC)
        """Workers see the end of this pipe when the controller is gone."""
        self._is_driven = True
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(self._wake)

    def run(self) -> None:
        gc.collect()
        gc.freeze()  # a collection would write to each object, so each worker would have its own copy
        watch = select.poll()
        watch.register(self._awake, select.POLLIN)
        watch.register(self._requests, select.POLLIN)
        while self._is_driven or self._pipes:
            ready = [number for number, _ in watch.poll()]
            if self._awake in ready:
                os.read(self._awake, select.PIPE_BUF)
                self._reap()
            if self._is_driven and self._requests.fileno() in ready:
                self._serve()
            if self._is_driven and os.getppid() != self._controller:
                self._let_go()
            if not self._is_driven:
                watch = select.poll()
                watch.register(self._awake, select.POLLIN)

    def _serve(self) -> None:
        try:
            message, numbers, _, _ = recv_fds(self._requests, 16, 2)
        except ConnectionResetError:
            message, numbers = b"", []
        if len(numbers) == 2:
            self._fork(*numbers)
        else:
            self._let_go()
            if message:
                for worker in self._pipes:
                    os.kill(worker, signal.SIGKILL)

    def _let_go(self) -> None:
        self._is_driven = False
        os.close(self._life)

    def _reap(self) -> None:
        """Report each worker that ended, once none of its processes is left."""
        for worker in list(self._pipes):
            ended, status = os.waitpid(worker, os.WNOHANG)
            if ended:
                pipe = self._pipes.pop(worker)
                with contextlib.suppress(BrokenPipeError):  # the controller is gone
                    os.write(pipe, b"%d" % os.waitstatus_to_exitcode(status))
                os.close(pipe)

    def _fork(self, end: int, pipe: int) -> None:
        server = os.getpid()
        try:
            worker = os.fork()
        except OSError as error:  # too many processes: the controller sees the end of its pipe
            print(f"cannot fork a worker: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201
            os.close(pipe)
            os.close(end)
            return
        if not worker:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for number in (self._awake, self._wake, self._life, pipe, *self._pipes.values()):
                os.close(number)
            self._requests.close()
            os.setsid()
            if tie(server, signal.SIGKILL):
                hold(self._lifeline)
                _work(socket(fileno=end), self._lifeline)
            os._exit(0)
        self._pipes[worker] = pipe
        os.close(end)


def _work(end: socket, lifeline: int) -> NoReturn:
    """Serve bundles, once this has sent its process id; its last words go where the controller reads them."""
    last_words = open(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    try:
        end.set_inheritable(False)  # as it came: no command is to have it
        packed = receive(end, lifeline)
        begin(pickle.loads(packed))
        send(end, b"%d" % os.getpid())
        while True:
            send(end, run_bundle(packed))
            packed = receive(end, lifeline)
    except EOFError:
        os._exit(0)  # at once: a thread that a module left behind must not hold the worker
    except (DielError, OSError) as error:  # its files cannot be written: the controller meets the same
        print(error, file=last_words, flush=True)
        os._exit(os.EX_IOERR)
    except BaseException:
        traceback.print_exc(file=last_words)
        last_words.flush()
        os._exit(1)
