"""The tuple space: state that tasks share, found by key or pattern."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from diel.errors import StreamError
from diel.streams.item import as_python, decode, encode
from diel.streams.link import Link
from diel.streams.protocol import Header
from diel.streams.segment import LARGE, SegmentWriter, mapped

Scalar = str | int | float | bool
Key = tuple[Scalar, ...]
Pattern = Sequence[Scalar | EllipsisType | None]


class Space:
    """Puts, reads and takes tuples: a key of texts, numbers and booleans, and a value as streams carry it.

    With a member, what it does is kept until `commit`: a new attempt that does the same gets the same
    answers, so that nothing is put or taken twice. One operation at a time; threads that wait take a `Space`
    each.
    """

    def __init__(self, link: Link, member: str | None, attempt: int) -> None:
        self._link = link
        self._keep = member is not None
        self._who: Header = {"owner": member or f"~{secrets.token_hex(8)}", "attempt": attempt}
        self._one = threading.Lock()
        self._number: int = link.call({"op": "space", **self._who})["at"]
        self._segments = SegmentWriter(link.root, "space")

    def put(self, key: Sequence[Scalar], value: Any) -> None:
        """Adds a tuple; others of the same key stay. Returns once it is on the disk.

        Raises StreamError for what is no key or value, and where no broker answers.
        """
        parts = encode(value)
        size = sum(map(len, parts))
        with self._one:
            data = self._segments.append(parts, size)[0] if size >= LARGE else b"".join(parts)
            self._do("put", key, data, None)

    def read(self, pattern: Pattern, timeout: float | None = None) -> tuple[Key, Any]:
        """Key and value of the oldest tuple that fits, which stays; waits until there is one.

        None (or `...`) in the pattern stands for anything. Raises TimeoutError after `timeout` seconds.
        """
        with self._one:
            return self._found(*self._do("read", pattern, b"", timeout))

    def take(self, pattern: Pattern, timeout: float | None = None) -> tuple[Key, Any]:
        """As `read`, but removes the tuple; requests are served in the order in which they came."""
        with self._one:
            return self._found(*self._do("take", pattern, b"", timeout))

    def _found(self, answer: Header, value: bytes) -> tuple[Key, Any]:
        data = mapped(self._link.root, value) if value[:1] == b"r" else value
        return tuple(answer["key"]), decode(data)

    def _do(self, what: str, key: Pattern, value: bytes, timeout: float | None) -> tuple[Header, bytes]:
        if isinstance(key, str):
            raise StreamError(f"{key!r} is no key of the tuple space; write it as ({key!r},)")
        plain = [None if part is ... else as_python(part) for part in key]
        request = {"op": "tuple", "do": what, **self._who, "key": plain, "keep": self._keep}
        try:
            answer = self._link.call_within({**request, "number": self._number}, value, timeout)
        except (TypeError, ValueError) as error:  # before anything was sent
            raise StreamError(f"{key!r} is no key of the tuple space: {error}") from error
        if answer is None:
            raise TimeoutError(f"no tuple fits {tuple(plain)!r} in {timeout:g} s")
        self._number += 1
        return answer

    def close(self) -> None:
        """Lets go of its file of large values."""
        with self._one:
            self._segments.close()

    def commit(self) -> None:
        """A new attempt does not repeat what was done so far: it continues after it."""
        with self._one:
            self._link.call({"op": "space_commit", **self._who, "number": self._number})
