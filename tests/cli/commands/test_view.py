"""`diel view` on a terminal of its own, without one, and without what draws it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.handmade import Handmade
from tests.screen import Terminal
from tests.throwaway import Project

Capture = pytest.CaptureFixture[str]
STAGE = 'stages: {simulate: {command: ["true"]}}'


def test_it_is_drawn_on_a_terminal_and_gives_it_back_when_it_is_terminated(tmp_path: Path) -> None:
    Handmade(tmp_path, STAGE).stage("simulate", 1).done("simulate", 0).end("succeeded")
    terminal = Terminal(Project(tmp_path), "view")
    terminal.read(lambda: "succeeded" in terminal.text and "simulate" in terminal.text)
    terminal.process.terminate()
    assert terminal.end() == 0
    screens = [terminal.raw.count(f"\x1b[?1049{word}") for word in "hl"]
    assert screens == [1, 1], "on a screen of its own, which it leaves"
    assert "Traceback" not in terminal.text


def test_without_a_terminal_it_names_the_command_that_needs_none(workspace: Path, capsys: Capture) -> None:
    Handmade(workspace, STAGE).stage("simulate", 1)
    called = call(capsys, "view")
    assert called.code == 2
    assert "view needs a terminal whose cursor moves; `diel status w-1` prints the state" in called.err


def test_what_is_not_installed_is_named_with_its_extra(
    workspace: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Handmade(workspace, STAGE).stage("simulate", 1)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "diel.cli.commands.status.find_spec", lambda name: None if name == "textual" else found(name)
    )
    called = call(capsys, "view")
    assert called.code == 2
    assert "pip install 'diel[view]'" in called.err
