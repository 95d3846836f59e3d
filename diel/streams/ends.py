"""The two ends of a stream: for putting items, and for getting them."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from diel.base.errors import StreamBroken, StreamEnd, StreamError, counted
from diel.streams.item import LARGE, Buffer, ItemWriter, decode, encode, mapped
from diel.streams.protocol import Header, cut
from diel.streams.wire import TURN, Wire

LINGER = 0.001
"""Seconds to gather items while others are under way; the first never waits."""
BATCH_ITEMS = 4096
BATCH_BYTES = 256 * 1024
AHEAD_BYTES = 8 * 1024 * 1024
"""Bytes of items that may wait here to be sent."""
MOST = 4096
"""Items asked for at once at most."""
SPAN = 0.02
"""Seconds of work to fetch at once: what one reader holds, another of its group cannot get."""


class Producer:
    """Puts items into a channel, as one member's attempt.

    `put` returns once the item is on its way; `flush` once the broker has all of them on the disk. A new
    attempt of a member puts the same items again from the first: known ones are dropped.
    """

    def __init__(self, wire: Wire, channel: str, member: str, attempt: int, go_on: bool) -> None:
        self._wire = wire
        self._who: Header = {"channel": channel, "member": member, "attempt": attempt}
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._files: set[str] = set()
        self._held = 0
        self._sent_at = 0.0
        self._under_way = 0
        self._due = self._wanted = self._want_asked = self._closed = False
        self._error: StreamError | None = None
        answer = wire.call({"op": "produce", **self._who})
        self._segments = ItemWriter(wire.root, answer["folder"])
        self.count: int = answer["count"]
        """Items of this member that earlier attempts put."""
        self._known = self._sent = self.count
        self._limit: int = answer["limit"]
        self.next: int = answer["at"] if go_on else 0
        """The number of the item that is put next."""

    def resume(self) -> int:
        """Continue after the known items, for a module that continues from a checkpoint; return `count`."""
        with self._turn:
            self.next = max(self.next, self.count)
        return self.count

    def put(self, item: Any, timeout: float | None = None) -> None:
        """Put an item; wait while the slowest group of readers has a full buffer before it. Raise
        TimeoutError after `timeout` seconds of that, and StreamError for what is no item, where the stream is
        closed or another attempt took over, and where no broker answers."""
        with self._turn:
            if self.next < self.count:
                self.next += 1
                return
            if self.next >= self._limit or self._error or self._pending_bytes > AHEAD_BYTES or self._closed:
                self._wait_for_room(timeout)
            parts = encode(item)
            data = parts[0] if len(parts) == 1 else b""
            if not data or len(data) >= LARGE:
                data = self._whole(parts)
            with self._lock:
                self._pending.append(data)
                self._pending_bytes += len(data)
                self.next += 1
                wake = not self._due
                self._due = True
            if wake:
                self._wire.due(self._pump)

    def _whole(self, parts: list[Buffer]) -> bytes:
        """Return an item of several parts in one, or the placeholder of a large one."""
        size = sum(map(len, parts))
        if size < LARGE:
            return b"".join(parts)
        data, name = self._segments.append(parts, size)
        with self._lock:
            self._files.add(name)
            self._held += size
        return data

    def _wait_for_room(self, timeout: float | None) -> None:
        give_up = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self.next >= self._limit or self._pending_bytes > AHEAD_BYTES:
                self._refuse()
                if self.next >= self._limit and not self._wanted:  # asked once all that was put is sent
                    self._wanted, self._want_asked = True, False
                    self._wire.due(self._pump)
                remaining = TURN if give_up is None else min(TURN, give_up - time.monotonic())
                if remaining <= 0:
                    raise TimeoutError(f"{self._who['channel']}: no room for an item in {timeout:g} s")
                self._changed.wait(remaining)
            self._refuse()

    def _refuse(self) -> None:
        if self._closed:
            raise StreamError(f"{self._who['channel']}: this producer was closed")
        if self._error:
            raise self._error
        self._wire.check()

    def _granted(self, answer: Header, block: bytes) -> None:
        with self._changed:
            self._wanted = False
            self._take(answer)

    def _take(self, answer: Header) -> None:
        if "error" in answer:
            self._error = StreamError(answer["error"])
        else:
            self._limit = answer["limit"]
        self._changed.notify_all()

    def _pump(self, now: float) -> bool:
        """Send the gathered items: at once if nothing is under way, else after the linger or a full batch."""
        with self._changed:
            while self._pending:
                full = len(self._pending) >= BATCH_ITEMS or self._pending_bytes >= BATCH_BYTES
                if self._under_way >= 8:
                    break
                if self._under_way and not full and now - self._sent_at < LINGER:
                    return True
                self._send(now)
            self._due = bool(self._pending)
            if self._wanted and not self._want_asked and not self._pending:
                self._want_asked = True
                self._wire.ask({"op": "want", **self._who, "above": self.next}, b"", self._granted)
            return False

    def _send(self, now: float) -> None:
        batch, self._pending = self._pending[:BATCH_ITEMS], self._pending[BATCH_ITEMS:]
        header: Header = {
            "op": "put",
            **self._who,
            "first": self._sent,
            "sizes": [len(item) for item in batch],
        }
        if self._files:
            header |= {"files": sorted(self._files), "held": self._held}
            self._files, self._held = (set(), 0) if not self._pending else (self._files, 0)
        block = b"".join(batch)
        self._pending_bytes -= len(block)
        self._sent += len(batch)
        self._sent_at = now
        self._under_way += 1
        self._wire.ask(header, block, self._acknowledged)

    def _acknowledged(self, answer: Header, block: bytes) -> None:
        with self._changed:
            self._under_way -= 1
            self._known = max(self._known, answer.get("count", 0))
            self._take(answer)
            if self._pending:
                self._due = True
                self._wire.due(self._pump)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was put is on the disk. Raise TimeoutError and StreamError."""
        give_up = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self._known < max(self.next, self.count):
                if self._error:
                    raise self._error
                self._wire.check()
                remaining = TURN if give_up is None else min(TURN, give_up - time.monotonic())
                if remaining <= 0:
                    missing = self.next - self._known
                    raise TimeoutError(
                        f"{self._who['channel']}: {counted(missing, 'item')} not yet out in {timeout:g} s"
                    )
                self._changed.wait(remaining)

    def give_up(self) -> None:
        """As `close`, before everything was put: the task fails, unless another process of it puts more."""
        self.close(failed=True)

    def close(self, *, failed: bool = False) -> None:
        """Flush and leaves, having put everything: the others get this producer's share of the buffer."""
        if self._closed:
            return
        try:
            self.flush()
            self._closed = True
            self._wire.call({"op": "place", **self._who, "at": self.next})
            self._wire.call({"op": "part", **self._who, "failed": failed})
        finally:
            self._segments.close()


class Consumer:
    """Gets the items of a channel that fall to one member of a group.

    A new attempt of the member gets again, in the same order, what the one before got since its last
    `commit`, and then goes on. Arrays are read-only: views of what came, or of a file.
    """

    def __init__(
        self,
        wire: Wire,
        channel: str,
        group: str,
        member: str,
        attempt: int,
        replay: bool,
        most: int = MOST,
        leaves: bool = False,
    ) -> None:
        self._wire = wire
        self._who: Header = {"channel": channel, "group": group, "member": member, "attempt": attempt}
        answer = wire.call({"op": "consume", **self._who, "replay": replay, "leaves": leaves})
        self._most = min(most, answer["ahead"])
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._items: deque[bytes] = deque()
        self.number: int = answer["at"]
        """How many items this member got so far, those of earlier attempts that it got again counted once."""
        self._asked_from = self.number
        self._asking: int | None = None
        self._share, self._used = 1, 0
        self._since = time.monotonic()
        self._ended = self._closed = False
        self._error: StreamError | None = None

    def get(self, timeout: float | None = None) -> Any:
        """Return the next item, once there. Raise TimeoutError after `timeout` seconds, StreamEnd where the
        stream has ended and all was got, StreamBroken where it lacks items and all that is there was got,
        StreamError where another attempt took over, and where no broker answers."""
        with self._lock:
            if not self._items:
                self._wait(timeout)
            data = self._items.popleft()
            self.number += 1
            self._used += 1
            over = self._asking is not None or self._ended or self._closed or self._error
            if self._share > 1 and 2 * len(self._items) <= self._share and not over:
                self._ask()
        return decode(mapped(self._wire.root, data)) if data[:1] == b"r" else decode(data)

    def _wait(self, timeout: float | None) -> None:
        give_up = None if timeout is None else time.monotonic() + timeout
        while not self._items:
            if self._closed:
                raise StreamError(f"{self._who['channel']}: this consumer was closed")
            if self._error:
                raise self._error
            if self._ended:
                raise StreamEnd(f"{self._who['channel']}: closed, and all its items were read")
            if self._asking is None:
                self._ask()
            self._wire.check()
            remaining = TURN if give_up is None else min(TURN, give_up - time.monotonic())
            if remaining <= 0:
                if self._asking is not None:  # others of the group get what comes next
                    self._wire.ask({"op": "forget", "of": self._asking}, b"", self._forgotten)
                raise TimeoutError(f"{self._who['channel']}: no item in {timeout:g} s")
            self._changed.wait(remaining)
        self._since, self._used = time.monotonic(), 0

    def _ask(self) -> None:
        """Ask for as many items as were used in the last 20 ms."""
        if self._used:
            spent = max(time.monotonic() - self._since, 1e-6)
            self._share = max(1, min(self._most, int(SPAN * self._used / spent)))
        request = {"op": "get", **self._who, "from": self._asked_from, "most": self._share}
        self._asking = self._wire.ask(request, b"", self._arrived)

    def _forgotten(self, answer: Header, block: bytes) -> None:
        with self._changed:
            if answer.get("forgotten") and self._asking is not None:
                self._wire.drop(self._asking)
                self._asking = None
                self._changed.notify_all()

    def _arrived(self, answer: Header, block: bytes) -> None:
        with self._changed:
            self._asking = None
            if "error" in answer:
                self._error = StreamError(answer["error"])
            elif "broken" in answer:
                self._error = StreamBroken(
                    f"the stream {self._who['channel']} is broken: {answer['broken']}; it lacks items, and "
                    "this task can have no result: `diel resume` runs both again"
                )
            elif answer.get("end"):
                self._ended = True
            else:
                items = cut(block, answer["sizes"])
                self._items.extend(items)
                self._asked_from += len(items)
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Any]:
        """Yield all items to the end. Raise StreamBroken if it has none, and StreamError as `get` does."""
        with contextlib.suppress(StreamEnd):
            while True:
                yield self.get()

    def commit(self) -> None:
        """Mark all items so far as done: a new attempt continues after them. Raise StreamError."""
        self._wire.call({"op": "commit", **self._who, "at": self.number})

    def close(self) -> None:
        """Leave; the next consumer of this attempt, or the group, gets what was fetched and not used."""
        if self._closed:
            return
        with self._changed:
            self._closed = True
            self._items.clear()
            asking = self._asking
            self._changed.notify_all()
        if asking is not None:
            self._wire.call({"op": "forget", "of": asking})
            self._wire.drop(asking)
        with contextlib.suppress(StreamError):  # another attempt took over, and got it again
            self._wire.call({"op": "seat", **self._who, "at": self.number})
