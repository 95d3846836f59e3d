"""What travels between clients and the broker of a run, and `streams/broker.json`, which says where it is.

A message is a JSON object, and at most one block of bytes. A request has `id`, counted by its client, and
`op`; its answer has the same `id`, or `error` beside it. Several items are one block with `sizes`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.form import ANY, COUNT, COUNTS, LIST, TEXT, TEXTS, Form, flaw_in, is_text, list_of
from diel.base.values import encoder

Header = dict[str, Any]
VERSION = 1
"""Of the protocol; in `broker.json`."""
MAX_MESSAGE = 64 * 1024 * 1024
"""The most bytes of one message; the broker cuts off a peer that sends more."""
SILENCE = 600.0
"""Seconds without a controller's heartbeat after which a broker ends: nobody is left to start tasks."""

_encode = encoder(ensure_ascii=False, separators=(",", ":"))


def pack(header: Mapping[str, object]) -> bytes:
    return _encode(header).encode()


def unpack(data: bytes) -> Header:
    """Return the object at the beginning of a message. Raise ValueError for anything else."""
    header = json.loads(data)
    if not isinstance(header, dict):
        raise ValueError("a message begins with a JSON object")
    return header


def cut(block: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Return the items of a block."""
    return [block[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


@dataclass(frozen=True)
class Contact:
    """One broker process. Keys are Z85 texts, as ZeroMQ writes CURVE keys; whoever has them may take part."""

    epoch: int
    """Counts the brokers of the run."""
    host: str
    pid: int
    addresses: tuple[str, ...]
    port: int
    key: str
    """The broker's public key."""
    client_key: str
    client_secret: str
    version: int = VERSION


def contact_file(root: Path) -> Path:
    return root / "broker.json"


def read_contact(root: Path) -> Contact | None:
    """Return the broker of the run; None if none has listened yet, or it ended on request."""
    try:
        with open(contact_file(root), encoding="utf-8") as file:
            fields = json.load(file)
        return Contact(**{**fields, "addresses": tuple(fields["addresses"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


class PeerRequest(NamedTuple):
    """What a peer asks of the broker, which may answer later."""

    peer: bytes
    header: Header
    block: bytes = b""

    def is_meant(self, forget: "PeerRequest") -> bool:
        """Return whether a request to forget another one means this one."""
        return self.peer == forget.peer and self.header.get("id") == forget.header["of"]


Serve = Callable[[PeerRequest], None]
"""Serves a request, now or later; a refused one is answered too."""
Answer = Callable[[PeerRequest, Header, bytes], bool]
"""Answers a request with a header and a block; False where its peer is gone."""

_WHO = {"channel": TEXT, "member": TEXT, "attempt": COUNT}
_MEMBER = {"channel": TEXT, "group": TEXT, "member": TEXT}
_READER = {**_MEMBER, "attempt": COUNT}
_OWNER = {"owner": TEXT, "attempt": COUNT}
_GROUPS = ("lists of texts by name", lambda v: isinstance(v, dict) and all(map(list_of(is_text), v.values())))
FORMS: dict[str, Form] = {
    "open": {"channel": TEXT, "buffer": COUNT, "replay": ANY, "groups": _GROUPS},
    "close": {"channel": TEXT},
    "break": {"channel": TEXT, "groups": TEXTS, "why": TEXT},
    "settle": {**_MEMBER, "good": ANY},
    "facts": {},
    "stop": {},
    "produce": _WHO,
    "put": {**_WHO, "first": COUNT, "sizes": COUNTS},
    "want": {**_WHO, "above": COUNT},
    "place": {**_WHO, "at": COUNT},
    "part": _WHO,
    "consume": _READER,
    "get": {**_READER, "from": COUNT, "most": COUNT},
    "seat": {**_READER, "at": COUNT},
    "commit": {**_READER, "at": COUNT},
    "flaw": _WHO,
    "forget": {"of": COUNT},
    "space": _OWNER,
    "tuple": {**_OWNER, "do": TEXT, "key": LIST, "number": COUNT, "keep": ANY},
    "space_commit": {**_OWNER, "number": COUNT},
}
"""What each request must have."""
_OPTIONAL: Form = {"held": COUNT, "files": LIST}


def flaw_of(header: Header) -> str:
    """Return what is wrong with the form of a request that the broker knows; empty where nothing is."""
    return flaw_in(header, FORMS[str(header["op"])], _OPTIONAL)


class RequestRefused(Exception):
    """A request that cannot be granted: the message is the answer."""


def refuse_older(attempt: int, header: Header) -> None:
    """Raise Refused if a later attempt than the request's has begun."""
    if header["attempt"] < attempt:
        who = header.get("member") or header.get("owner")
        raise RequestRefused(f"{who}: attempt {header['attempt']} is over: attempt {attempt} has begun")
