"""Producers, consumers and the tuple space of one process, with a broker in another."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import pytest

from diel.errors import StreamEnd, StreamError
from diel.streams.client import Connection, connect
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
    process.join(30)
    assert process.exitcode == 0
    assert ours.consumer(channel, "use", "use/0", 1).get(timeout=10) == process.pid
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
        consumer.get(timeout=10)
