"""Items as bytes and back."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.base.errors import StreamError
from diel.base.paths import RunPaths
from diel.streams.client import Connection
from diel.streams.item import ALIGNED, LARGE, decode, encode
from tests.streams.served import Served

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def there_and_back(item: Any) -> Any:
    return decode(b"".join(encode(item)))


@given(json_values)
def test_json_values_come_back_as_they_were(item: Any) -> None:
    assert there_and_back(item) == item


@given(st.binary(max_size=200))
def test_bytes_come_back_as_they_were(item: bytes) -> None:
    assert there_and_back(item) == item
    assert there_and_back(bytearray(item)) == item


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(12, dtype=numpy.float32).reshape(3, 4),
        numpy.zeros((0, 3)),
        numpy.array([[1, 2], [3, 4]]).T,
        numpy.array([True, False]),
        numpy.array([1 + 2j]),
        numpy.array(["a", "long"]),
        numpy.array([(1, 2.5), (3, 4.5)], dtype=[("n", "<i4"), ("x", "<f8", (1,))]),
        numpy.arange(5, dtype=">i2"),
        numpy.array(["2026-01-01"], dtype="datetime64[D]"),
    ],
    ids=lambda array: str(array.dtype),
)
def test_an_array_keeps_its_dtype_and_shape(array: numpy.ndarray[Any, Any]) -> None:
    found = there_and_back(array)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert numpy.array_equal(found, array)


def test_a_dict_of_arrays_and_numbers_comes_back_as_it_was() -> None:
    item: dict[str, Any] = {"x": numpy.ones(3), "deep": [{"y": numpy.zeros((2, 2), "i1")}, "text"], "step": 7}
    found = there_and_back(item)
    assert numpy.array_equal(found["x"], item["x"])
    assert found["deep"][0]["y"].shape == (2, 2)
    assert (found["deep"][1], found["step"]) == ("text", 7)


def test_a_number_of_numpy_comes_back_as_a_number() -> None:
    assert there_and_back({"loss": numpy.float32(0.5), "n": numpy.int64(3)}) == {"loss": 0.5, "n": 3}
    assert math.isnan(there_and_back(numpy.float64("nan")))


def test_an_array_that_came_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        there_and_back(numpy.ones(3))[0] = 2


def test_the_bytes_of_arrays_are_aligned() -> None:
    parts = encode({"a": numpy.ones(3, "i1"), "b": numpy.ones(3)})
    data = b"".join(parts)
    assert data.index(numpy.ones(3).tobytes()) % ALIGNED == 0


@pytest.mark.parametrize(
    "item", [object(), {"x": {1, 2}}, numpy.array([object()]), lambda: 0, "half a character \ud800"]
)
def test_what_would_need_a_pickle_is_refused(item: Any) -> None:
    with pytest.raises(StreamError, match="cannot be"):
        encode(item)


def test_bytes_that_are_no_item_are_refused() -> None:
    with pytest.raises(StreamError, match="expected one of"):
        decode(b"\x80\x04pickle")


@pytest.mark.parametrize("size", [10, LARGE // 8 - 1, LARGE // 8, 10 * LARGE])
def test_arrays_arrive_as_they_were_read_only(connection: Connection, channel: str, size: int) -> None:
    connection.open(channel, groups={"use": ["use/0"]})
    array = numpy.arange(size, dtype=numpy.float64)
    producer = connection.producer(channel, "make/0", 1)
    producer.put(array)
    array[:] = -1  # the producer's to use again
    producer.put({"x": array[:3], "n": 1})
    consumer = connection.consumer(channel, "use", "use/0", 1)
    found = consumer.get(timeout=60)
    assert numpy.array_equal(found, numpy.arange(size))
    assert not found.flags.writeable
    assert consumer.get(timeout=60)["x"].tolist() == [-1, -1, -1]


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
