"""When a service is to stop: because its controller says so, or because there is none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diel.paths import RunPaths
from diel.services.endpoint import STOP, message_file
from diel.worker import service
from diel.worker.service import GONE, Stopped, Wanted
from tests.throwaway import wait_for


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "w-1")
    message_file(made, "serve", 0, 1, STOP).parent.mkdir(parents=True)
    made.lease.touch()
    return made


def stopped(one: Wanted) -> str:
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
    one = Wanted(paths, "serve", 0, 1, idle=300.0)
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
    one = Wanted(paths, "serve", 0, 1, idle=0.1)
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
    one, other = (Wanted(paths, "serve", 0, 1, idle=idle) for idle in (0.1, 300.0))
    lose(paths.lease)
    wait_for(lambda: stopped(one) == GONE)
    assert not stopped(other)
