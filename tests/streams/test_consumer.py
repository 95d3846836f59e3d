"""Getting: an item that nobody used is not lost, and a new attempt goes on behind the commit."""

from __future__ import annotations

import pytest

from diel.streams.client import Connection


def fill(connection: Connection, channel: str, count: int) -> None:
    """Opens the channel, puts so many numbers, and closes it."""
    connection.open(channel, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    for number in range(count):
        producer.put(number)
    producer.close()
    connection.close(channel)


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
