"""Whether a service is well, and when it is to stop: its controller says so, or there is none."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diel.base.paths import RunPaths
from diel.streams.services.endpoint import STOP, message_file
from diel.worker import service
from diel.worker.service import GONE, Line, PrintedOutput, ReplicaRequest, Stopped
from diel.workflow.models import Ready
from tests.throwaway import wait_for

HEALTH = Ready(http="/héalth a")


@pytest.fixture
def listening() -> Iterator[Callable[[bytes], tuple[Line, list[bytes]]]]:
    """Something that answers every connection with the same bytes; what it was asked comes with it."""
    listeners: list[socket.socket] = []

    def listen(said: bytes) -> tuple[Line, list[bytes]]:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        asked: list[bytes] = []

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(65536))
                    connection.sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        return Line("127.0.0.1", listener.getsockname()[1], "secret"), asked

    yield listen
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize(
    ("said", "well"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH_9.2\r\n", False),
        (b"", False),
    ],
)
def test_a_code_from_200_to_399_says_that_it_is_well(
    listening: Callable[[bytes], tuple[Line, list[bytes]]], said: bytes, well: bool
) -> None:
    line, asked = listening(said)
    assert line.is_well(HEALTH, 5.0) is well
    assert asked[0].startswith(b"GET /h%C3%A9alth%20a HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret\r\n" in asked[0]


def test_what_does_not_answer_in_time_is_not_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        line = Line("127.0.0.1", deaf.getsockname()[1], "secret")
        assert not line.is_well(HEALTH, 0.05)
        assert line.is_well(Ready(tcp=True), 5.0)
    assert not line.is_well(Ready(tcp=True), 5.0)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx_total 3\n", "x_total 3\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", ""),
        (b"HTTP/1.1 404 No\r\nContent-Length: 7\r\n\r\nx_total", ""),
        (b"", ""),
    ],
)
def test_counts_are_what_it_says_at_metrics_if_it_has_any(
    listening: Callable[[bytes], tuple[Line, list[bytes]]], said: bytes, kept: str
) -> None:
    line, asked = listening(said)
    assert line.counts(5.0) == kept
    assert asked[0].startswith(b"GET /metrics HTTP/1.1\r\n")


def test_newer_inputs_that_are_refused_are_told_with_the_reason(
    listening: Callable[[bytes], tuple[Line, list[bytes]]],
) -> None:
    line, _ = listening(b"HTTP/1.1 409 Conflict\r\nContent-Length: 9\r\n\r\nno model\n")
    assert line.send("/reload", b"{}", 5.0) == "/reload answered 409: no model\n"
    line, asked = listening(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert line.send("/reload", b"{}", 5.0) == ""
    assert asked[0].startswith(b"POST /reload HTTP/1.1\r\n")


def test_only_what_was_printed_since_counts(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(1, b"ready before\n")
    printed = PrintedOutput()
    os.write(2, b"now it is re")
    assert not printed.holds("ready")
    os.write(2, b"ady\n")
    assert printed.holds("ready")


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "w-1")
    message_file(made, "serve", 0, 1, STOP).parent.mkdir(parents=True)
    made.lease.touch()
    return made


def stopped(one: ReplicaRequest) -> str:
    """Why it is to stop; nothing while it is not."""
    try:
        one.check()
    except Stopped as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("text", "why"), [("over\n", "over"), ("", "over"), ("idle for 3 s", "idle for 3 s")]
)
def test_the_controllers_word_ends_it_with_its_reason(paths: RunPaths, text: str, why: str) -> None:
    one = ReplicaRequest(paths, "serve", 0, 1, idle=300.0)
    assert not stopped(one)
    message_file(paths, "serve", 0, 2, STOP).write_text("over")  # another attempt's
    assert not stopped(one)
    message_file(paths, "serve", 0, 1, STOP).write_text(text)
    assert stopped(one) == why


def test_it_goes_on_while_its_controllers_heart_beats(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LOOK", 0.0)
    monkeypatch.setattr(service, "ALONE", 0.2)
    one = ReplicaRequest(paths, "serve", 0, 1, idle=0.1)
    end, beat = time.monotonic() + 0.5, 1.0
    while time.monotonic() < end:
        os.utime(paths.lease, (beat, beat))
        beat += 1
        assert not stopped(one)
    wait_for(lambda: stopped(one) == GONE)


@pytest.mark.parametrize("lose", [lambda file: file.unlink(), lambda file: None])
def test_a_heartbeat_that_stays_away_is_waited_for_as_long_as_idle(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(service, "LOOK", 0.0)
    monkeypatch.setattr(service, "ALONE", 0.0)
    one, other = (ReplicaRequest(paths, "serve", 0, 1, idle=idle) for idle in (0.1, 300.0))
    lose(paths.lease)
    wait_for(lambda: stopped(one) == GONE)
    assert not stopped(other)
