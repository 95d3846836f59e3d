"""Messages between a client and the broker: a JSON object, and at most one block of bytes.

A request has `id`, counted by its client, and `op`; its answer has the same `id`, or `error` beside it.
Several items are one block with their sizes in `sizes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

Header = dict[str, Any]
VERSION = 1
"""Of the protocol; in `broker.json`."""
MAX_MESSAGE = 64 * 1024 * 1024
"""Bytes of one message at most; the broker cuts off a peer that sends more."""


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def pack(header: Header) -> bytes:
    return _encoder.encode(header).encode()


def unpack(data: bytes) -> Header:
    """Raises ValueError where it is no JSON object."""
    header = json.loads(data)
    if not isinstance(header, dict):
        raise ValueError("a message begins with a JSON object")
    return header


def cut(block: bytes, sizes: Iterable[int]) -> list[bytes]:
    """The items of a block."""
    return [block[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
