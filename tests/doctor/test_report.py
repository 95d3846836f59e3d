"""A trial job's report: heard only with the token, and what it is taken to mean."""

from __future__ import annotations

import contextlib
import platform
import socket
import sys
import threading
from importlib import metadata
from typing import Any

import pytest

from diel.doctor import probe
from diel.doctor.machine import CORE, Finding
from diel.doctor.trial import MOST, Ear, Report, read_report
from diel.site.site import Site

DIGEST = "d" * 64


def read(home: str = "login", cards: int = 0, **more: Any) -> dict[str, Finding]:
    pools = {"p": {"cores": 4, "gpus": cards}}
    site = Site.model_validate(
        {
            "name": "s",
            "scheduler": "slurm",
            "pools": pools,
            "launcher": ["srun"],
            "controller": {"home": home},
        }
    )
    report = {
        "pool": "p0",
        "host": "n1",
        "python": sys.executable,
        "version": platform.python_version(),
        "packages": {name: metadata.version(name) for name in ("diel", *CORE)},
        "token": DIGEST,
        "cores": 1,
        "memory": 2**30,
        "gpus": {},
        "launcher": "/usr/bin/srun",
        "time": 1000.0,
        "written": 1000.5,
        "reached": "10.0.0.1",
        "refused": {},
        **more,
    }
    return {
        each.name.removeprefix("p: "): each
        for each in read_report(site, "p", Report.model_validate(report), DIGEST)
    }


def test_a_node_as_this_machine_is_right() -> None:
    found = read()
    assert list(found) == ["python", "packages", "files", "clock", "network", "node", "launcher"]
    assert all(each.ok for each in found.values())


@pytest.mark.parametrize(
    ("check", "report", "said", "fix"),
    [
        ("python", {"version": "3.6.8"}, "3.6.8", "Python that controllers use"),
        ("packages", {"packages": {}}, "diel not installed (here ", "one installation"),
        ("files", {"token": ""}, "does not see what this host writes", "--runs DIR"),
        ("files", {"token": "other"}, "does not see what this host writes", "--runs DIR"),
        ("clock", {"written": 1100.0}, "differs by 100 s", "NTP"),
        (
            "network",
            {"reached": "", "refused": {"10.0.0.1": "timed out"}},
            "10.0.0.1: timed out",
            "`address`",
        ),
    ],
)
def test_what_is_wrong_with_a_node_is_told_with_what_to_do(
    check: str, report: dict[str, Any], said: str, fix: str
) -> None:
    found = read(**report)
    assert [name for name, each in found.items() if not each.ok] == [check]
    assert said in found[check].found
    assert fix in found[check].fix
    assert found[check].required


def test_a_report_that_came_by_the_network_alone_says_that_files_are_not_shared() -> None:
    assert read()["files"].ok
    site = Site.model_validate({"name": "s", "scheduler": "slurm", "pools": {"p": {"cores": 4}}})
    report = {"token": DIGEST, "version": platform.python_version()}
    files = {each.name: each for each in read_report(site, "p", Report.model_validate(report), DIGEST)}[
        "p: files"
    ]
    assert not files.ok
    assert "this host does not see what it writes there" in files.found


def test_a_network_that_controllers_in_jobs_do_not_need_is_advice() -> None:
    found = read(home="job", reached="", refused={"10.0.0.1": "timed out"})["network"]
    assert (found.ok, found.required) == (False, False)


def test_a_pool_with_gpus_wants_a_variable_that_names_them() -> None:
    lacking, given = read(cards=2)["node"], read(cards=2, gpus={"CUDA_VISIBLE_DEVICES": "0"})["node"]
    assert (lacking.ok, lacking.required) == (False, False)
    assert "no variable says which GPUs" in lacking.found
    assert given.ok
    assert "CUDA_VISIBLE_DEVICES=0" in given.found


def test_a_launcher_that_the_node_lacks_is_an_extra() -> None:
    found = read(launcher=None)["launcher"]
    assert (found.ok, found.required) == (False, False)
    assert "no 'srun' on the node" in found.found


def test_a_node_with_fewer_cores_than_the_pool_says_is_told() -> None:
    assert "cores" not in read(host_cores=4)
    found = read(host_cores=2)["cores"]
    assert (found.ok, found.required) == (False, False)
    assert "the node has 2, and the pool says 4" in found.found
    assert "`cores: 2`" in found.fix


# --- how it is heard ------------------------------------------------------------------------------


def test_a_report_that_knows_the_token_is_heard() -> None:
    with Ear() as ear:
        probe.send("127.0.0.1", ear.port, ear.token.encode(), {"pool": "p0", "host": "n1"})
    assert ear.reports == {"p0": Report(pool="p0", host="n1")}


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
