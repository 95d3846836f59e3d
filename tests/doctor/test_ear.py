"""Trial jobs that report over TCP: heard only with the token."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path

import pytest

from diel.doctor import probe
from diel.doctor.ear import MOST, Ear


def test_a_report_that_knows_the_token_is_heard() -> None:
    with Ear() as ear:
        probe.send("127.0.0.1", ear.port, ear.token.encode(), {"pool": "p0", "host": "n1"})
    assert ear.reports == {"p0": {"pool": "p0", "host": "n1"}}


def test_a_report_with_another_token_is_refused() -> None:
    with Ear() as ear, pytest.raises(OSError, match="not this doctor"):
        probe.send("127.0.0.1", ear.port, b"another", {"pool": "p0"})
    assert ear.reports == {}


def test_the_token_itself_never_crosses_the_wire() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Ear() as ear:
        seen: list[bytes] = []

        def overhear() -> None:
            link, _ = server.accept()
            link.sendall(b"0" * 64 + b"\n")
            seen.append(link.recv(MOST))
            link.close()

        thread = threading.Thread(target=overhear)
        thread.start()
        with pytest.raises(OSError, match="not this doctor"):
            probe.send("127.0.0.1", server.getsockname()[1], ear.token.encode(), {"pool": "p0"})
        thread.join()
    assert ear.token.encode() not in seen[0]
    assert b'"pool": "p0"' in seen[0]


@pytest.mark.parametrize("words", [b"", b"\n", b"GET / HTTP/1.0\r\n\r\n", b"x" * (MOST + 10)])
def test_what_is_no_report_is_left_alone(words: bytes) -> None:
    with Ear() as ear:
        with socket.create_connection(("127.0.0.1", ear.port), timeout=5) as link:
            link.makefile("rb").readline()
            with contextlib.suppress(OSError):  # it may have hung up already
                link.sendall(words)
                link.shutdown(socket.SHUT_WR)
                assert link.recv(10) == b""
        probe.send("127.0.0.1", ear.port, ear.token.encode(), {"pool": "p1"})
    assert list(ear.reports) == ["p1"]


def test_the_port_is_closed_afterwards() -> None:
    with Ear() as ear:
        port = ear.port
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_probe_that_reaches_nobody_leaves_its_report_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("known")
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    words = ["probe", str(tmp_path), "p0", str(closed), "127.0.0.1", "sh", "diel,no-such-package"]
    monkeypatch.setattr("sys.argv", words)
    probe.main()
    report = json.loads((tmp_path / "p0.json").read_text())
    assert report["reached"] == ""
    assert "refused" in report["refused"]["127.0.0.1"]
    assert report["packages"]["diel"]
    assert report["packages"]["no-such-package"] is None
    assert report["launcher"].endswith("/sh")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p0.json", "token"]
