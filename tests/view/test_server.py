"""The page of a run, served: to its owner alone, by GET alone, what is new alone; and its end."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import stat
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import psutil
import pytest

from diel.ui.view import run_watch
from diel.ui.view.run_watch import LivePage
from tests.handmade import GONE, Handmade
from tests.throwaway import Project

pytest.importorskip("vl_convert", reason="pages need vl-convert-python")
STAGE = 'stages: {simulate: {command: ["true"]}}'


class Served:
    """A `diel view --web` of a run, and requests to it."""

    def __init__(self, run: Handmade, *words: str) -> None:
        self.run = run
        self.process = Project(run.folder).start("view", "w-1", "--web", *words)
        assert self.process.stdout is not None
        self.said = ""
        while "open http" not in self.said:
            line = self.process.stdout.readline()
            assert line, f"it ended:\n{self.said}{self.process.communicate()}"
            self.said += line
        found = re.search(r"-L \d+:(/\S+)", self.said)
        self.socket = Path(found[1]) if found else None
        address = re.search(r"open http://localhost:(\d+)/(?:\?token=(\S+))?", self.said)
        assert address is not None
        self.port, self.token = int(address[1]), address[2]

    def ask(self, path: str = "/", method: str = "GET", **headers: str) -> tuple[HTTPResponse, str]:
        connection = http.client.HTTPConnection("localhost", self.port, timeout=30)
        if self.socket is not None:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(self.socket))
        connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def delta(self, since: int = 0) -> dict[str, Any]:
        answer, text = self.ask(f"/delta?since={since}")
        assert answer.status == 200, text
        read: dict[str, Any] = json.loads(text)
        return read

    def end(self) -> str:
        """Waits for its end; returns what it said then."""
        self.process.wait(timeout=30)
        assert self.process.stderr is not None
        err = self.process.stderr.read()
        self.process.communicate()
        assert self.process.returncode == 0, err
        return err


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    run = Handmade(tmp_path_factory.mktemp("served"), STAGE, alive=True).stage("simulate", 1)
    found = Served(run)
    yield found
    found.process.terminate()
    assert found.end() == "ended: SIGTERM\n"
    assert found.socket is not None
    assert not found.socket.parent.exists()


def test_it_listens_on_one_socket_that_its_owner_alone_can_open(served: Served) -> None:
    assert served.socket is not None
    assert stat.S_IMODE(served.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(served.socket.parent.stat().st_mode) == 0o700
    process = psutil.Process(served.process.pid)
    listens: list[Any] = [one.laddr for one in process.net_connections("all") if not one.raddr]
    assert listens == [str(served.socket)]
    assert f"ssh -N -L 8080:{served.socket} " in served.said


def test_the_page_may_load_nothing_and_be_shown_nowhere_else(served: Served) -> None:
    answer, text = served.ask()
    assert (answer.status, "w-1" in text) == (200, True)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_that_has_all_is_told_what_is_new_alone(served: Served) -> None:
    before = served.delta()
    assert [panel["name"] for panel in before["panels"]].count("stages") == 1
    assert served.delta(before["version"])["panels"] == []
    served.run.done("simulate", 0)
    served.run.end("succeeded")
    while not (after := served.delta(before["version"]))["panels"]:
        pass  # it looks once a second
    assert after["state"] == "succeeded"
    assert "1 of 1" in json.dumps(after["panels"]) or "1/1" in json.dumps(after["panels"])
    assert len(served.delta(10**12)["panels"]) == len(served.delta()["panels"]), "of another view: all"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_nothing_but_get_is_answered(served: Served, method: str) -> None:
    assert served.ask(method=method)[0].status == 405


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/", "localhost:1234", 200),
        ("/", "[::1]:80", 200),
        ("/", "evil.example", 421),
        ("/delta", "localhost.evil.example:8080", 421),
        ("/", "", 421),
        ("/../../etc/passwd", "localhost", 404),
        ("/run.json", "localhost", 404),
        ("/delta?since=x", "localhost", 200),
    ],
)
def test_it_answers_to_names_of_this_machine_and_has_one_page(
    served: Served, path: str, host: str, status: int
) -> None:
    assert served.ask(path, Host=host)[0].status == status


def test_a_port_is_of_this_machine_alone_and_takes_a_token(tmp_path: Path) -> None:
    run = Handmade(tmp_path, STAGE, alive=True).stage("simulate", 1)
    served = Served(run, "--port", "0")
    process = psutil.Process(served.process.pid)
    listens = [one.laddr for one in process.net_connections("all") if one.status == psutil.CONN_LISTEN]
    assert listens == [("127.0.0.1", served.port)]
    wrong = served.token[:-1] + ("a" if served.token[-1] != "a" else "b")
    for path in ("/", "/delta", f"/?token={wrong}", "/?token=%ff", f"/delta?token={served.token}"):
        assert served.ask(path)[0].status == 403
    answer, _ = served.ask(f"/?token={served.token}")
    cookie = answer.headers["Set-Cookie"]
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert served.ask("/", Cookie=cookie.partition(";")[0])[0].status == 200
    assert served.ask("/delta", Authorization=f"token {served.token}")[0].status == 200
    assert served.ask("/", Cookie=cookie.partition(";")[0], Host="evil.example")[0].status == 421
    served.process.send_signal(signal.SIGHUP)
    assert served.end() == "ended: SIGHUP\n"


def test_it_outlives_the_controller_and_says_so_and_ends_when_nobody_asks(tmp_path: Path) -> None:
    run = Handmade(tmp_path, STAGE, alive=True).stage("simulate", 2).done("simulate", 0)
    served = Served(run, "--idle", "2s")
    assert served.delta()["state"] == "running"
    with open(run.paths.controller_segment(1), "a") as file:
        file.write('{"event":"end","sta')  # it is killed in the middle of a line
    run.lease(1, **GONE)
    while served.delta()["state"] != "interrupted":
        pass
    assert served.end() == "ended: no request for 2.0s\n"


def test_what_cannot_be_read_of_a_damaged_run_stands_above_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_watch, "BRIEFLY", 30.0)
    run = Handmade(tmp_path, STAGE, alive=True).stage("simulate", 1)
    run.work("start", "simulate", "zero").done("simulate", 0)  # type: ignore[arg-type]
    panels = LivePage(run.paths).delta(-1)["panels"]
    assert [panel["name"] for panel in panels[:2]] == ["unread", panels[1]["name"]]
    assert "not one that this diel can read" in panels[0]["html"]
    assert "1/1" in json.dumps(panels) or "1 of 1" in json.dumps(panels)


def test_it_ends_with_its_terminal(tmp_path: Path) -> None:
    Handmade(tmp_path, STAGE).stage("simulate", 1)
    served = Served(Handmade(tmp_path / "other", STAGE))
    assert served.process.stdin is not None
    served.process.stdin.close()
    served.process.stdin = None
    assert served.end() == "ended: its terminal or connection is gone\n"


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    Handmade(tmp_path, STAGE).stage("simulate", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = Project(tmp_path).diel("view", "--web", "--port", str(taken.getsockname()[1]), code=2)
    assert "Address already in use; choose another, or 0 for any that is free" in said
