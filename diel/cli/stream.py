"""What a `diel stream` talks to: a program (`… -- PROGRAM`), or lines that say what to do (`operate`)."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import IO, Any, cast

import click

from diel.errors import DielError, StreamBroken, StreamEnd, StreamError, UsageError

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
    """Return the program's words; None if none is given. Raise UsageError for none after `--`."""
    words: tuple[str, ...] | None = ctx.meta.get(_PROGRAM)
    if words == ():
        raise UsageError("no program after `--`; expected one, with its arguments")
    return words


class Program:
    """A program that gets the signals of this process. As a context it is ended by an error, before it could
    take that for the end of its stream."""

    def __init__(self, words: tuple[str, ...], *, stdin: int | None, stdout: int | None) -> None:
        """Start it. Raise DielError with a shell's exit code if it cannot start."""
        try:
            self.process = subprocess.Popen(words, stdin=stdin, stdout=stdout, encoding="utf-8")
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
            self.process.terminate()
            self._close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.process.send_signal(number)

    @property
    def pipe(self) -> IO[str]:
        """Its standard input or output, whichever is a pipe."""
        pipe = self.process.stdin or self.process.stdout
        assert pipe is not None
        return pipe

    def when_ended(self, call: Callable[[], Any]) -> None:
        """Call a function in a thread once the program has ended."""
        self._watcher = threading.Thread(target=lambda: (self.process.wait(), call()), daemon=True)
        self._watcher.start()

    def wait(self) -> int:
        """Close the input and wait; return the exit code as a shell does: 128 plus a signal's number."""
        self._close()
        code = self.process.wait()
        if self._watcher is not None:
            self._watcher.join()
        return code if code >= 0 else 128 - code


KNOWN = {
    "put": ({"stream", "item"}, {"key", "value"}),
    "get": ({"stream"},),
    "commit": ({"stream"},),
    "read": ({"key"},),
    "take": ({"key"},),
}
"""What each operation needs beside `do`."""
_EXPECTED = (
    'expected {"do": "put", "stream": NAME, "item": …}, {"do": "get", "stream": NAME}, '
    '{"do": "commit", "stream": NAME}, {"do": "put", "key": […], "value": …}, '
    '{"do": "read", "key": […]} or {"do": "take", "key": […]}'
)


class Operations:
    """The ends that a task has opened so far; each is opened when it is first named."""

    def __init__(self, **open_: Callable[..., Any]) -> None:
        """Open an end to `put` into a stream or `get` from it, by its name, and the tuple `space`."""
        self._open = open_
        self._ends: dict[tuple[str, ...], Any] = {}

    def serve(self, lines: Iterable[str], tell: Callable[[dict[str, Any]], None]) -> int:
        """Do what the lines say, and answer each; return 1 if one could not be done."""
        code = 0
        try:
            for line in filter(str.strip, lines):
                answer = self._answer(line)
                code = 1 if "error" in answer else code
                tell(answer)
        except BaseException:
            self._leave(failed=True)
            raise
        self._leave(failed=bool(code))
        return code

    def _answer(self, line: str) -> dict[str, Any]:
        try:
            return self._do(_read(line))
        except StreamEnd:
            return {"end": True}
        except TimeoutError:
            return {"timeout": True}
        except StreamBroken as error:
            return {"broken": True, "error": str(error)}
        except (StreamError, UsageError) as error:
            return {"error": str(error)}

    def _do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        what, timeout = request["do"], request.get("timeout")
        if "stream" not in request:
            space = self._end("space")
            if what == "put":
                space.put(request["key"], request["value"])
                return {"done": True}
            key, value = (space.read if what == "read" else space.take)(request["key"], timeout)
            return {"key": key, "value": value}
        end = self._end("put" if what == "put" else "get", request["stream"])
        if what == "get":
            return {"item": end.get(timeout)}
        if what == "put":
            end.put(request["item"], timeout)
        else:
            end.commit()
        return {"done": True}

    def _end(self, *key: str) -> Any:
        if key not in self._ends:
            self._ends[key] = self._open[key[0]](*key[1:])
        return self._ends[key]

    def _leave(self, *, failed: bool) -> None:
        with contextlib.ExitStack() as stack:  # one that cannot be closed does not keep the others open
            if failed:
                stack.enter_context(contextlib.suppress(StreamError))
            for (role, *name), end in self._ends.items():
                if name:
                    stack.callback(end.give_up if failed and role == "put" else end.close)


def _read(line: str) -> Mapping[str, Any]:
    """Return an operation. Raise UsageError for what is none."""
    try:
        request = json.loads(line)
        fits = any(request.keys() - {"do", "timeout"} == needs for needs in KNOWN[request["do"]])
        seconds = request.get("timeout")
        fits = fits and (seconds is None or (isinstance(seconds, int | float) and seconds >= 0))
    except (ValueError, AttributeError, KeyError, TypeError):
        fits = False
    if not fits:
        raise UsageError(f'{_EXPECTED}, and for a time limit "timeout": SECONDS; found {line.strip()[:200]}')
    return cast("Mapping[str, Any]", request)
