"""Who gets which item: a group of consumers, in which each item goes to exactly one member."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from diel.streams.log import GroupSnapshot


@dataclass
class Member:
    """One consumer of a group, over all its attempts: delivery number → position in the channel. Deliveries
    are counted from 0 over its whole life; those below `committed` are forgotten. Kept as ranges: 16 bytes
    for each stretch of neighbouring positions."""

    attempt: int = 0
    at: int = 0
    """The delivery that this attempt gets next."""
    broken: str = ""
    """Why the stream is broken, once this attempt has learnt it; it stays so if the stream is mended."""
    reading: bool = False
    """Whether a process reads for it that will say when it leaves."""
    committed: int = 0
    total: int = 0
    _numbers: array[int] = field(default_factory=partial(array, "Q"))
    _positions: array[int] = field(default_factory=partial(array, "Q"))

    def add(self, position: int, count: int) -> None:
        if not self._numbers or self._positions[-1] + self.total - self._numbers[-1] != position:
            self._numbers.append(self.total)
            self._positions.append(position)
        self.total += count
        self.at = self.total

    def undo(self, count: int) -> None:
        """Take the last deliveries back."""
        self.total -= count
        self.at = self.total
        while self._numbers and self._numbers[-1] >= self.total:
            self._numbers.pop()
            self._positions.pop()

    def stretch(self, number: int) -> tuple[int, int]:
        """Position of a delivery, and how many from there on are neighbours."""
        place = bisect_right(self._numbers, number) - 1
        end = self._numbers[place + 1] if place + 1 < len(self._numbers) else self.total
        return self._positions[place] + number - self._numbers[place], end - number

    def commit(self, upto: int) -> None:
        """Deliveries below `upto` are done with."""
        if upto <= self.committed:
            return
        position = self.stretch(upto)[0] if upto < self.total else 0
        gone = bisect_right(self._numbers, upto)
        self._numbers = self._numbers[gone:]
        self._positions = self._positions[gone:]
        if upto < self.total and (not self._numbers or self._numbers[0] != upto):
            self._numbers.insert(0, upto)
            self._positions.insert(0, position)
        self.committed = upto

    def release(self) -> list[tuple[int, int]]:
        """Take all back that is not committed: positions and counts."""
        counts = (end - start for start, end in pairwise([*self._numbers, self.total]))
        stretches = list(zip(self._positions, counts, strict=True))
        self.at = self.total = self.committed
        del self._numbers[:], self._positions[:]
        return stretches

    def snapshot(self, block: bytearray) -> list[int]:
        """Return its state; the ranges go into the block."""
        block += self._numbers.tobytes() + self._positions.tobytes()
        return [self.attempt, self.at, self.committed, self.total, len(self._numbers)]

    def restore(self, numbers: Sequence[int], block: memoryview) -> memoryview:
        """Take in a snapshot; return the rest of the block."""
        self.attempt, self.at, self.committed, self.total, ranges = numbers
        self._numbers.frombytes(block[: 8 * ranges])
        self._positions.frombytes(block[8 * ranges : 16 * ranges])
        return block[16 * ranges :]

    def lowest(self, default: int) -> int:
        """Return the lowest position that is not committed."""
        return min(self._positions, default=default)


@dataclass
class Group:
    """The members that share a channel's items."""

    cursor: int = 0
    """The first position that no member got yet."""
    holds: bool = True
    """Whether producers wait for this group: not for one that joined on its own."""
    members: dict[str, Member] = field(default_factory=dict)
    unsettled: set[str] = field(default_factory=set)
    good: set[str] = field(default_factory=set)
    """Members whose tasks have a result."""
    broken_at: int | None = None
    """The position up to which items are given, if the stream is broken for this group."""
    returned: deque[tuple[int, int]] = field(default_factory=deque)
    """Positions and counts that members gave back."""

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.members:
                self.members[name] = Member()
                self.unsettled.add(name)

    def snapshot(self, block: bytearray) -> GroupSnapshot:
        """Return its state, with what its members got in the block."""
        there = self.members.items()
        return {
            "cursor": self.cursor,
            "holds": self.holds,
            "members": {name: member.snapshot(block) for name, member in there},
            "good": sorted(self.good),
            "broken_at": self.broken_at,
            "broken": {name: member.broken for name, member in there if member.broken},
            "returned": list(self.returned),
            "unsettled": sorted(self.unsettled),
        }

    def restore(self, saved: GroupSnapshot, block: memoryview) -> memoryview:
        """Take in a snapshot; return the rest of the block."""
        self.add(saved["members"])
        self.unsettled, self.good = set(saved["unsettled"]), set(saved.get("good", ()))
        self.broken_at = saved.get("broken_at")
        self.returned = deque((position, count) for position, count in saved["returned"])
        for name, numbers in saved["members"].items():
            self.members[name].broken = saved.get("broken", {}).get(name, "")
            block = self.members[name].restore(numbers, block)
        return block

    def begin(self, name: str, attempt: int) -> None:
        """Give a new attempt what was not committed, or everything if an earlier result was lost."""
        member = self.members[name]
        if name in self.good and len(self.members) == 1:
            member.release()
            member.committed = member.total = self.cursor = 0
            self.returned.clear()
        member.attempt, member.broken, member.reading = attempt, "", False
        member.at = member.committed
        self.good.discard(name)
        self.unsettled.add(name)

    @property
    def settled(self) -> bool:
        """Whether no member will ask again."""
        return not self.unsettled and bool(self.members)

    @property
    def is_done(self) -> bool:
        """Whether no member will ever need its items again: one that failed runs again on `resume`."""
        return self.settled and self.good >= self.members.keys()

    @property
    def delivered(self) -> int:
        return sum(member.total for member in self.members.values())

    @property
    def committed(self) -> int:
        return sum(member.committed for member in self.members.values())

    def available(self, end: int) -> int:
        """Items that no member got yet."""
        return self._reach(end) - self.cursor + sum(count for _, count in self.returned)

    def _reach(self, end: int) -> int:
        """Return the position up to which items are given."""
        return end if self.broken_at is None else max(self.cursor, min(end, self.broken_at))

    def next_stretch(self, end: int) -> tuple[int, int]:
        """Return the place and number of the next items: those given back come first."""
        return self.returned[0] if self.returned else (self.cursor, self._reach(end) - self.cursor)

    def give(self, name: str, position: int, count: int) -> None:
        """Count items as delivered to a member; they stand at the beginning of `next_stretch`."""
        if self.returned and self.returned[0][0] == position:
            _, there = self.returned.popleft()
            if there > count:
                self.returned.appendleft((position + count, there - count))
        else:
            self.cursor = position + count
        self.members[name].add(position, count)

    def undo(self, name: str, position: int, count: int) -> None:
        """Take back a delivery that never left."""
        self.members[name].undo(count)
        self.returned.appendleft((position, count))

    def settle(self, name: str, good: bool) -> None:
        """End a member for good: what it used is committed; others get the rest, or everything."""
        member = self.members[name]
        self.unsettled.discard(name)
        if good:
            self.good.add(name)
            member.commit(member.at)
        self.returned = deque(sorted([*self.returned, *member.release()]))

    def floor(self) -> int:
        """Return the lowest position that a member may still need."""
        lowest = (member.lowest(self.cursor) for member in self.members.values())
        return min([self.cursor, *(position for position, _ in self.returned), *lowest])
