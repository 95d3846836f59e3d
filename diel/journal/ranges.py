"""Indices packed as [first, last] pairs, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable


def ranges(indices: Iterable[int]) -> list[list[int]]:
    """Ascending indices as [first, last] pairs: a million skipped tasks are one pair."""
    found: list[list[int]] = []
    for index in indices:
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return found


def spread(pairs: Iterable[Iterable[int]]) -> Iterable[int]:
    """The indices that `ranges` packed."""
    for first, last in pairs:
        yield from range(first, last + 1)


def covers(pairs: Iterable[Iterable[int]], index: int | None) -> bool:
    """Whether an index is among those that `ranges` packed; None stands for any."""
    return index is None or any(first <= index <= last for first, last in pairs)
