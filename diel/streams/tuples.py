"""The tuple space as the broker holds it: keys in memory, values on the disk, and the tasks that wait."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from diel.streams.log import Place, RecordLog
from diel.streams.protocol import Answer, Header, PeerRequest, RequestRefused, Serve, refuse_older

Key = tuple[Any, ...]
Operation = tuple[str, str]
"""One operation: what it is, and its key or pattern as JSON, for comparing."""


class StoredTuple(NamedTuple):
    """A tuple, and the place of its value."""

    number: int
    key: Key
    place: Place


@dataclass
class Owner:
    """Whoever puts, reads and takes: a task over its attempts, or one nameless `TupleSpace`. The operations
    of a task are kept with their answers until it commits them: a new attempt that does the same gets the
    same answers, and what it puts or takes again is not put or taken twice."""

    attempt: int = 0
    base: int = 0
    """Operations that are committed."""
    at: int = 0
    """The operation that comes next in this attempt."""
    done: list[tuple[Operation, StoredTuple]] = field(default_factory=list)
    """Operations from `base` on, with their tuples."""

    def answer(self, number: int, operation: Operation) -> StoredTuple | None:
        """Return the tuple that this operation had before; None if it is new. Where the task does something
        else, answers from there on are forgotten: what was done stays."""
        index = number - self.base
        if index < len(self.done):
            if self.done[index][0] == operation:
                return self.done[index][1]
            del self.done[index:]
        return None

    def record(self, number: int, operation: Operation, answer: StoredTuple) -> None:
        if number - self.base > len(self.done):  # what a nameless owner read is in no log
            self.base, self.done = number, []
        self.take_back(number)
        self.done.append((operation, answer))
        self.at = number + 1

    def take_back(self, number: int) -> None:
        """Undo this operation and those after it."""
        del self.done[max(0, number - self.base) :]
        self.at = number

    def forget(self, upto: int) -> None:
        del self.done[: max(0, upto - self.base)]
        self.base = max(self.base, upto)


class Tuples:
    """Tuples that are there, oldest first; serves puts, reads and takes in the order in which they came. The
    log has one record an operation: {"do": "put", "tuple": n, "key": […], "owner": …, "number": i, "keep": …}
    with the value as its block; `take` and `read` name a tuple that was put before; `give back` says that its
    taker was gone."""

    def __init__(self, folder: Path, answer: Answer, serve: Serve) -> None:
        self.log = RecordLog(folder, "tuples")
        self._answer = answer
        self._serve = serve
        self._owners: dict[str, Owner] = {}
        self._next = 1
        self._there: dict[int, StoredTuple] = {}
        self._exact: dict[str, dict[int, None]] = {}
        self._seeking: list[PeerRequest] = []
        """Requests that wait for a tuple, oldest first."""
        for header, place in self.log.records():
            self._fold(header, place)

    def __len__(self) -> int:
        return len(self._there)

    def _fold(self, header: Header, place: Place) -> None:
        do, number = header["do"], header.get("tuple", 0)
        owner = self._owners.setdefault(header["owner"], Owner())
        match do:
            case "attempt":
                owner.attempt, owner.at = header["attempt"], owner.base
            case "commit":
                owner.forget(header["number"])
            case "give back":
                owner.take_back(header["number"])
                self._enter(StoredTuple(number, tuple(header["key"]), Place(*header["place"])))
            case "put" | "take" | "read":
                if do == "put":
                    self._enter(StoredTuple(number, tuple(header["key"]), place))
                answer = self._leave(number) if do == "take" else self._there[number]
                owner.record(header["number"], (do, exact(header["key"])), answer)
                if not header["keep"]:
                    owner.forget(header["number"])

    def _enter(self, entry: StoredTuple) -> None:
        """Tuples stand in the order of their numbers; one that is given back goes to its old place."""
        text = exact(entry.key)
        same = self._exact.setdefault(text, {})
        self._there[entry.number], same[entry.number] = entry, None
        if entry.number < self._next:
            self._there = dict(sorted(self._there.items()))
            self._exact[text] = dict(sorted(same.items()))
        self._next = max(self._next, entry.number + 1)

    def _leave(self, number: int) -> StoredTuple:
        entry = self._there.pop(number)
        same = self._exact[exact(entry.key)]
        del same[number]
        if not same:
            del self._exact[exact(entry.key)]
        return entry

    def _write(self, header: Header, value: bytes = b"") -> None:
        """Write it. Raise OSError if the disk is full."""
        self._fold(header, self.log.append(header, value))

    def _find(self, pattern: Sequence[Any]) -> int | None:
        """Return the oldest matching tuple."""
        if None not in pattern:
            return next(iter(self._exact.get(exact(pattern), ())), None)
        return next((number for number, entry in self._there.items() if fits(pattern, entry.key)), None)

    def enter(self, request: PeerRequest) -> Header:
        """Return a task's attempt, or a nameless owner, begins behind what was committed, or goes on."""
        name, attempt = request.header["owner"], request.header["attempt"]
        owner = self._owners.setdefault(name, Owner())
        refuse_older(owner.attempt, request.header)
        if attempt > owner.attempt:  # nobody wants what the previous attempt still waited for
            self._seeking = [seeker for seeker in self._seeking if seeker.header["owner"] != name]
            self._write({"do": "attempt", "owner": name, "attempt": attempt})
        return {"at": owner.at}

    def do(self, request: PeerRequest) -> None:
        """One operation, kept for a new attempt if it says `keep`. Raise Refused for what is none, and where
        it is committed; OSError where the disk is full."""
        header = request.header
        what, key, name, number = header["do"], header["key"], header["owner"], int(header["number"])
        _check_key(what, key)
        owner = self._owner(header)
        operation = (what, exact(key))
        if owner.answer(number, operation) is not None:
            owner.at = number + 1
        elif number < owner.base:
            raise RequestRefused(f"operation {number} of {name} is committed")
        elif (found := self._next if what == "put" else self._find(key)) is None:
            place = itemgetter("owner", "number")
            seekers = (seeker for seeker in self._seeking if place(seeker.header) != place(header))
            self._seeking = [*seekers, request]
            return
        elif what == "read" and not header["keep"]:
            owner.record(number, operation, self._there[found])
        else:
            record: Header = {"do": what, "tuple": found, "owner": name, "number": number}
            self._write({**record, "key": key, "keep": header["keep"]}, request.block)
        self._tell(request, owner, operation)
        if what == "put":
            self._serve_seeking(key)

    def _owner(self, header: Header) -> Owner:
        """Whose operation it is. Raise Refused for an unknown owner, or if a later attempt has begun."""
        owner = self._owners.get(header["owner"])
        if owner is None:
            raise RequestRefused(f"{header['owner']} has not entered the tuple space")
        refuse_older(owner.attempt, header)
        return owner

    def _tell(self, request: PeerRequest, owner: Owner, operation: Operation) -> None:
        """Answer; a tuple that was taken by a peer that is gone is there again."""
        name, number, what = request.header["owner"], request.header["number"], request.header["do"]
        answer = owner.answer(number, operation)
        assert answer is not None
        value = b"" if what == "put" else self.log.read(answer.place)
        if not self._answer(request, {"key": list(answer.key)}, value) and what == "take":
            back: Header = {"do": "give back", "owner": name, "number": number, "tuple": answer.number}
            self._write({**back, "key": list(answer.key), "place": list(answer.place)})

    def _serve_seeking(self, key: list[Any]) -> None:
        """Give a tuple that came to those that wait for one like it, in order of their requests."""
        for seeker in list(self._seeking):
            pattern = seeker.header["key"]
            if fits(pattern, tuple(key)) and self._find(pattern) is not None:
                self._seeking.remove(seeker)
                self._serve(seeker)

    def commit(self, request: PeerRequest) -> Header:
        """Return a new attempt does not repeat what its owner did so far."""
        header = request.header
        self._owner(header)
        self._write({"do": "commit", "owner": header["owner"], "number": header["number"]})
        return {}

    def forget(self, request: PeerRequest) -> bool:
        """Withdraw a waiting request; return whether there was one."""
        before = len(self._seeking)
        self._seeking = [seeker for seeker in self._seeking if not seeker.is_meant(request)]
        return len(self._seeking) < before


def exact(key: Sequence[Any]) -> str:
    """Return a key as text in which equal keys are equal: 1 and 1.0 are one number."""
    plain = [int(part) if isinstance(part, float) and part.is_integer() else part for part in key]
    return json.dumps(plain, ensure_ascii=False)


def fits(pattern: Sequence[Any], key: Key) -> bool:
    """Return whether a key matches a pattern, in which None matches anything."""
    return len(pattern) == len(key) and all(
        expected is None or (expected == part and isinstance(expected, bool) == isinstance(part, bool))
        for expected, part in zip(pattern, key, strict=True)
    )


def _check_key(what: str, key: Any) -> None:
    """Raise Refused for what is not a key or pattern."""
    if what not in ("put", "read", "take"):
        raise RequestRefused(f"no operation '{what}' on the tuple space; expected put, read or take")
    scalars = isinstance(key, list) and all(isinstance(part, str | int | float | None) for part in key)
    if not key or not scalars or (what == "put" and None in key):
        raise RequestRefused(f"{key!r} is not a key: expected a list of texts, numbers and booleans")
