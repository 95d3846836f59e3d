"""The streams and the tuple space of a run, for tasks and for the controller: `connect(run_dir)`."""

import atexit
import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeVar, cast

from diel.base.errors import ModuleError, StreamError
from diel.base.paths import RunPaths
from diel.streams.ends import MOST, Consumer, Producer
from diel.streams.item import LARGE, ItemWriter, as_python, decode, encode, mapped
from diel.streams.protocol import SILENCE, Header, read_contact
from diel.streams.wire import Wire

End = TypeVar("End", bound="Producer | Consumer | TupleSpace")

PATIENCE = SILENCE
"""Seconds that a call waits for a broker that does not answer, before StreamLost: as long as a broker waits
for a controller. Tasks in blocks outlive their controller, and the next one starts the next broker."""

Scalar = str | int | float | bool
Key = tuple[Scalar, ...]
Pattern = Sequence[Scalar | EllipsisType | None]


class TupleSpace:
    """Puts, reads and takes tuples: a key of texts, numbers and booleans, and a value as streams carry it.

    With a member, what it does is kept until `commit`: a new attempt that does the same gets the same
    answers, so that nothing is put or taken twice. One operation at a time; threads that wait take a
    `TupleSpace` each.
    """

    def __init__(self, wire: Wire, member: str | None, attempt: int) -> None:
        self._wire = wire
        self._keep = member is not None
        self._who: Header = {"owner": member or f"~{secrets.token_hex(8)}", "attempt": attempt}
        self._one = threading.Lock()
        self._number: int = wire.call({"op": "space", **self._who})["at"]
        self._segments = ItemWriter(wire.root, "space")

    def put(self, key: Sequence[Scalar], value: Any) -> None:
        """Add a tuple; others with the same key stay. Return once it is on disk. Raise StreamError for what
        is no key or value, and where no broker answers."""
        parts = encode(value)
        size = sum(map(len, parts))
        with self._one:
            data = self._segments.append(parts, size)[0] if size >= LARGE else b"".join(parts)
            self._do("put", key, data, None)

    def read(self, pattern: Pattern, timeout: float | None = None) -> tuple[Key, Any]:
        """Key and value of the oldest matching tuple, which stays; waits until there is one. None (or `...`)
        in the pattern matches anything. Raise TimeoutError after `timeout` seconds."""
        with self._one:
            return self._found(*self._do("read", pattern, b"", timeout))

    def take(self, pattern: Pattern, timeout: float | None = None) -> tuple[Key, Any]:
        """As `read`, but removes the tuple; requests are served in the order in which they came."""
        with self._one:
            return self._found(*self._do("take", pattern, b"", timeout))

    def _found(self, answer: Header, value: bytes) -> tuple[Key, Any]:
        data = mapped(self._wire.root, value) if value[:1] == b"r" else value
        return tuple(answer["key"]), decode(data)

    def _do(self, what: str, key: Pattern, value: bytes, timeout: float | None) -> tuple[Header, bytes]:
        if isinstance(key, str):
            raise StreamError(f"{key!r} is not a key of the tuple space; write it as ({key!r},)")
        plain = [None if part is ... else as_python(part) for part in key]
        request = {"op": "tuple", "do": what, **self._who, "key": plain, "keep": self._keep}
        try:
            answer = self._wire.call_within({**request, "number": self._number}, value, timeout)
        except (TypeError, ValueError) as error:  # before anything was sent
            raise StreamError(f"{key!r} is not a key of the tuple space: {error}") from error
        if answer is None:
            raise TimeoutError(f"no tuple fits {tuple(plain)!r} in {timeout:g} s")
        self._number += 1
        return answer

    def close(self) -> None:
        """Let go of its file of large values."""
        with self._one:
            self._segments.close()

    def commit(self) -> None:
        """Continue after what was done so far: a new attempt does not repeat it."""
        with self._one:
            self._wire.call({"op": "space_commit", **self._who, "number": self._number})


class Connection:
    """One process's connection to a run's broker; several threads can use it."""

    def __init__(self, run_dir: Path, patience: float = PATIENCE) -> None:
        self._wire = Wire(RunPaths(run_dir).streams, patience)
        self._lock = threading.Lock()
        self._ends: dict[tuple[str | int, ...], Producer | Consumer | TupleSpace] = {}
        """By what they are, the member and its attempt last."""

    def producer(self, channel: str, member: str, attempt: int, *, go_on: bool = False) -> Producer:
        """Return the member's end for putting, the same one each time; waits until the channel is open. With
        `go_on`, an attempt that consists of several processes puts where the one before stopped."""
        make = partial(Producer, self._wire, channel, member, attempt, go_on)
        return self._one(("put", channel, member, attempt), make)

    def consumer(
        self,
        channel: str,
        group: str,
        member: str,
        attempt: int,
        replay: bool = True,
        *,
        most: int = MOST,
        leaves: bool = False,
    ) -> Consumer:
        """Return the member's end for getting, the same each time, once the channel is open. A group that
        `open` did not name joins here, and holds nobody up. Without `replay`, one that has got nothing yet
        begins with what is put from now on. `most` bounds how many items are asked for ahead. One that
        `leaves` is closed by its process: where it is not, its task has no result."""
        make = partial(Consumer, self._wire, channel, group, member, attempt, replay, most, leaves)
        return self._one(("get", channel, group, member, attempt), make)

    def _one(self, key: tuple[str | int, ...], make: Callable[[], End]) -> End:
        """Return the end of this key, made outside the lock, as that may wait. The first one made counts."""
        end = self._ends.get(key)
        if end is None:
            new = make()
            with self._lock:
                end = self._ends.setdefault(key, new)
        return cast("End", end)

    def leave(self, member: str, attempt: int) -> None:
        """Close what an attempt of a member held: its producers are flushed, its consumers left. Raise
        StreamError where what it put could not be put after all."""
        with self._lock:
            keys = [key for key in self._ends if key[-2:] == (member, attempt)]
            ends = [self._ends.pop(key) for key in keys]
        with contextlib.ExitStack() as stack:  # one that cannot be closed does not keep the others open
            for end in ends:
                stack.callback(end.close)

    def flaw(
        self, end: Mapping[str, Any], member: str, attempt: int, *, goes_on: bool = False
    ) -> tuple[str, str]:
        """Say why an attempt of a task did not read, or put, all. Return the class of that failure and the
        reason, or two empty texts. `end` is what the task knows of the stream, and `member` the task;
        `goes_on` if it continued from a checkpoint. Raise StreamError if another attempt took over, and if no
        broker answers."""
        request: Header = {"op": "flaw", "channel": end["channel"], "member": member, "attempt": attempt}
        request |= {"group": end["group"]} if end["role"] == "get" else {"goes_on": goes_on}
        answer = self._wire.call(request)
        return answer["class"], answer["flaw"]

    def space(self, member: str | None = None, attempt: int = 1) -> TupleSpace:
        """Return the tuple space, with a member the same `TupleSpace` each time. A new attempt gets the same
        answers to the same operations, until they are committed."""
        if member is None:
            return TupleSpace(self._wire, None, attempt)
        return self._one(("space", member, attempt), partial(TupleSpace, self._wire, member, attempt))

    def open(
        self, channel: str, *, buffer: int = 1000, replay: bool = True, groups: Mapping[str, Sequence[str]]
    ) -> None:
        """Open a channel, or add groups and members to one: before that, nobody can put or get. `buffer`:
        items that may wait for the slowest group. Without `replay`, items that all groups have committed go
        from the disk. One that was closed or broken is open again."""
        readers = {group: list(members) for group, members in groups.items()}
        how = {"buffer": buffer, "replay": replay, "groups": readers}
        self._wire.call({"op": "open", "channel": channel, **how})

    def close(self, channel: str) -> None:
        """No producer will put any more: readers get the end after the last item."""
        self._wire.call({"op": "close", "channel": channel})

    def break_off(self, channel: str, groups: Iterable[str], why: str) -> None:
        """Break these groups' streams after a producer failed: they get what is there, then StreamBroken."""
        self._wire.call({"op": "break", "channel": channel, "groups": list(groups), "why": why})

    def settle(self, channel: str, group: str, member: str, good: bool) -> None:
        """End a member for good: what it got is committed, or (not `good`) goes to the others."""
        self._wire.call({"op": "settle", "channel": channel, "group": group, "member": member, "good": good})

    def facts(self) -> dict[str, Any]:
        """Return the state of each channel.

        `{channel: {"items", "bytes", "closed", "broken", "buffer", "producers": {member: items},
        "groups": {group: {"delivered", "committed", "waiting", "settled"}}}}`.
        """
        channels: dict[str, Any] = self._wire.call({"op": "facts"})["channels"]
        return channels

    def tell_facts(self, done: Callable[[dict[str, Any]], None]) -> None:
        """As `facts`, without waiting: calls `done` in the wire's thread once the broker answers."""
        self._wire.ask({"op": "facts"}, b"", lambda answer, block: done(answer["channels"]))

    def stop(self) -> None:
        """End the broker; what is on disk stays. Raise StreamError where there is none."""
        ended = threading.Event()
        number = self._wire.ask({"op": "stop"}, b"", lambda header, block: ended.set())
        contact = self._wire.contact
        while not ended.wait(0.1):
            self._wire.check()
            contact = contact or self._wire.contact
            if contact is not None and read_contact(self._wire.root) != contact:
                break
        self._wire.drop(number)

    def disconnect(self) -> None:
        """Let go of the broker. Producers that were not closed lose what was not sent."""
        self._wire.close()
        for end in self._ends.values():
            if isinstance(end, TupleSpace):
                end.close()
        with _lock:
            for key in [key for key, connection in _connections.items() if connection is self]:
                del _connections[key]


_connections: dict[tuple[int, Path], Connection] = {}
_lock = threading.Lock()


def connect(run_dir: Path, patience: float = PATIENCE) -> Connection:
    """Return the connection of this process to a run's streams: one for each process, made on first use. A
    forked child gets one of its own. Nothing is sent before it is used; it need not be there yet."""
    key = (os.getpid(), run_dir.resolve())
    with _lock:
        connection = _connections.get(key)
        if connection is None:
            connection = _connections[key] = Connection(key[1], patience)
        return connection


def end_of(
    run_dir: Path, ends: Mapping[str, Mapping[str, str]], name: str, member: str, attempt: int
) -> Producer | Consumer:
    """Return a task's end of one of its streams. Raise ModuleError if it has none with this name."""
    if name not in ends:
        names = ", ".join(ends) or "none"
        raise ModuleError(f"the stage has no stream '{name}' among its inputs and outputs, but: {names}")
    end = ends[name]
    if end["role"] == "put":
        return connect(run_dir).producer(end["channel"], member, attempt)
    return connect(run_dir).consumer(end["channel"], end["group"], member, attempt)


@atexit.register
def _disconnect_all() -> None:
    for (pid, _), connection in list(_connections.items()):
        if pid == os.getpid():
            connection.disconnect()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
