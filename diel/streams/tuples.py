"""The tuple space as the broker holds it: keys in memory, values on the disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diel.streams.log import Place, RecordLog
from diel.streams.message import Header

Key = tuple[Any, ...]


class Asked(NamedTuple):
    """One operation: what it is, and on which key or pattern."""

    what: str
    key: str
    """As JSON, for comparing."""


class Found(NamedTuple):
    """A tuple: its number, its key, and where its value stands."""

    number: int
    key: Key
    place: Place


class Owner:
    """Who puts, reads and takes: a task over its attempts, or one nameless `Space`.

    The operations of a task are kept with their answers until it commits them: a new attempt that does the
    same gets the same answers, and what it puts or takes again is not put or taken twice.
    """

    def __init__(self) -> None:
        self.attempt = 0
        self.base = 0
        """Operations that are committed."""
        self.at = 0
        """The operation that comes next in this attempt."""
        self.done: list[tuple[Asked, Found]] = []
        """Operations from `base` on, with their tuples."""

    def answer(self, number: int, asked: Asked) -> Found | None:
        """The tuple that this operation had before; None where it is new.

        Where the task now does something else, what it did from there on is forgotten: it stays done.
        """
        index = number - self.base
        if index < len(self.done):
            if self.done[index][0] == asked:
                return self.done[index][1]
            del self.done[index:]
        return None

    def record(self, number: int, asked: Asked, found: Found) -> None:
        if number - self.base > len(self.done):  # what a nameless owner read stands in no log
            self.base, self.done = number, []
        del self.done[max(0, number - self.base) :]
        self.done.append((asked, found))
        self.at = number + 1

    def take_back(self, number: int) -> None:
        """An operation and those after it were none after all."""
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
        if do == "attempt":
            owner.attempt = header["attempt"]
            owner.at = owner.base
            return
        if do == "commit":
            owner.forget(header["number"])
            return
        if do == "give back":
            owner.take_back(header["number"])
            self._enter(Found(number, tuple(header["key"]), Place(*header["place"])))
            return
        text = exact(header["key"])
        if do == "put":
            found = Found(number, tuple(header["key"]), place)
            self._enter(found)
        elif do == "take":
            found = self._leave(number)
        else:
            found = self._there[number]
        owner.record(header["number"], Asked(do, text), found)
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
        text = exact(found.key)
        same = self._exact[text]
        del same[number]
        if not same:
            del self._exact[text]
        return found

    def begin(self, name: str, attempt: int) -> Owner:
        """A new attempt begins behind what was committed."""
        owner = self.owners.setdefault(name, Owner())
        if attempt > owner.attempt:
            header: Header = {"do": "attempt", "owner": name, "attempt": attempt}
            self._fold(header, self.log.append(header))
        return owner

    def commit(self, name: str, number: int) -> None:
        header: Header = {"do": "commit", "owner": name, "number": number}
        self._fold(header, self.log.append(header))

    def give_back(self, name: str, number: int, found: Found) -> None:
        """An operation took a tuple for somebody who is gone: it did not."""
        header: Header = {"do": "give back", "owner": name, "number": number, "tuple": found.number}
        header |= {"key": list(found.key), "place": list(found.place)}
        self._fold(header, self.log.append(header))

    def find(self, pattern: Sequence[Any]) -> int | None:
        """The oldest tuple that fits."""
        if None not in pattern:
            return next(iter(self._exact.get(exact(pattern), ())), None)
        return next((number for number, one in self._there.items() if fits(pattern, one.key)), None)

    def do(self, name: str, number: int, asked: Asked, request: Header, value: bytes) -> Found | None:
        """Puts, reads or takes; None where no tuple fits.

        `request` has `key` (a pattern, except for `put`) and `keep`: whether the operation is kept for a new
        attempt. Raises OSError where the disk is full.
        """
        found = self._next if asked.what == "put" else self.find(request["key"])
        if found is None:
            return None
        if asked.what == "read" and not request["keep"]:
            tuple_read = self._there[found]
            self.owners[name].record(number, asked, tuple_read)
            return tuple_read
        header: Header = {
            "do": asked.what,
            "tuple": found,
            "key": request["key"],
            "owner": name,
            "number": number,
            "keep": request["keep"],
        }
        self._fold(header, self.log.append(header, value))
        return self.owners[name].answer(number, asked)

    def value(self, found: Found) -> bytes:
        return self.log.read(found.place)

    def facts(self) -> dict[str, int]:
        return {"tuples": len(self._there)}


def exact(key: Sequence[Any]) -> str:
    """A key as text in which equal keys are equal: 1 and 1.0 are one number."""
    return json.dumps([_plain(part) for part in key], ensure_ascii=False)


def _plain(part: Any) -> Any:
    return int(part) if isinstance(part, float) and part.is_integer() else part


def fits(pattern: Sequence[Any], key: Key) -> bool:
    """Whether a key fits a pattern, in which None stands for anything."""
    return len(pattern) == len(key) and all(
        wanted is None or (wanted == part and isinstance(wanted, bool) == isinstance(part, bool))
        for wanted, part in zip(pattern, key, strict=True)
    )
