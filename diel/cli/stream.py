"""A program at the other end of a `diel stream`: `… -- PROGRAM ARG…`. Its exit code is the command's."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable
from types import FrameType
from typing import IO, Any

import click

from diel.errors import DielError, UsageError

PATIENCE = 10.0
"""Seconds that a program has to end after SIGTERM, if its stream is broken or takes nothing."""
_PROGRAM = "diel.program"
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Piping(click.Command):
    """A command that can be followed by `--` and a program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_PROGRAM], args = tuple(args[at + 1 :]), args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM ARG…]"]


def program_of(ctx: click.Context) -> tuple[str, ...] | None:
    """The program's words; None if none is given. Raises UsageError for none after `--`."""
    words: tuple[str, ...] | None = ctx.meta.get(_PROGRAM)
    if words == ():
        raise UsageError("no program after `--`; expected one, with its arguments")
    return words


class Program:
    """A program that runs, and gets the signals that this process gets.

    As a context it is ended by an error, before it could take that for the end of its stream.
    """

    def __init__(self, words: tuple[str, ...], *, stdin: int | None, stdout: int | None) -> None:
        """Starts it. Raises DielError with a shell's exit code if it cannot start."""
        try:
            self._process = subprocess.Popen(words, stdin=stdin, stdout=stdout, encoding="utf-8")
        except OSError as error:
            failed = DielError(f"cannot start '{words[0]}': {error.strerror}")
            failed.exit_code = 127 if isinstance(error, FileNotFoundError) else 126
            raise failed from error
        self._watcher: threading.Thread | None = None
        self._handlers = {number: signal.signal(number, self._pass_on) for number in _SIGNALS}

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.terminate()
            self._close()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._process.send_signal(number)

    @property
    def pipe(self) -> IO[str]:
        """Its standard input or output, whichever is a pipe."""
        pipe = self._process.stdin or self._process.stdout
        assert pipe is not None
        return pipe

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def when_ended(self, call: Callable[[], Any]) -> None:
        """Calls this in a thread once the program has ended."""
        self._watcher = threading.Thread(target=lambda: (self._process.wait(), call()), daemon=True)
        self._watcher.start()

    def wait(self) -> int:
        """Closes its input and waits; returns its exit code as a shell does: 128 plus a signal's number."""
        self._close()
        code = self._process.wait()
        if self._watcher is not None:
            self._watcher.join()
        return code if code >= 0 else 128 - code
