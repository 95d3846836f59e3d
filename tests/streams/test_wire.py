"""The wire of a process: a broker that is killed, one that never comes, and no work for nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy
import pytest

from diel.base.errors import StreamLost
from diel.streams.client import Connection
from diel.streams.item import LARGE
from diel.streams.wire import Wire
from tests.streams.served import Served


def test_a_broker_that_is_killed_in_the_middle_loses_nothing(served: Served) -> None:
    connection = Connection(served.run)
    connection.open("x", buffer=50, groups={"use": ["use/0"]})
    producer = connection.producer("x", "make/0", 1)
    consumer = connection.consumer("x", "use", "use/0", 1)

    def make() -> None:
        for number in range(2000):
            producer.put(number if number % 100 else numpy.full(LARGE, number))
        producer.close()
        connection.close("x")

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    found = []
    for _ in range(2000):
        item = consumer.get(timeout=30)
        found.append(item if isinstance(item, int) else int(item[-1]))
        if len(found) in (300, 1200):
            served.kill_and_start()
    maker.join(60)
    assert found == list(range(2000))
    connection.disconnect()


def test_without_a_broker_a_call_ends_with_what_is_missing(tmp_path: Path) -> None:
    connection = Connection(tmp_path, patience=0.1)
    with pytest.raises(StreamLost, match=r"broker.json is not there"):
        connection.facts()
    connection.disconnect()


def test_a_wire_that_is_not_used_costs_no_time(tmp_path: Path) -> None:
    begun = time.process_time()
    wires = [Wire(tmp_path, 1.0) for _ in range(3)]
    for wire in wires:
        wire.close()
    assert time.process_time() - begun < 1
