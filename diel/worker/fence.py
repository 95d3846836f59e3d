"""A fence: what was given up for lost commits nothing more, even if it is still alive.

A node that its scheduler has lost may still run its tasks, beside those that took their places. Before a
task is handed out again the controller puts up a file for the block, reads once more what its workers
wrote, and writes down which attempts count no more: that record decides, whenever their results come. The
file is for those who can still see it: workers look before they begin a task and before they commit one,
and each node's keeper ends all that runs there (docs/decisions/032).
"""

from __future__ import annotations

from collections.abc import Iterable

from diel.files import put
from diel.paths import RunPaths

ALL = "*"
"""Stands for all workers of a block."""


def put_up(paths: RunPaths, block: str, workers: Iterable[str] = (ALL,)) -> None:
    """Gives up workers of a block, by their segments. Raises OSError if they cannot learn of it."""
    paths.fences.mkdir(exist_ok=True)
    given_up = sorted({*fenced(paths, block), *workers})
    put(paths.fence(block), "".join(f"{name}\n" for name in given_up))


def fenced(paths: RunPaths, block: str) -> frozenset[str]:
    """The workers of a block that were given up."""
    try:
        with open(paths.fence(block), encoding="utf-8") as file:  # mostly not there: the cheapest way to ask
            return frozenset(file.read().split())
    except FileNotFoundError:
        return frozenset()
