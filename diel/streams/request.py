"""A request as the broker holds it, and what is answered where it cannot be granted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from diel.streams.message import Header


class Request(NamedTuple):
    """What a peer asks; it may be answered later."""

    peer: bytes
    header: Header
    block: bytes = b""

    def is_meant(self, forget: Request) -> bool:
        """Whether a request to forget another one means this one."""
        return self.peer == forget.peer and self.header.get("id") == forget.header["of"]


Serve = Callable[[Request], None]
"""Serves a request, now or later; it is answered too where it cannot be granted."""
Answer = Callable[[Request, Header, bytes], bool]
"""Answers a request with a header and a block; False where its peer is gone."""


class Refused(Exception):
    """A request that cannot be granted: the message is the answer."""


def refuse_older(attempt: int, header: Header) -> None:
    """Raises Refused where a later attempt than the request's has begun."""
    if header["attempt"] < attempt:
        who = header.get("member") or header.get("owner")
        raise Refused(f"{who}: attempt {header['attempt']} is over: attempt {attempt} has begun")
