"""Time in bins: at most some hundred for a whole run, whose width doubles as the run goes on."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

BINS = 512
FINEST = 2.0**-6
"""The width of a bin at first, in seconds."""


@dataclass
class Bins:
    """By bin, the seconds that were spent in it, and how many attempts ended in it, well and badly."""

    busy: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    ended: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    failed: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def spread(self, first: float, last: float, width: float) -> None:
        """Adds a span from `first` to `last`, in bins (fractions count), over all that it touches."""
        place = int(first)
        while place < last:
            part = min(last, place + 1) - max(first, place)
            self.busy[place] += part * width
            place += 1

    def fill(self, firsts: list[float], lasts: list[float], width: float, state: str) -> None:
        """Adds attempts of a worker. One follows the other: all but the first of a bin lie in it."""
        if lasts != sorted(lasts):
            lasts, firsts = map(list, zip(*sorted(zip(lasts, firsts, strict=True)), strict=True))
        at = 0
        for place, count in Counter(map(int, lasts)).items():
            began, ended = firsts[at : at + count], lasts[at : at + count]
            within = 1 if min(began[1:], default=0.0) >= place else count
            for first, last in zip(began[:within], ended[:within], strict=True):
                self.spread(max(0.0, first), last, width)
            self.busy[place] += (sum(ended[within:]) - sum(began[within:])) * width
            if state != "cancelled":
                (self.ended if state == "done" else self.failed)[place] += count
            at += count

    def halve(self) -> None:
        """Makes each two bins one."""
        self.busy, self.ended, self.failed = _half(self.busy), _half(self.ended), _half(self.failed)

    def packed(self) -> list[list[list[float]]]:
        return [
            [list(one), [round(value, 3) for value in one.values()]]
            for one in (self.busy, self.ended, self.failed)
        ]

    @classmethod
    def unpacked(cls, packed: Any) -> Bins:
        made = cls()
        counts: tuple[dict[int, Any], ...] = (made.busy, made.ended, made.failed)
        for one, (places, values) in zip(counts, packed, strict=True):
            one.update(zip(places, values, strict=True))
        return made


def _half(bins: defaultdict[int, Any]) -> defaultdict[int, Any]:
    made: defaultdict[int, Any] = defaultdict(bins.default_factory)
    for place, value in bins.items():
        made[place // 2] += value
    return made
