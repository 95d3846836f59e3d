"""The tuple space as the broker holds it: keys in memory, values on the disk, and the tasks that wait."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diel.streams.log import Place, RecordLog
from diel.streams.protocol import Answer, Asked, Header, PeerRequest, Refused, Serve, refuse_older

Key = tuple[Any, ...]
Operation = tuple[str, str]
"""One operation: what it is, and its key or pattern as JSON, for comparing."""


class Found(NamedTuple):
    """A tuple, and where its value stands."""

    number: int
    key: Key
    place: Place


class Owner:
    """Who puts, reads and takes: a task over its attempts, or one nameless `TupleSpace`.

    The operations of a task are kept with their answers until it commits them: a new attempt that does the
    same gets the same answers, and what it puts or takes again is not put or taken twice.
    """

    def __init__(self) -> None:
        self.attempt = 0
        self.base = 0
        """Operations that are committed."""
        self.at = 0
        """The operation that comes next in this attempt."""
        self.done: list[tuple[Operation, Found]] = []
        """Operations from `base` on, with their tuples."""

    def answer(self, number: int, asked: Operation) -> Found | None:
        """The tuple that this operation had before; None where it is new.

        Where the task now does something else, answers from there on are forgotten: what was done stays.
        """
        index = number - self.base
        if index < len(self.done):
            if self.done[index][0] == asked:
                return self.done[index][1]
            del self.done[index:]
        return None

    def record(self, number: int, asked: Operation, found: Found) -> None:
        if number - self.base > len(self.done):  # what a nameless owner read stands in no log
            self.base, self.done = number, []
        self.take_back(number)
        self.done.append((asked, found))
        self.at = number + 1

    def take_back(self, number: int) -> None:
        """This operation and those after it did not happen after all."""
        del self.done[max(0, number - self.base) :]
        self.at = number

    def forget(self, upto: int) -> None:
        del self.done[: max(0, upto - self.base)]
        self.base = max(self.base, upto)


class Tuples:
    """Tuples that are there, oldest first, and where their values stand.

    The log has one record an operation: {"do": "put", "tuple": n, "key": […], "owner": …, "number": i,
    "keep": …} with the value as its block; `take` and `read` name a tuple that was put before; `give
    back` says that its taker was gone.
    """

    def __init__(self, folder: Path) -> None:
        self.log = RecordLog(folder, "tuples")
        self.owners: dict[str, Owner] = {}
        self._next = 1
        self._there: dict[int, Found] = {}
        self._exact: dict[str, dict[int, None]] = {}
        for header, place in self.log.records():
            self._fold(header, place)

    def _fold(self, header: Header, place: Place) -> None:
        do, number = header["do"], header.get("tuple", 0)
        owner = self.owners.setdefault(header["owner"], Owner())
        match do:
            case "attempt":
                owner.attempt, owner.at = header["attempt"], owner.base
            case "commit":
                owner.forget(header["number"])
            case "give back":
                owner.take_back(header["number"])
                self._enter(Found(number, tuple(header["key"]), Place(*header["place"])))
            case "put" | "take" | "read":
                if do == "put":
                    self._enter(Found(number, tuple(header["key"]), place))
                found = self._leave(number) if do == "take" else self._there[number]
                owner.record(header["number"], (do, exact(header["key"])), found)
                if not header["keep"]:
                    owner.forget(header["number"])

    def _enter(self, found: Found) -> None:
        """Tuples stand in the order of their numbers; one that is given back goes to its old place."""
        text = exact(found.key)
        same = self._exact.setdefault(text, {})
        self._there[found.number], same[found.number] = found, None
        if found.number < self._next:
            self._there = dict(sorted(self._there.items()))
            self._exact[text] = dict(sorted(same.items()))
        self._next = max(self._next, found.number + 1)

    def _leave(self, number: int) -> Found:
        found = self._there.pop(number)
        same = self._exact[exact(found.key)]
        del same[number]
        if not same:
            del self._exact[exact(found.key)]
        return found

    def _write(self, header: Header, value: bytes = b"") -> None:
        """Raises OSError where the disk is full."""
        self._fold(header, self.log.append(header, value))

    def begin(self, name: str, attempt: int) -> Owner:
        """A new attempt begins behind what was committed."""
        owner = self.owners.setdefault(name, Owner())
        if attempt > owner.attempt:
            self._write({"do": "attempt", "owner": name, "attempt": attempt})
        return owner

    def commit(self, name: str, number: int) -> None:
        """A new attempt goes on behind what was done before this operation."""
        self._write({"do": "commit", "owner": name, "number": number})

    def give_back(self, name: str, number: int, found: Found) -> None:
        """Undoes an operation that took a tuple for a peer that is gone."""
        header: Header = {"do": "give back", "owner": name, "number": number, "tuple": found.number}
        self._write({**header, "key": list(found.key), "place": list(found.place)})

    def find(self, pattern: Sequence[Any]) -> int | None:
        """The oldest tuple that fits."""
        if None not in pattern:
            return next(iter(self._exact.get(exact(pattern), ())), None)
        return next((number for number, one in self._there.items() if fits(pattern, one.key)), None)

    def do(self, name: str, number: int, asked: Operation, request: Asked, value: bytes) -> Found | None:
        """Puts, reads or takes; None where no tuple fits.

        `request` has `key` (a pattern, except for `put`) and `keep`: whether the operation is kept for a new
        attempt. Raises OSError where the disk is full.
        """
        what, _ = asked
        found = self._next if what == "put" else self.find(request["key"])
        if found is None:
            return None
        if what == "read" and not request["keep"]:
            tuple_read = self._there[found]
            self.owners[name].record(number, asked, tuple_read)
            return tuple_read
        header: Header = {"do": what, "tuple": found, "owner": name, "number": number}
        self._write({**header, "key": request["key"], "keep": request["keep"]}, value)
        return self.owners[name].answer(number, asked)

    def facts(self) -> dict[str, int]:
        return {"tuples": len(self._there)}


def exact(key: Sequence[Any]) -> str:
    """A key as text in which equal keys are equal: 1 and 1.0 are one number."""
    plain = [int(part) if isinstance(part, float) and part.is_integer() else part for part in key]
    return json.dumps(plain, ensure_ascii=False)


def fits(pattern: Sequence[Any], key: Key) -> bool:
    """Whether a key fits a pattern, in which None stands for anything."""
    return len(pattern) == len(key) and all(
        wanted is None or (wanted == part and isinstance(wanted, bool) == isinstance(part, bool))
        for wanted, part in zip(pattern, key, strict=True)
    )


class TupleDesk:
    """Serves puts, reads and takes in the order in which they came."""

    def __init__(self, folder: Path, answer: Answer, serve: Serve) -> None:
        self.tuples = Tuples(folder)
        self._answer = answer
        self._serve = serve
        self._seeking: list[PeerRequest] = []
        """Requests that wait for a tuple, oldest first."""

    def enter(self, request: PeerRequest) -> Header:
        """A task's attempt, or a nameless owner, begins or goes on."""
        name, attempt = request.header["owner"], request.header["attempt"]
        before = self.tuples.owners.get(name, Owner()).attempt
        refuse_older(before, request.header)
        if attempt > before:  # what the attempt before still waited for is nobody's any more
            self._seeking = [one for one in self._seeking if one.header["owner"] != name]
        return {"at": self.tuples.begin(name, attempt).at}

    def do(self, request: PeerRequest) -> None:
        """One operation. Raises Refused for what is none, and where it is committed."""
        header = request.header
        what, key, name, number = header["do"], header["key"], header["owner"], int(header["number"])
        _check_key(what, key)
        owner = self._owner(header)
        asked = (what, exact(key))
        if owner.answer(number, asked) is not None:
            owner.at = number + 1
        elif number < owner.base:
            raise Refused(f"operation {number} of {name} is committed")
        elif self.tuples.do(name, number, asked, header, request.block) is None:
            others = (one for one in self._seeking if _place(one) != (name, number))
            self._seeking = [*others, request]
            return
        self._tell(request)
        if what == "put":
            self._serve_seeking(key)

    def _owner(self, header: Asked) -> Owner:
        """Whose operation it is. Raises Refused for an unknown owner, or if a later attempt has begun."""
        owner = self.tuples.owners.get(header["owner"])
        if owner is None:
            raise Refused(f"{header['owner']} has not entered the tuple space")
        refuse_older(owner.attempt, header)
        return owner

    def _tell(self, request: PeerRequest) -> None:
        """Answers; a tuple that was taken by a peer that is gone is there again."""
        header = request.header
        name, number, what = header["owner"], header["number"], header["do"]
        found = self.tuples.owners[name].answer(number, (what, exact(header["key"])))
        assert found is not None
        value = b"" if what == "put" else self.tuples.log.read(found.place)
        if not self._answer(request, {"key": list(found.key)}, value) and what == "take":
            self.tuples.give_back(name, number, found)

    def _serve_seeking(self, key: list[Any]) -> None:
        """A tuple came: those that wait for one like it get it, in the order in which they asked."""
        for one in list(self._seeking):
            pattern = one.header["key"]
            if fits(pattern, tuple(key)) and self.tuples.find(pattern) is not None:
                self._seeking.remove(one)
                self._serve(one)

    def commit(self, request: PeerRequest) -> Header:
        """A new attempt does not repeat what its owner did so far."""
        self._owner(request.header)
        self.tuples.commit(request.header["owner"], request.header["number"])
        return {}

    def forget(self, request: PeerRequest) -> bool:
        """Takes a request back that still waits; whether there was one."""
        left = [one for one in self._seeking if not one.is_meant(request)]
        forgotten = len(left) < len(self._seeking)
        self._seeking = left
        return forgotten


def _place(request: PeerRequest) -> tuple[str, int]:
    return request.header["owner"], request.header["number"]


def _check_key(what: str, key: Any) -> None:
    """Raises Refused for what is no key or pattern."""
    if what not in ("put", "read", "take"):
        raise Refused(f"no operation '{what}' on the tuple space; expected put, read or take")
    scalars = isinstance(key, list) and all(isinstance(part, str | int | float | None) for part in key)
    if not key or not scalars or (what == "put" and None in key):
        raise Refused(f"{key!r} is no key: expected a list of texts, numbers and booleans")
