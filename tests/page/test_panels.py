"""The page of a whole run in a real browser: without a network each chart is drawn, and no picture runs a script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diel.page.document import page
from diel.page.seen import Seen
from tests import browser
from tests.searched import Searched, search

SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>document.title = "taken"; alert(1)</script></svg>'


@pytest.fixture
def searched(tmp_path: Path) -> Searched:
    """A search with enough trials for each chart, and a picture with a script."""
    run = search(tmp_path)
    for number in range(5, 14):
        run.trial(number, number / 4)
        run.about("reported", number=number, step=0, value=3.0)
        run.about("reported", number=number, step=1, value=2.0)
        run.score(number, (number / 4) ** 2)
    path = run.paths.task_dir("f", 4, 1) / "a.svg"
    path.parent.mkdir(parents=True)
    path.write_text(SVG)
    entry = {"path": "tasks/f/4/a.svg", "size": len(SVG), "digest": "d"}
    run.work("done", "f", 4, seconds=1.0, key="k", values={"loss": 1.0}, artifacts={"model": entry})
    run.failed("sub", 9, stderr_tail="</script><script>document.title = 'taken'</script>")
    return run


@pytest.mark.skipif(browser.PROGRAM is None, reason=browser.MISSING)
def test_every_chart_is_drawn_from_a_file_and_nothing_of_the_run_becomes_code(searched: Searched) -> None:
    pytest.importorskip("vl_convert", reason="pages need vl-convert-python")
    file = searched.folder / "run.html"
    file.write_text(page(Seen(searched.paths)), encoding="utf-8")
    opened = browser.look_at(file)
    assert opened.console == []
    assert "<title>w-1 interrupted</title>" in opened.dom
    assert len(opened.drawn()) >= 5
    assert ">This chart cannot be drawn" not in opened.dom
    assert opened.dom.count('src="data:image/svg+xml;base64,') == 1
    for panel in ("failures", "searches", "results", "artifacts", "hyperparameters", "provenance"):
        assert f'<section id="{panel}"' in opened.dom
    charts = re.findall(r'role="img" aria-label="[^"]+"[^>]*><svg[^>]*>', opened.dom)
    assert len(charts) == len(opened.drawn())
    assert all('aria-hidden="true"' in chart for chart in charts), (
        "a reader hears the name and the table alone"
    )
    assert 'fill="var(--soft)"' in opened.dom, "axes follow light, dark and print"
