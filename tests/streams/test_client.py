"""Producers, consumers and the tuple space of one process, with a broker in another."""

from __future__ import annotations

import multiprocessing
import os
import threading
from typing import Any

import numpy
import pytest

from diel.base.errors import StreamEnd, StreamError
from diel.base.paths import RunPaths
from diel.streams.client import Connection, connect
from diel.streams.item import LARGE
from tests.streams.served import Served


def test_items_come_in_the_order_in_which_they_were_put(connection: Connection, channel: str) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    consumer = connection.consumer(channel, "use", "use/0", 1)
    items: list[Any] = [{"step": 1}, "text", b"bytes", None, 2.5, [1, "é"]]
    for item in items:
        producer.put(item)
    producer.close()
    connection.close(channel)
    assert list(consumer) == items
    with pytest.raises(StreamEnd):
        consumer.get()


def test_a_forked_child_has_a_connection_of_its_own(shared: Served, channel: str) -> None:
    ours = connect(shared.run)
    ours.open(channel, groups={"use": ["use/0"]})
    fork = multiprocessing.get_context("fork")

    def child() -> None:
        theirs = connect(shared.run)
        theirs.producer(channel, "make/0", 1).put(os.getpid())
        theirs.leave("make/0", 1)
        os._exit(0 if theirs is not ours else 1)

    process = fork.Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert ours.consumer(channel, "use", "use/0", 1).get(timeout=60) == process.pid
    assert connect(shared.run) is ours
    ours.disconnect()


def test_an_end_that_cannot_be_closed_does_not_keep_the_others_open(
    connection: Connection, channel: str
) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    stale = connection.producer(channel, "use/0", 1)
    connection.producer(channel, "use/0", 2)
    stale.put("late")
    consumer = connection.consumer(channel, "use", "use/0", 1)
    with pytest.raises(StreamError, match="attempt 2 has begun"):
        connection.leave("use/0", 1)
    with pytest.raises(StreamError, match="was closed"):
        consumer.get(timeout=60)


def test_the_tuple_space_waits_for_what_fits(connection: Connection) -> None:
    space = connection.space()
    found: list[Any] = []

    def wait() -> None:
        found.append(connection.space().take(("halo", 3, ...), timeout=30))

    waiting = threading.Thread(target=wait)
    waiting.start()
    with pytest.raises(TimeoutError, match="no tuple fits"):
        space.read(("halo", None, None), timeout=0.05)
    space.put(("halo", 3, "left"), numpy.arange(4.0))
    waiting.join(60)
    ((key, value),) = found
    assert key == ("halo", 3, "left")
    assert value.tolist() == [0, 1, 2, 3]


def test_large_values_of_the_tuple_space_come_as_they_were(connection: Connection) -> None:
    space = connection.space()
    space.put(("large",), numpy.arange(LARGE))
    assert numpy.array_equal(space.read(("large",))[1], numpy.arange(LARGE))


@pytest.mark.parametrize("key", ["text", (), ("a", None), ("a", [1])])
def test_a_key_that_is_none_is_refused(connection: Connection, key: Any) -> None:
    with pytest.raises(StreamError, match="is not a key"):
        connection.space().put(key, 1)


def test_numbers_of_numpy_are_numbers_in_a_key(connection: Connection) -> None:
    space = connection.space()
    key: Any = ("numpy", numpy.int64(3), numpy.float64(0.5))
    space.put(key, 1)
    assert space.take(("numpy", 3, 0.5), timeout=60)[1] == 1


@pytest.mark.parametrize("key", [("k", object()), ("k", "\ud800")], ids=["object", "half"])
def test_what_is_no_key_is_refused(connection: Connection, key: Any) -> None:
    with pytest.raises(StreamError, match="is not a key of the tuple space"):
        connection.space().put(key, 1)


def test_what_a_task_put_into_the_space_takes_no_more_room_when_it_has_ended(
    connection: Connection, shared: Served
) -> None:
    """Files are given room ahead: nothing of it, and no open file, is left."""
    folder = RunPaths(shared.run).streams / "space"
    before, open_before = set(folder.glob("*.bin")), len(os.listdir("/proc/self/fd"))
    connection.space("task/7", 1).put(("room",), bytes(LARGE))
    connection.leave("task/7", 1)
    (made,) = set(folder.glob("*.bin")) - before
    assert made.stat().st_size == LARGE + 4096  # one page more, for the letter in front
    assert len(os.listdir("/proc/self/fd")) == open_before
