"""What a run that is watched shows while it waits for blocks, and of trouble with its scheduler."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from diel.journal.history import History
from diel.paths import RunPaths
from diel.terminal import bars, progress
from diel.terminal.bars import Bars
from diel.terminal.progress import FIRST_NEWS, Plain, Watch

WAITING = "waiting for a block: job 123 pending (Priority)"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def controller(tmp_path: Path) -> Any:
    stage = SimpleNamespace(tasks=3)
    plan = SimpleNamespace(stages={"a": stage}, site=SimpleNamespace(name="cluster"), may_end_early=False)
    return SimpleNamespace(plan=plan, paths=RunPaths(tmp_path / "runs" / "w-1"))


def meter(blocks: str) -> Any:
    return SimpleNamespace(
        rows=lambda history: [],
        axes=lambda history, last: (),
        blocks_text=lambda history: blocks,
        time_left_text=lambda history: "",
    )


def test_plain_news_tell_what_is_waited_for(
    controller: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    plain = Plain(controller)
    now += FIRST_NEWS
    plain.look(History(), meter(WAITING), last=False)
    assert capsys.readouterr().out.splitlines()[1:] == [f"   30s  {WAITING}"]


@pytest.mark.parametrize("last", [False, True])
def test_a_line_below_the_bars_tells_of_blocks_while_the_run_goes_on(
    controller: Any, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        bars, "Console", lambda **kind: Console(file=screen, force_terminal=True, width=80, **kind)
    )
    drawn = Bars(controller)
    drawn.look(History(), meter(WAITING), last=last)
    drawn.close()
    assert (WAITING in screen.getvalue()) is not last


def test_trouble_is_said_once_when_it_comes(controller: Any, capsys: Capture) -> None:
    history = History(trouble="a block was refused:\nInvalid account")
    controller.plan.graph = SimpleNamespace(order=())
    controller.history = history
    watch = Watch(controller, progress.Quiet())
    watch.last_look(history)
    watch.last_look(history)
    assert capsys.readouterr().out == "trouble: a block was refused: Invalid account\n"
