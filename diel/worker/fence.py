"""A fence: what was given up for lost commits nothing more, even if it is still alive.

Before a task is handed out again the controller puts up a file for the block, reads once more what its
workers wrote, and records which attempts count no more: that decides. Workers and keepers of nodes that can
still see the file end by it (docs/decisions/032).
"""

from __future__ import annotations

from collections.abc import Iterable

from diel.files import put
from diel.paths import RunPaths

ALL = "*"


def put_up(paths: RunPaths, block: str, workers: Iterable[str] = (ALL,)) -> None:
    """Give up workers of a block, by their segments. Raise OSError if they cannot learn of it."""
    paths.fences.mkdir(exist_ok=True)
    given_up = sorted({*fenced(paths, block), *workers})
    put(paths.fence(block), "".join(f"{name}\n" for name in given_up))


def fenced(paths: RunPaths, block: str) -> frozenset[str]:
    """Return the workers of a block that were given up."""
    try:
        with open(paths.fence(block), encoding="utf-8") as file:  # mostly not there: the cheapest way to ask
            return frozenset(file.read().split())
    except FileNotFoundError:
        return frozenset()
