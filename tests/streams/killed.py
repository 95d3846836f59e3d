"""Tasks for `test_killed.py`, each a process: `python killed.py make|use RUN CHANNEL … ATTEMPT`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from diel.streams.client import connect

TOGETHER = 50
"""Items between two commits of a consumer."""


def make(run: str, channel: str, member: str, count: str, attempt: str) -> None:
    """Puts its numbers, and now and then an array with the number in it, too large for the broker."""
    producer = connect(Path(run)).producer(channel, member, int(attempt))
    for number in range(int(count)):
        large = number % 97 == 0
        producer.put(numpy.full(10_000, number) if large else [member, number])
    producer.close()


def use(run: str, channel: str, group: str, member: str, results: str, attempt: str) -> None:
    """Writes what it gets in parts, each in one step, and commits it: a part is written again as it was."""
    consumer = connect(Path(run)).consumer(channel, group, member, int(attempt))
    begun = consumer.number
    part: list[Any] = []

    def commit() -> None:
        path = Path(results) / f"{member.replace('/', '-')}-{begun:08d}.json"
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(part))
        os.replace(temporary, path)
        consumer.commit()

    for item in consumer:
        part.append(item if isinstance(item, list) else ["array", int(item[0]), int(item[-1])])
        if len(part) == TOGETHER:
            commit()
            begun, part = consumer.number, []
    commit()


def share(run: str, member: str, count: str, attempt: str) -> None:
    """Adds one to a number in the tuple space, `count` times: it is there once, or nobody has it."""
    space = connect(Path(run)).space(member, int(attempt))
    for _ in range(int(count)):
        _, value = space.take(("sum",))
        space.put(("sum",), value + 1)


if __name__ == "__main__":
    ends: dict[str, Callable[..., None]] = {"make": make, "use": use, "share": share}
    ends[sys.argv[1]](*sys.argv[2:])
