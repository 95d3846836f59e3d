"""An attempt and its streams: what it is told of them, and that it ends well only where they are whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.base.errors import StreamBroken, StreamError, StreamLost
from diel.base.states import FailureClass
from diel.streams.client import Connection, connect
from diel.worker.attempt.bundle import Failure, Request, Work
from diel.worker.attempt.stream import class_of, close_streams, held_to_streams, stream_environment
from diel.worker.context import Context
from tests.streams.served import Served
from tests.worker.bench import request

WORK = Work("use", None, {}, None, (), 1)
END = {"role": "get", "channel": "c", "group": "use"}
TASK = request(0, streams={"samples": END})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    served = Served(tmp_path_factory.mktemp("runs") / "flow-1")
    yield served.run
    connect(served.run).disconnect()
    served.end()


@pytest.fixture
def opened(run: Path, request: pytest.FixtureRequest) -> tuple[Connection, str]:
    """A channel with two items, which `use/0` has yet to read."""
    connection, channel = connect(run), request.node.name
    connection.open(channel, groups={"use": ["use/0"]})
    producer = connection.producer(channel, "make/0", 1)
    producer.put(1)
    producer.put(2)
    connection.leave("make/0", 1)
    return connection, channel


def reading(channel: str) -> Request:
    return request(0, streams={"samples": {**END, "channel": channel}})


def read_all(connection: Connection, channel: str) -> list[int]:
    connection.close(channel)
    got = list(connection.consumer(channel, "use", "use/0", 1))
    connection.leave("use/0", 1)
    return got


def test_a_command_is_told_its_ends_with_who_it_is() -> None:
    found = stream_environment(WORK, TASK)
    assert json.loads(found["DIEL_STREAMS"]) == {"samples": {**END, "member": "use/0", "attempt": 1}}
    assert found["DIEL_RANKED"] == ""
    assert stream_environment(Work("use", None, {}, None, ("mpiexec",), 1), TASK)["DIEL_RANKED"] == "1"


def test_an_attempt_that_read_everything_ends_well(run: Path, opened: tuple[Connection, str]) -> None:
    connection, channel = opened
    with held_to_streams(str(run), WORK, reading(channel)):
        assert read_all(connection, channel) == [1, 2]


@pytest.mark.parametrize("own", ["", "exit code 3"])
def test_whatever_it_does_an_attempt_with_a_broken_stream_has_no_result(
    run: Path, opened: tuple[Connection, str], own: str
) -> None:
    connection, channel = opened

    def attempt() -> None:
        with held_to_streams(str(run), WORK, reading(channel)):
            connection.break_off(channel, ["use"], "make/1 failed")
            with pytest.raises(StreamBroken):
                list(connection.consumer(channel, "use", "use/0", 1))
            connection.leave("use/0", 1)
            if own:
                raise Failure(FailureClass.APP, own)

    with pytest.raises(Failure, match="make/1 failed") as found:
        attempt()
    assert found.value.kind == FailureClass.UPSTREAM
    assert own in found.value.message


def test_a_failure_of_another_class_stays_what_it_is(run: Path, opened: tuple[Connection, str]) -> None:
    with pytest.raises(Failure) as found, held_to_streams(str(run), WORK, reading(opened[1])):
        raise Failure(FailureClass.TIMEOUT, "ran too long")
    assert found.value.kind == FailureClass.TIMEOUT


def test_what_a_function_put_is_there_when_its_streams_are_closed(
    run: Path, opened: tuple[Connection, str], tmp_path: Path
) -> None:
    connection, channel = opened
    connection.producer(channel, "make/1", 1).put(3)
    close_streams(Context(tmp_path, run_dir=run, task_id="make/1"), good=True)
    assert read_all(connection, channel) == [1, 2, 3]


def test_what_a_function_raised_tells_whose_fault_it_was() -> None:
    found = [
        class_of(error)
        for error in (StreamLost(), StreamBroken(), MemoryError(), StreamError(), ValueError())
    ]
    kinds = FailureClass
    assert found == [kinds.NODE, kinds.UPSTREAM, kinds.OOM, kinds.APP, kinds.APP]
