"""What a run that is watched shows while it waits for blocks, and of trouble with its scheduler."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from diel.controller.controller import Controller
from diel.controller.start import create
from diel.planning.check import check
from diel.planning.plan import make_plan
from diel.site.site import Site
from diel.store.project.lease import take
from diel.store.project.run_file import read_run_file
from diel.ui.terminal import bars, progress
from diel.ui.terminal.bars import Bars
from diel.ui.terminal.meter import Meter
from diel.ui.terminal.progress import FIRST_NEWS, Foreground, Plain
from tests.record import as_record

WAITING = "waiting for a block: job 123 pending (Priority)"
Capture = pytest.CaptureFixture[str]


SITE = {"name": "cluster", "scheduler": "local", "pools": {"cpu": {"cores": 4}}}
BLOCK = {"event": "block", "block": "1-0", "job": "123", "pool": "cpu", "shape": "cpu-1c", "state": "pending"}


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    """One that waits for its only block."""
    text = "diel: 1\nname: w\naxes: {i: {range: 3}}\nstages: {a: {over: [i], command: [x]}}"
    plan = make_plan(check(tmp_path / "w.yaml", text=text), Site.model_validate(SITE))
    paths = create(plan, tmp_path / "runs")
    lease, segment = take(paths)
    made = Controller(plan, read_run_file(paths), paths, lease, segment)
    made.history.apply(as_record({**BLOCK, "reason": "Priority", "ending": False, "ended": None}))
    return made


def test_plain_news_tell_what_is_waited_for(
    controller: Controller, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    plain = Plain(controller)
    now += FIRST_NEWS
    plain.look(controller.history, Meter(controller), last=False)
    assert capsys.readouterr().out.splitlines()[1:] == [f"   30s  {WAITING}"]


@pytest.mark.parametrize("last", [False, True])
def test_a_line_below_the_bars_tells_of_blocks_while_the_run_goes_on(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        bars, "Console", lambda **kind: Console(file=screen, force_terminal=True, width=80, **kind)
    )
    drawn = Bars(controller)
    drawn.look(controller.history, Meter(controller), last=last)
    drawn.close()
    assert (WAITING in screen.getvalue()) is not last


def test_trouble_is_said_once_when_it_comes(controller: Controller, capsys: Capture) -> None:
    history = controller.history
    history.trouble = "a block was refused:\nInvalid account"
    watch = Foreground(controller, progress.QuietReporter())
    watch.look(history, last=True)
    watch.look(history, last=True)
    assert capsys.readouterr().out == "trouble: a block was refused: Invalid account\n"
