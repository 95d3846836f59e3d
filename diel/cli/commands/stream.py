"""`diel stream`: streams and the tuple space for commands and their programs, in any language."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from pathlib import Path
from types import FrameType
from typing import IO, Any, TextIO, cast

import click
from click.core import ParameterSource

from diel.base.errors import DielError, StreamBroken, StreamEnd, StreamError, UsageError, did_you_mean
from diel.base.values import read_json
from diel.cli.commands.shard import RANK, RANKS, from_launcher, launched
from diel.cli.options import duration
from diel.streams.client import Connection, TupleSpace
from diel.streams.ends import Consumer, Producer

PATIENCE = 10.0
"""Seconds that a program has to end after SIGTERM, if its stream is broken or takes nothing."""
_PROGRAM = "diel.program"
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class PipeCommand(click.Command):
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
    """A program that gets this process's signals. An error ends it before it sees its stream end."""

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

    def __enter__(self) -> "Program":
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


End = Mapping[str, Any]


@click.group("stream")
def command() -> None:
    """\b
        diel stream put samples -- ./simulate
        diel stream get samples -- ./train
        while item=$(diel stream get samples --count 1); do … ; done

    One JSON value a line. docs/streams.md says how to do without these commands.
    """


timeout_option = click.option("--timeout", type=duration, metavar="5s", help="How long to wait.")
rank_option = click.option(
    "--rank", type=click.IntRange(min=0), help="MPI rank; the launcher's number if absent."
)


@command.command("put", cls=PipeCommand, short_help="Put items into a stream.")
@click.argument("name")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@click.option("--npy", type=click.Path(path_type=Path, exists=True), multiple=True, help="An array to put.")
@click.option("--lines", is_flag=True, help="Each line is an item as it stands: a text, not JSON.")
@rank_option
@timeout_option
@click.pass_context
def put(
    ctx: click.Context,
    name: str,
    file: TextIO,
    npy: tuple[Path, ...],
    lines: bool,
    rank: int | None,
    timeout: float | None,
) -> int:
    """Put items into the stream NAME: each line of FILE or of standard input, a JSON value.

    Each line goes on its way as it comes, until the end of the file. With a PROGRAM, what it prints; the exit
    code is the program's. A task whose `put` failed has no result.
    Waits where the readers' buffer is full. Called again in the same task it continues after what it put
    before; a new attempt of the task puts the same items once more, and those that are known are dropped.
    """
    words = program_of(ctx)
    if lines and npy:
        raise UsageError("give only one of --lines and --npy")
    read = _texts if lines else _lines
    if words and (npy or ctx.get_parameter_source("file") is ParameterSource.COMMANDLINE):
        raise UsageError("give only one of a PROGRAM, FILE and --npy")
    producer = _producer(rank, name)
    code = 0
    try:
        if words is not None:
            with Program(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as program:
                _put_all(producer, read(program.pipe, words[0]), timeout)
                code = program.wait()
        else:
            items = _arrays(npy) if npy else read(file, getattr(file, "name", "<stdin>"))
            _put_all(producer, items, timeout)
    except BaseException:
        with contextlib.suppress(StreamError):
            producer.give_up()
        raise
    if code:
        producer.give_up()  # so that a script that ignores the code is found out
    else:
        producer.close()
    return code


def _put_all(producer: Producer, items: Iterable[Any], timeout: float | None) -> None:
    try:
        for item in items:
            producer.put(item, timeout)
    except TimeoutError as error:
        raise DielError(f"{error}: no reader made room") from error


def _lines(file: IO[str], name: str) -> Iterator[Any]:
    """Yield the values of the lines. Raise UsageError for a line that is no JSON, after those before it."""
    for number, line in enumerate(_texts(file, name), 1):
        try:
            if line.strip():
                yield read_json(line)
        except (ValueError, RecursionError) as error:
            wrong = f"{name}:{number}: expected one JSON value on each line: {error}"
            raise UsageError(f"{wrong}; `--lines` puts plain text") from error


def _texts(file: IO[str], name: str) -> Iterator[str]:
    """Yield the lines, without their ends. Raise UsageError for what is no text, after those before it."""
    read = 0
    try:
        for line in file:
            read += 1
            yield line.removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: expected text in UTF-8 after line {read}: {error}") from error


def _arrays(files: tuple[Path, ...]) -> Iterator[Any]:
    from diel.streams.item import read_npy  # only where a stream is used

    for path in files:
        try:
            yield read_npy(path)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: not an array in numpy's format: {error}") from error


@command.command("get", cls=PipeCommand, short_help="Print the items of a stream as they come.")
@click.argument("name")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many items; exit 1 if fewer come.")
@click.option("--npy", type=click.Path(path_type=Path, file_okay=False), help="Write arrays to files here.")
@click.option("--lines", is_flag=True, help="Print a text as it is, not as JSON.")
@rank_option
@timeout_option
@click.pass_context
def get(
    ctx: click.Context,
    name: str,
    count: int | None,
    npy: Path | None,
    lines: bool,
    rank: int | None,
    timeout: float | None,
) -> int:
    """Print the items of the stream NAME as they come, one JSON value on each line, until it ends.

    With a PROGRAM, hands them to its standard input; the exit code is the program's. Exit code 4 where the
    stream is broken: it lacks items, because a task that puts into it
    failed; this task then has no result.
    Called again in the same task it continues after what it printed before. An array is printed as {"dtype",
    "shape", "data"}, bytes as {"base64"}. With --npy an item that is an array goes to a file of its own, and
    its path is printed.
    """
    words = program_of(ctx)
    signal.signal(signal.SIGTERM, _leave)
    consumer = _consumer(rank, name, most=count or 4096, leaves=True)
    show = partial(_print, consumer, count, partial(_shown, npy, lines), timeout)
    try:
        return show(sys.stdout) if words is None else _feed(consumer, words, show)
    finally:
        consumer.close()


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process cleanly, so that the broker knows how far it read."""
    raise SystemExit(128 + number)


def _feed(consumer: Consumer, words: tuple[str, ...], show: Callable[[IO[str]], int]) -> int:
    """Hand items to a program until it or the stream ends; return its exit code."""
    short = 0
    with Program(words, stdin=subprocess.PIPE, stdout=None) as program:
        program.when_ended(consumer.close)
        try:
            short = show(program.pipe)
        except BrokenPipeError:
            pass  # it wants no more items
        except StreamError as error:
            if isinstance(error, StreamBroken) or program.process.poll() is None:
                raise
        return program.wait() or short


def _print(
    consumer: Consumer,
    count: int | None,
    shown: Callable[[int, Any], str],
    timeout: float | None,
    out: IO[str],
) -> int:
    for _ in repeat(None) if count is None else range(count):
        try:
            number, item = consumer.number, consumer.get(timeout)
        except StreamEnd:
            return 0 if count is None else 1
        except TimeoutError as error:
            raise DielError(str(error)) from error
        out.write(shown(number, item) + "\n")
        out.flush()  # the next program waits for it
    return 0


def _shown(npy: Path | None, plain: bool, number: int, item: Any) -> str:
    if npy is not None and hasattr(item, "dtype"):
        from diel.streams.item import write_npy  # only where a stream is used

        npy.mkdir(parents=True, exist_ok=True)
        path = npy / f"{number:08d}.npy"
        write_npy(path, item)
        item = str(path)
    return item if plain and isinstance(item, str) else json.dumps(_as_json(item), ensure_ascii=False)


def _as_json(item: Any) -> Any:
    if isinstance(item, bytes):
        return {"base64": base64.b64encode(item).decode()}
    if isinstance(item, dict):
        return {key: _as_json(value) for key, value in item.items()}
    if isinstance(item, list):
        return [_as_json(value) for value in item]
    if hasattr(item, "dtype"):
        return {"dtype": item.dtype.str, "shape": item.shape, "data": item.tolist()}
    return item


@command.command("commit", short_help="Mark the items got so far as done.")
@click.argument("name")
@rank_option
def commit(name: str, rank: int | None) -> None:
    """Mark the items got from the stream NAME so far as done: a new attempt continues after them."""
    _consumer(rank, name).commit()


@command.command("operate", short_help="Do many operations in one process.")
@rank_option
def operate(rank: int | None) -> int:
    """Stay, and do one operation for each line of standard input; print an answer line for each.

    \b
        {"do": "put", "stream": "samples", "item": 3}     {"done": true}
        {"do": "get", "stream": "orders", "timeout": 5}   {"item": …}, {"end": true}, {"timeout": true}
        {"do": "commit", "stream": "orders"}              {"done": true}
        {"do": "put", "key": ["edge", 3], "value": 1.5}   {"done": true}
        {"do": "take", "key": ["edge", null]}             {"key": ["edge", 3], "value": 1.5}

    One process for a whole task, where a call of its own for each operation takes a tenth of a second.
    An operation that cannot be done is answered with {"error": WHY}; the exit code is 1 then, and the task
    has no result if it puts into a stream.
    """
    signal.signal(signal.SIGTERM, _leave)
    consumer, space = partial(_consumer, rank, leaves=True), partial(_space, rank)
    return Operations(put=partial(_producer, rank), get=consumer, space=space).serve(sys.stdin, _tell)


def _tell(answer: dict[str, Any]) -> None:
    click.echo(json.dumps(_as_json(answer), ensure_ascii=False))


@command.group("space", short_help="Put, read and take tuples.")
def space() -> None:
    """Put, read and take tuples: a KEY is a JSON list, in which null matches anything."""


@space.command("put", short_help="Add a tuple.")
@click.argument("key")
@click.argument("value")
@rank_option
def put_tuple(key: str, value: str, rank: int | None) -> None:
    """Add a tuple with a KEY ('["edge", 3]') and a VALUE (JSON, `-` for standard input)."""
    text = sys.stdin.read() if value == "-" else value
    _space(rank).put(_json("KEY", key), _json("VALUE", text))


@space.command("read", short_help="Print the oldest tuple that matches.")
@click.argument("pattern")
@rank_option
@timeout_option
def read_tuple(pattern: str, rank: int | None, timeout: float | None) -> None:
    """Print the oldest tuple that matches, as {"key", "value"}; wait until there is one."""
    _print_tuple("read", pattern, rank, timeout)


@space.command("take")
@click.argument("pattern")
@rank_option
@timeout_option
def take_tuple(pattern: str, rank: int | None, timeout: float | None) -> None:
    """Like read, but remove the tuple, so that nobody else gets it."""
    _print_tuple("take", pattern, rank, timeout)


def _print_tuple(how: str, pattern: str, rank: int | None, timeout: float | None) -> None:
    try:
        key, value = getattr(_space(rank), how)(_json("PATTERN", pattern), timeout)
    except TimeoutError as error:
        raise DielError(str(error)) from error
    _tell({"key": key, "value": value})


def _json(what: str, text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what}: expected JSON, found {text!r} ({error})") from error


def _space(rank: int | None) -> TupleSpace:
    several = bool(os.environ.get("DIEL_RANKED")) and (launched(RANKS) or 1) > 1
    member = _ranked(_variable("DIEL_TASK_ID"), rank, several)
    return _connect().space(member, int(_variable("DIEL_ATTEMPT")))


def _connect() -> Connection:
    from diel.streams.client import connect  # it loads ZeroMQ: only where a stream is used

    return connect(Path(_variable("DIEL_RUN_DIR")))


def _variable(name: str) -> str:
    """Return a variable of the task's environment. Raise UsageError outside a task."""
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"`diel stream` works inside the command of a task: {name} is not set here")
    return value


def _end(name: str, role: str, rank: int | None) -> tuple[End, str]:
    """Return the task's end of a stream, and its member. Raise UsageError if that end is not the task's."""
    text = _variable("DIEL_STREAMS")
    try:
        ends: dict[str, End] = json.loads(text)
        roles = {end_name: str(end["role"]) for end_name, end in ends.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"DIEL_STREAMS holds no streams: {error!r}") from error
    if name not in ends:
        hint = did_you_mean(name, ends) or f"the streams of this task: {', '.join(ends) or 'none'}"
        raise UsageError(f"this task has no stream '{name}'; {hint}")
    if roles[name] != role:
        meant = "an input: `diel stream get`" if role == "put" else "an output: `diel stream put`"
        raise UsageError(f"stream '{name}' of this task is {meant} it")
    end = ends[name]
    return end, _ranked(str(end["member"]), rank, int(end.get("ranks", 1)) > 1)


def _producer(rank: int | None, name: str) -> Producer:
    end, member = _end(name, "put", rank)
    return _connect().producer(end["channel"], member, end["attempt"], go_on=True)


def _consumer(rank: int | None, name: str, **how: Any) -> Consumer:
    end, member = _end(name, "get", rank)
    return _connect().consumer(end["channel"], end["group"], member, end["attempt"], **how)


def _ranked(member: str, rank: int | None, several: bool) -> str:
    """Return the member for a rank. Raise UsageError if there are several ranks and none is given."""
    if rank is None and several:
        rank = from_launcher("rank", RANK)
    return member if rank is None else f"{member}.{rank}"


_NEEDS = {
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
        request = read_json(line)
        fits = any(request.keys() - {"do", "timeout"} == needs for needs in _NEEDS[request["do"]])
        seconds = request.get("timeout")
        fits = fits and (seconds is None or (isinstance(seconds, int | float) and seconds >= 0))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{line.strip()[:200]}: {error}; {_EXPECTED}") from error
    except (AttributeError, KeyError, TypeError):
        fits = False
    if not fits:
        raise UsageError(f'{_EXPECTED}, and for a time limit "timeout": SECONDS; found {line.strip()[:200]}')
    return cast("Mapping[str, Any]", request)
