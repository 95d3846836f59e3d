"""Large items: written to files, mapped by readers, never through the broker."""

from __future__ import annotations

import numpy
import pytest

from diel.paths import RunPaths
from diel.streams.client import Connection
from diel.streams.segment import LARGE
from tests.streams.served import Served


@pytest.mark.parametrize("size", [10, LARGE // 8 - 1, LARGE // 8, 10 * LARGE])
def test_arrays_arrive_as_they_were_read_only(connection: Connection, channel: str, size: int) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    array = numpy.arange(size, dtype=numpy.float64)
    producer = connection.producer(channel, "make/0", 1)
    producer.put(array)
    array[:] = -1  # the producer's to use again
    producer.put({"x": array[:3], "n": 1})
    consumer = connection.consumer(channel, "use", "use/0", 1)
    found = consumer.get(timeout=10)
    assert numpy.array_equal(found, numpy.arange(size))
    assert not found.flags.writeable
    assert consumer.get(timeout=10)["x"].tolist() == [-1, -1, -1]


def test_a_large_array_does_not_pass_through_the_broker(
    connection: Connection, shared: Served, channel: str
) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    producer.put(numpy.zeros(10**6))
    producer.flush()
    streams = RunPaths(shared.run).streams
    assert sum(path.stat().st_size for path in streams.glob("channels/*/items-*.bin")) >= 8 * 10**6
    assert sum(path.stat().st_size for path in streams.glob("channels/*/*.log")) < 10**6
