"""The broker of a run: up while there are streams, back when it is killed, gone at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from diel.controller.gang import StreamManager
from tests.controller.bench import Bench
from tests.throwaway import wait_for

FLOW = """
stages:
  make: {command: [make], outputs: {items: {stream: {}}}}
  read: {command: [read], inputs: {items: make.items}}
"""


def brokers(bench: Bench) -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "diel.streams.server" in words and str(bench.paths.root) in words:
            found.append(process)
    return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, FLOW)


@pytest.fixture
def streaming(bench: Bench) -> Iterator[StreamManager]:
    made = StreamManager(bench.plan, bench.ledger, bench.stages.into)
    bench.stages.watch_ends(made.note_end)
    yield made
    made.stop()


def test_the_broker_comes_with_the_first_task_of_a_gang_and_goes_with_the_run(
    bench: Bench, streaming: StreamManager
) -> None:
    assert not brokers(bench)
    streaming.begin(bench.stages.runs["make"], 0)
    wait_for(lambda: len(brokers(bench)) == 1)
    streaming.stop()
    assert not brokers(bench)
    assert (bench.paths.root / "streams").is_dir()


def test_a_broker_that_is_killed_comes_back_and_knows_its_channels(
    bench: Bench, streaming: StreamManager
) -> None:
    make = bench.stages.runs["make"]
    streaming.begin(make, 0)
    (first,) = brokers(bench)
    first.kill()
    wait_for(lambda: any(process.pid != first.pid for process in brokers(bench)))
    bench.fail("make", 0)  # it is told, and answers
    streaming.stop()
    facts = (bench.paths.streams / "facts.json").read_text()
    assert "make.items" in facts
    assert "make/0 failed" in facts
