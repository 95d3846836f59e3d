"""The page of a run, as its readers get it: one file that a real browser opens without a network."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from diel.ui.page import document
from diel.ui.page.panel import RunView
from tests import browser
from tests.cli.call import Called, call
from tests.handmade import Handmade

TWO = """
axes:
  n: {range: 4}
stages:
  first: {kind: simulation, over: [n], command: [x], outputs: {v: {value: float}}}
  last: {kind: analysis, command: "x ${{ mean(first.v) }}"}
"""


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    made = Handmade(tmp_path, TWO)
    made.paths.site.write_text(
        '{"name": "local", "scheduler": "local", "pools": {"local": {"cores": 4}}}', "utf-8"
    )
    return made.stage("first", 4, "simulation", module="m").stage("last", 1, module="m")


Report = Callable[..., Called]


@pytest.fixture
def report(run: Handmade, capsys: pytest.CaptureFixture[str]) -> Report:
    """`diel report` of the run, with further words."""
    return partial(call, capsys, "report", "w", "--runs", str(run.folder / "runs"))


@pytest.mark.skipif(browser.PROGRAM is None, reason=browser.MISSING)
def test_a_page_opens_without_a_network_draws_its_charts_and_says_nothing(
    run: Handmade, report: Report
) -> None:
    for index in range(3):
        run.done("first", index, v=index / 2)
    run.failed("first", 3)
    run.end("failed")
    page = run.folder / "run.html"
    assert report("-o", str(page)).code == 0
    opened = browser.look_at(page)
    assert opened.console == []
    assert {"timeline-1", "cores-1"} <= opened.drawn()
    assert opened.dom.index("<h1>w-1</h1>") < opened.dom.index('<h2 id="run-title">')
    assert "undefined" not in opened.dom.partition("<script")[0]
    for text in ("w-1", "failed", "first/3", "3 of 4", "The numbers", "Cores that tasks had"):
        assert text in opened.dom


def test_the_page_of_a_run_that_has_not_begun_says_so(tmp_path: Path) -> None:
    made = Handmade(tmp_path, TWO)
    text = document.page(RunView(made.paths))
    assert "The run has no stage yet" in text or "waiting" in text


def test_what_cannot_be_read_is_said_in_its_place_and_the_rest_is_shown(run: Handmade) -> None:
    run.done("first", 0, v=1.0)
    run.paths.workflow.write_text("stages: [", encoding="utf-8")
    run.paths.run_file.write_text("{", encoding="utf-8")
    text = document.page(RunView(run.paths))
    assert "How the run was asked for cannot be read" in text
    assert "1 of 4" in text
    assert 'id="timeline-1"' in text


def test_the_page_of_a_damaged_journal_says_where_and_shows_what_ran(run: Handmade) -> None:
    run.done("first", 0, v=1.0)
    run.write("end", state="no such state")
    text = document.page(RunView(run.paths))
    assert "damaged" in text
    assert text.count("controller-0001.jsonl:4") == 1, "once, and not in each panel"
    assert "cannot be shown" not in text
    assert "1 of 4" in text
    assert 'id="timeline-1"' in text


def test_a_report_that_is_no_page_and_no_markdown_is_refused(report: Report) -> None:
    refused = report("-o", "run.pdf")
    assert refused.code == 2
    assert "-o run.html makes a page" in refused.err
    refused = report("--public")
    assert refused.code == 2
    assert "--public is for a page" in refused.err


def test_without_the_library_the_page_says_what_to_install(
    run: Handmade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(Exception, match=r"pip install 'diel\[report\]'"):
        document.page(RunView(run.paths))


def test_a_page_that_cannot_be_written_leaves_nothing(run: Handmade, report: Report) -> None:
    refused = report("-o", str(run.folder / "nowhere" / "run.html"))
    assert refused.code == 1
    assert "nowhere" in refused.err
    assert "Traceback" not in refused.err
    assert not list(run.folder.glob("**/*.part"))
