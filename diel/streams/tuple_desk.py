"""What the broker does with requests on the tuple space, and who waits for a tuple."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.streams.message import Header
from diel.streams.request import Answer, Refused, Request, Serve, refuse_older
from diel.streams.tuples import Asked, Owner, Tuples, exact, fits


class TupleDesk:
    """Serves puts, reads and takes in the order of asking."""

    def __init__(self, folder: Path, answer: Answer, serve: Serve) -> None:
        self.tuples = Tuples(folder)
        self._answer = answer
        self._serve = serve
        self._seeking: list[Request] = []
        """Who waits for a tuple, in the order of asking."""

    def enter(self, request: Request) -> Header:
        """A task's attempt, or a nameless owner, begins or goes on."""
        name, attempt = request.header["owner"], request.header["attempt"]
        before = self.tuples.owners.get(name, Owner()).attempt
        refuse_older(before, request.header)
        if attempt > before:  # what the attempt before still waited for is nobody's any more
            self._seeking = [one for one in self._seeking if one.header["owner"] != name]
        return {"at": self.tuples.begin(name, attempt).at}

    def do(self, request: Request) -> None:
        """One operation. Raises Refused for what is none, and where it is committed."""
        header = request.header
        what, key, name, number = header["do"], header["key"], header["owner"], int(header["number"])
        _check_key(what, key)
        owner = self._owner(header)
        asked = Asked(what, exact(key))
        if owner.answer(number, asked) is not None:
            owner.at = number + 1
        elif number < owner.base:
            raise Refused(f"operation {number} of {name} is committed")
        elif self.tuples.do(name, number, asked, header, request.block) is None:
            place = (name, number)
            self._seeking = [one for one in self._seeking if _place(one) != place]
            self._seeking.append(request)
            return
        self._tell(request)
        if what == "put":
            self._serve_seeking(key)

    def _owner(self, header: Header) -> Owner:
        """Whose operation it is. Raises Refused where nobody entered so, or a later attempt did."""
        owner = self.tuples.owners.get(header["owner"])
        if owner is None:
            raise Refused(f"{header['owner']} has not entered the tuple space")
        refuse_older(owner.attempt, header)
        return owner

    def _tell(self, request: Request) -> None:
        """Answers; a tuple that was taken by somebody who is gone is there again."""
        header = request.header
        name, number, what = header["owner"], header["number"], header["do"]
        found = self.tuples.owners[name].answer(number, Asked(what, exact(header["key"])))
        assert found is not None
        value = b"" if what == "put" else self.tuples.value(found)
        if not self._answer(request, {"key": list(found.key)}, value) and what == "take":
            self.tuples.give_back(name, number, found)

    def _serve_seeking(self, key: list[Any]) -> None:
        """A tuple came: whoever waits for one like it gets it, in the order of asking."""
        for one in list(self._seeking):
            pattern = one.header["key"]
            if fits(pattern, tuple(key)) and self.tuples.find(pattern) is not None:
                self._seeking.remove(one)
                self._serve(one)

    def commit(self, request: Request) -> Header:
        self._owner(request.header)
        self.tuples.commit(request.header["owner"], request.header["number"])
        return {}

    def forget(self, request: Request) -> bool:
        """Takes a request back that still waits; whether there was one."""
        left = [one for one in self._seeking if not one.is_meant(request)]
        forgotten = len(left) < len(self._seeking)
        self._seeking = left
        return forgotten


def _place(request: Request) -> tuple[str, int]:
    return request.header["owner"], request.header["number"]


def _check_key(what: str, key: Any) -> None:
    """Raises Refused for what is no key or pattern."""
    if what not in ("put", "read", "take"):
        raise Refused(f"no operation '{what}' on the tuple space; expected put, read or take")
    scalars = (
        isinstance(key, list) and key and all(isinstance(part, str | int | float | None) for part in key)
    )
    if not scalars or (what == "put" and None in key):
        raise Refused(f"{key!r} is no key: expected a list of texts, numbers and booleans")
