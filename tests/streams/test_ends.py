"""Putting waits for room and keeps the order; what nobody used is not lost; a new attempt repeats nothing."""

from __future__ import annotations

import threading

import pytest

from diel.base.errors import StreamError
from diel.streams.client import Connection


def fill(connection: Connection, channel: str, count: int) -> None:
    """Opens the channel, puts so many numbers, and closes it."""
    connection.open(channel, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    for number in range(count):
        producer.put(number)
    producer.close()
    connection.close(channel)


# --- putting ------------------------------------------------------------------------------------


def test_a_put_waits_while_the_buffer_is_full(connection: Connection, channel: str) -> None:
    connection.open(channel, buffer=4, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    consumer = connection.consumer(channel, "use", "use/0", 1)
    for number in range(4):
        producer.put(number, timeout=60)
    with pytest.raises(TimeoutError, match="no room"):
        producer.put(4, timeout=0.05)
    assert consumer.get(timeout=60) == 0
    producer.put(4, timeout=60)
    assert [consumer.get(timeout=60) for _ in range(4)] == [1, 2, 3, 4]


def test_items_of_many_producers_keep_each_ones_order(connection: Connection, channel: str) -> None:
    connection.open(channel, buffer=50, groups={"use": ["use/0"]})

    def make(member: str) -> None:
        producer = connection.producer(channel, member, 1)
        for number in range(500):
            producer.put([member, number])
        producer.close()

    makers = [threading.Thread(target=make, args=(f"make/{n}",)) for n in range(3)]
    for maker in makers:
        maker.start()
    consumer = connection.consumer(channel, "use", "use/0", 1)
    items = [consumer.get(timeout=30) for _ in range(1500)]
    for maker in makers:
        maker.join()
    for n in range(3):
        assert [number for member, number in items if member == f"make/{n}"] == list(range(500))


def test_a_new_attempt_of_a_producer_may_put_again_or_resume(connection: Connection, channel: str) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    first = connection.producer(channel, "make/0", 1)
    for number in range(5):
        first.put(number)
    first.flush()
    second = connection.producer(channel, "make/0", 2)
    assert second.count == 5
    for number in range(7):
        second.put(number)
    second.flush()
    first.put("stale")
    with pytest.raises(StreamError, match="attempt 2 has begun"):
        first.flush(timeout=60)
    third = connection.producer(channel, "make/0", 3)
    assert third.resume() == 7
    third.put(7)
    third.close()
    connection.close(channel)
    assert list(connection.consumer(channel, "use", "use/0", 1)) == list(range(8))


# --- getting ------------------------------------------------------------------------------------


def test_a_get_ends_after_its_time_and_the_item_is_not_lost(connection: Connection, channel: str) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    consumer = connection.consumer(channel, "use", "use/0", 1)
    with pytest.raises(TimeoutError, match="no item in 0.05 s"):
        consumer.get(timeout=0.05)
    connection.producer(channel, "make/0", 1).put("late")
    assert consumer.get(timeout=60) == "late"


def test_a_reader_whose_time_was_over_does_not_keep_items_from_others(
    connection: Connection, channel: str
) -> None:
    connection.open(channel, groups={"use": ["use/0", "use/1"]})
    first = connection.consumer(channel, "use", "use/0", 1)
    second = connection.consumer(channel, "use", "use/1", 1)
    with pytest.raises(TimeoutError):
        first.get(timeout=0.05)
    connection.producer(channel, "make/0", 1).put(1)
    assert second.get(timeout=60) == 1


def test_what_a_consumer_asked_ahead_is_not_lost_to_the_next_of_its_attempt(
    connection: Connection, channel: str
) -> None:
    fill(connection, channel, 500)
    one = connection.consumer(channel, "use", "use/0", 1)
    got = [one.get(timeout=60) for _ in range(300)]
    connection.leave("use/0", 1)
    two = connection.consumer(channel, "use", "use/0", 1)
    assert got + list(two) == list(range(500))
