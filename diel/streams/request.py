"""A request as the broker holds it, and what is answered where it cannot be granted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from diel.form import ANY, COUNT, COUNTS, LIST, TEXT, TEXTS, Form, flaw_in, is_text, list_of
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
_OPTIONAL: Form = {"held": COUNT, "files": LIST}


def flaw_of(header: Header) -> str:
    """What is wrong with the form of a request that the broker knows; empty where nothing is."""
    return flaw_in(header, FORMS.get(str(header["op"]), {}), _OPTIONAL)


class Refused(Exception):
    """A request that cannot be granted: the message is the answer."""


def refuse_older(attempt: int, header: Header) -> None:
    """Raises Refused where a later attempt than the request's has begun."""
    if header["attempt"] < attempt:
        who = header.get("member") or header.get("owner")
        raise Refused(f"{who}: attempt {header['attempt']} is over: attempt {attempt} has begun")
