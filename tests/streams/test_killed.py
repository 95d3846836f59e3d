"""Producers, consumers and the broker are killed at random moments: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diel.streams.client import Connection
from tests.streams.served import ROOT, Served

ENDS = Path(__file__).with_name("killed.py")


class Task:
    """A task that runs again when it is killed, as another attempt."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.attempt = 0
        self.again()

    def again(self) -> None:
        self.attempt += 1
        self.process = self.started(*self._words)

    def started(self, *words: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, str(ENDS), *words, str(self.attempt)]
        return subprocess.Popen(line, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})

    def kill(self) -> None:
        self.process.kill()
        if self.process.wait() != 0:
            self.again()

    def ended(self) -> bool:
        code = self.process.poll()
        assert code in (None, 0), f"{self._words} ended with {code}"
        return code == 0


def check_shared(results: Path, members: list[str], count: int) -> None:
    """Every number of every producer came once, and in order to whoever got it."""
    items = [item for path in sorted(results.glob("*.json")) for item in json.loads(path.read_text())]
    singles = [tuple(item) for item in items if item[0] != "array"]
    arrays = [tuple(item[1:]) for item in items if item[0] == "array"]
    numbers = [number for number in range(count) if number % 97]
    assert sorted(singles) == sorted((member, number) for member in members for number in numbers)
    assert sorted(arrays) == sorted((n, n) for n in range(0, count, 97) for _ in members)


def campaign(
    served: Served, folder: Path, kills: int, count: int, seed: int, first: type[Task] = Task
) -> None:
    """`first` is what each first task of its kind is."""
    choose = random.Random(seed)
    connection = Connection(served.run)
    makers, users = ["make/0", "make/1"], ["use/0", "use/1"]
    connection.open("make.x", buffer=200, groups={"use": users, "watch": ["watch/0"]})
    for group in ("use", "watch", "sum"):
        (folder / group).mkdir()
    run = str(served.run)
    connection.space().put(("sum",), 0)
    both: tuple[type[Task], ...] = (first, Task)
    producers = [kind("make", run, "make.x", one, str(count)) for kind, one in zip(both, makers, strict=True)]
    consumers = [
        kind("use", run, "make.x", "use", one, str(folder / "use"))
        for kind, one in zip(both, users, strict=True)
    ]
    consumers.append(first("use", run, "make.x", "watch", "watch/0", str(folder / "watch")))
    adders = [kind("share", run, f"add/{n}", str(count // 10)) for n, kind in enumerate(both)]
    closed = False
    for _ in range(kills):
        time.sleep(choose.uniform(0.05, 0.5))
        anybody: list[Served | Task] = [served, *producers, *consumers, *adders]
        victim = choose.choice(anybody)
        if isinstance(victim, Served):
            victim.kill_and_start()
        elif not victim.ended():
            victim.kill()
    end = time.monotonic() + 120
    while not all(task.ended() for task in [*consumers, *adders]):
        assert time.monotonic() < end, connection.facts()
        if not closed and all(task.ended() for task in producers):
            connection.close("make.x")
            closed = True
        time.sleep(0.05)
    check_shared(folder / "use", makers, count)
    check_shared(folder / "watch", makers, count)
    assert connection.space().read(("sum",), timeout=60)[1] == 2 * (count // 10)
    connection.disconnect()


def test_kills_of_all_kinds_lose_nothing_and_double_nothing(served: Served, tmp_path: Path) -> None:
    campaign(served, tmp_path, kills=6, count=3000, seed=1)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(5))
def test_twenty_kills_lose_nothing_and_double_nothing(served: Served, tmp_path: Path, seed: int) -> None:
    campaign(served, tmp_path, kills=20, count=20_000, seed=seed)
