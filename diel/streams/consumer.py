"""The getting end of a stream."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from diel.errors import StreamBroken, StreamEnd, StreamError
from diel.streams.item import decode, mapped
from diel.streams.protocol import Header, cut
from diel.streams.wire import TURN, Wire

MOST = 4096
"""Items asked for at once at most."""
SPAN = 0.02
"""Seconds of work to fetch at once: what one reader holds, another of its group cannot get."""


class Consumer:
    """Gets the items of a channel that fall to one member of a group.

    A new attempt of the member gets again, in the same order, what the one before got since its last
    `commit`, and then goes on. Arrays are read-only: views of what came, or of the file that a large one
    stands in.
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
        self._got: int = answer["at"]
        self._asked_from = self._got
        self._asking: int | None = None
        self._share, self._used = 1, 0
        self._since = time.monotonic()
        self._ended = self._closed = False
        self._error: StreamError | None = None

    @property
    def number(self) -> int:
        """How many items this member got so far, those of earlier attempts that it got again counted once."""
        return self._got

    def get(self, timeout: float | None = None) -> Any:
        """The next item, waiting for it.

        Raises TimeoutError after `timeout` seconds, StreamEnd where the stream has ended and all was got,
        StreamBroken where it lacks items and all that is there was got, StreamError where another attempt
        took over, and where no broker answers.
        """
        with self._lock:
            if not self._items:
                self._wait(timeout)
            data = self._items.popleft()
            self._got += 1
            self._used += 1
            over = self._asking is not None or self._ended or self._closed or self._error
            if self._share > 1 and 2 * len(self._items) <= self._share and not over:
                self._ask()
        if data[:1] == b"r":
            return decode(mapped(self._wire.root, data))
        return decode(data)

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
            left = TURN if give_up is None else min(TURN, give_up - time.monotonic())
            if left <= 0:
                if self._asking is not None:  # others of the group get what comes next
                    self._wire.ask({"op": "forget", "of": self._asking}, b"", self._forgotten)
                raise TimeoutError(f"{self._who['channel']}: no item in {timeout:g} s")
            self._changed.wait(left)
        self._since, self._used = time.monotonic(), 0

    def _ask(self) -> None:
        """Asks for as many items as were used in the last 20 ms."""
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
        """All items to the end. Raises StreamBroken if the stream has none, and StreamError as `get` does."""
        while True:
            try:
                yield self.get()
            except StreamEnd:
                return

    def commit(self) -> None:
        """Marks all items so far as done: a new attempt of this member continues after them.

        Raises StreamError where no broker answers.
        """
        self._wire.call({"op": "commit", **self._who, "at": self._got})

    def close(self) -> None:
        """Leaves; the next consumer of this attempt, or the group, gets what was fetched and not used."""
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
            self._wire.call({"op": "seat", **self._who, "at": self._got})
