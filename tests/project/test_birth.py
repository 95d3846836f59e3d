"""The birth of a process tells it from any other."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diel.project import birth
from diel.project.birth import birth_of, lives


def test_a_process_is_known_again_until_it_ends() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    born = birth_of(process.pid)
    assert lives(process.pid, born)
    process.kill()
    end = time.monotonic() + 30
    while lives(process.pid, born):  # a zombie, which nobody has asked for its exit code
        assert time.monotonic() < end
    assert lives(process.pid, born) is False
    process.communicate()
    assert lives(process.pid, born) is False
    assert birth_of(process.pid) == ""


def test_a_later_process_with_the_same_number_is_another() -> None:
    place, _, ticks = birth_of(os.getpid()).rpartition("/")
    assert lives(os.getpid(), f"{place}/{int(ticks) - 1}") is False


def test_a_process_keeps_its_birth_whatever_it_calls_itself() -> None:
    born = birth_of(os.getpid())
    was = Path("/proc/self/comm").read_text()
    try:
        Path("/proc/self/comm").write_text(") Z 1 (")
        assert birth_of(os.getpid()) == born
        assert lives(os.getpid(), born)
    finally:
        Path("/proc/self/comm").write_text(was)


@pytest.mark.parametrize("other", ["", "another-boot/4026531836/17", "nonsense", "1/2"])
def test_of_a_process_from_elsewhere_nothing_is_said(other: str) -> None:
    assert lives(os.getpid(), other) is None


def test_of_a_process_that_the_system_hides_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    born = birth_of(os.getpid())

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(birth, "_look", lambda pid: None)
    monkeypatch.setattr("os.kill", refuse)
    assert lives(1, born) is None


def test_in_another_container_of_the_same_host_nothing_is_said() -> None:
    born = birth_of(os.getpid())
    code = f"from diel.project.birth import lives; print(lives({os.getpid()}, {born!r}))"
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare:" in done.stderr:
        pytest.skip(f"no PID namespace can be made here: {done.stderr.strip()}")
    assert done.stdout == "None\n"
