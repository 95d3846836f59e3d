"""Producers, consumers and the tuple space of one process, with a broker in another."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import numpy
import pytest
import zmq

from diel.errors import StreamEnd, StreamError, StreamLost
from diel.paths import RunPaths
from diel.streams.client import Connection, connect
from diel.streams.link import Link
from diel.streams.protocol import contact_file, read_contact
from diel.streams.segment import LARGE
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


def test_a_consumer_reads_while_its_producer_still_runs(connection: Connection, channel: str) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    consumer = connection.consumer(channel, "use", "use/0", 1)
    for number in range(20):
        producer.put(number)
        assert consumer.get(timeout=10) == number


def test_a_get_ends_after_its_time_and_the_item_is_not_lost(connection: Connection, channel: str) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    consumer = connection.consumer(channel, "use", "use/0", 1)
    with pytest.raises(TimeoutError, match="no item in 0.05 s"):
        consumer.get(timeout=0.05)
    connection.producer(channel, "make/0", 1).put("late")
    assert consumer.get(timeout=10) == "late"


def test_a_reader_whose_time_was_over_does_not_keep_items_from_others(
    connection: Connection, channel: str
) -> None:
    connection.open(channel, groups={"use": ["use/0", "use/1"]})
    first = connection.consumer(channel, "use", "use/0", 1)
    second = connection.consumer(channel, "use", "use/1", 1)
    with pytest.raises(TimeoutError):
        first.get(timeout=0.05)
    connection.producer(channel, "make/0", 1).put(1)
    assert second.get(timeout=10) == 1


def test_a_put_waits_while_the_buffer_is_full(connection: Connection, channel: str) -> None:
    connection.open(channel, buffer=4, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    consumer = connection.consumer(channel, "use", "use/0", 1)
    for number in range(4):
        producer.put(number, timeout=10)
    with pytest.raises(TimeoutError, match="no room"):
        producer.put(4, timeout=0.05)
    assert consumer.get(timeout=10) == 0
    producer.put(4, timeout=10)
    assert [consumer.get(timeout=10) for _ in range(4)] == [1, 2, 3, 4]


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
        first.flush(timeout=10)
    third = connection.producer(channel, "make/0", 3)
    assert third.resume() == 7
    third.put(7)
    third.close()
    connection.close(channel)
    assert list(connection.consumer(channel, "use", "use/0", 1)) == list(range(8))


def fill(connection: Connection, channel: str, count: int) -> None:
    """Opens the channel, puts so many numbers, and closes it."""
    connection.open(channel, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    for number in range(count):
        producer.put(number)
    producer.close()
    connection.close(channel)


def test_a_new_attempt_of_a_consumer_goes_on_behind_the_commit(connection: Connection, channel: str) -> None:
    fill(connection, channel, 10)
    first = connection.consumer(channel, "use", "use/0", 1)
    assert [first.get(timeout=10) for _ in range(6)] == list(range(6))
    first.commit()
    first.get(timeout=10)
    assert list(connection.consumer(channel, "use", "use/0", 2)) == [6, 7, 8, 9]


def test_what_a_consumer_asked_ahead_is_not_lost_to_the_next_of_its_attempt(
    connection: Connection, channel: str
) -> None:
    fill(connection, channel, 500)
    one = connection.consumer(channel, "use", "use/0", 1)
    got = [one.get(timeout=10) for _ in range(300)]
    connection.leave("use/0", 1)
    two = connection.consumer(channel, "use", "use/0", 1)
    assert got + list(two) == list(range(500))


def test_late_readers_get_everything_again(connection: Connection, channel: str) -> None:
    fill(connection, channel, 100)
    for member in ("late/0", "later/0"):
        assert list(connection.consumer(channel, member, member, 1)) == list(range(100))


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
    waiting.join(30)
    ((key, value),) = found
    assert key == ("halo", 3, "left")
    assert value.tolist() == [0, 1, 2, 3]


def test_large_values_of_the_tuple_space_come_as_they_were(connection: Connection) -> None:
    space = connection.space()
    space.put(("large",), numpy.arange(LARGE))
    assert numpy.array_equal(space.read(("large",))[1], numpy.arange(LARGE))


@pytest.mark.parametrize("key", ["text", (), ("a", None), ("a", [1])])
def test_a_key_that_is_none_is_refused(connection: Connection, key: Any) -> None:
    with pytest.raises(StreamError, match="is no key"):
        connection.space().put(key, 1)


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


def test_numbers_of_numpy_are_numbers_in_a_key(connection: Connection) -> None:
    space = connection.space()
    key: Any = ("numpy", numpy.int64(3), numpy.float64(0.5))
    space.put(key, 1)
    assert space.take(("numpy", 3, 0.5), timeout=10)[1] == 1


@pytest.mark.parametrize("key", [("k", object()), ("k", "\ud800")], ids=["object", "half"])
def test_what_is_no_key_is_refused(connection: Connection, key: Any) -> None:
    with pytest.raises(StreamError, match="is no key of the tuple space"):
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


# --- who may take part ---


def test_only_its_owner_can_read_the_keys(shared: Served, connection: Connection) -> None:
    connection.facts()
    mode = contact_file(RunPaths(shared.run).streams).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def peer(shared: Served, keys: str) -> bytes | None:
    """What a peer hears within half a second."""
    contact = read_contact(RunPaths(shared.run).streams)
    assert contact is not None
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        if keys != "none":
            dealer.curve_serverkey = contact.key.encode()
            own = zmq.curve_keypair()
            known = (contact.client_key.encode(), contact.client_secret.encode())
            dealer.curve_publickey, dealer.curve_secretkey = known if keys == "ours" else own
        dealer.connect(f"tcp://{contact.addresses[0]}:{contact.port}")
        dealer.send(json.dumps({"id": 1, "op": "facts"}).encode())
        return dealer.recv() if dealer.poll(10_000 if keys == "ours" else 500) else None


def test_a_peer_without_the_keys_is_not_answered(shared: Served, connection: Connection) -> None:
    connection.facts()
    assert peer(shared, "ours") is not None
    assert peer(shared, "none") is None
    assert peer(shared, "other") is None
    connection.facts()


# --- the broker's life ---


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
    maker.join(30)
    assert found == list(range(2000))
    connection.disconnect()


def test_without_a_broker_a_call_ends_with_what_is_missing(tmp_path: Path) -> None:
    connection = Connection(tmp_path, patience=0.1)
    with pytest.raises(StreamLost, match=r"broker.json is not there"):
        connection.facts()
    connection.disconnect()


def test_a_broker_that_is_asked_to_stop_ends_and_leaves_no_address(served: Served) -> None:
    connection = Connection(served.run)
    connection.stop()
    assert served.process.wait(20) == 0
    assert read_contact(RunPaths(served.run).streams) is None
    connection.disconnect()


def test_a_second_broker_takes_the_place_of_the_first(served: Served) -> None:
    connection = Connection(served.run)
    connection.open("x", groups={"use": ["use/0"]})
    first = served.process
    served.start()
    assert first.wait(20) == 0
    connection.producer("x", "make/0", 1).put(1)
    assert connection.consumer("x", "use", "use/0", 1).get(timeout=20) == 1
    connection.disconnect()


def test_a_broker_ends_when_no_controller_lives(tmp_path: Path) -> None:
    served = Served(tmp_path, "--silence", "0.2")
    assert served.process.wait(30) == 0


def test_a_link_that_is_not_used_costs_no_time(tmp_path: Path) -> None:
    begun = time.process_time()
    links = [Link(tmp_path, 1.0) for _ in range(3)]
    for link in links:
        link.close()
    assert time.process_time() - begun < 1
