"""The page in a real browser: it follows the run, breaks no rule of its policy, and says when nobody answers."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diel.ui.page import panels
from diel.ui.page.panel import Entry, Text
from diel.ui.view import run_watch
from diel.ui.view.run_watch import LivePage
from diel.ui.view.server import Port, handler
from tests import browser
from tests.handmade import Handmade

pytest.importorskip("vl_convert", reason="pages need vl-convert-python")


class Changing(LivePage):
    """A page whose run goes on once it was loaded, and whose view dies after it has told that."""

    def __init__(self, run: Handmade) -> None:
        super().__init__(run.paths)
        self.run, self.told = run, 0

    def whole(self) -> str:
        text = (
            super().whole().replace('tabindex="0"', 'tabindex="0" autofocus', 1)
        )  # its reader stands on a table
        assert 'class="table" tabindex="0" autofocus' in text
        self.run.done("simulate", 0).end("succeeded")
        return text

    def delta(self, since: int) -> dict[str, Any]:
        self.told += 1
        if self.told > 1:
            raise ConnectionResetError
        return super().delta(since)


@pytest.mark.skipif(browser.PROGRAM is None, reason=browser.MISSING)
def test_an_open_page_follows_its_run_and_says_when_nobody_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_watch, "REST", 0.0)
    run = Handmade(tmp_path, 'stages: {simulate: {command: ["true"]}}', alive=True).stage("simulate", 1)
    page, place = Changing(run), Port(0)
    with place.listen(handler(page, place)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}"]
        words += ["--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"]
        address = f"http://localhost:{place.number}/?token={place.token}"
        opened = subprocess.run(
            [str(browser.PROGRAM), *words, address], capture_output=True, text=True, timeout=60, check=True
        )
        server.shutdown()
    assert ">succeeded</span>" in opened.stdout
    assert "<span>1 of 1</span>" in opened.stdout
    assert "diel view no longer answers" in opened.stdout
    assert "Content Security Policy" not in opened.stderr


def test_a_panel_that_takes_long_keeps_no_answer_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = threading.Event()

    def slow(seen: object) -> Iterator[Text]:
        made.wait(30)
        yield Text("slow at last")

    monkeypatch.setattr(run_watch, "ENTRIES", (*panels.ENTRIES, Entry("slow", "Slow", slow)))
    monkeypatch.setattr(run_watch, "BRIEFLY", 0.01)
    run = Handmade(tmp_path, 'stages: {simulate: {command: ["true"]}}', alive=True).stage("simulate", 1)
    page = LivePage(run.paths)
    while "stages" not in (names := [panel["name"] for panel in page.delta(-1)["panels"]]):
        pass
    assert "slow" not in names
    made.set()
    while "slow at last" not in page.delta(-1)["panels"][-1]["html"]:
        pass
