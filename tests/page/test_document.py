"""A page as a file: nothing in it is fetched, and nothing that a run says can become part of its code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from diel.ui.page.document import document, panel_html
from diel.ui.page.panel import Bar, Facts, Grid, Log, Panel, Picture, Plot, Sketch, Text

EVIL = '</script><script>alert("1")</script><!--'
CHART = Plot(
    EVIL, {"mark": "bar", "data": {"values": [{"x": EVIL, "y": float("nan")}]}}, Grid("t", ("x",), [[EVIL]])
)


def data(*panels: Panel) -> dict[str, Any]:
    made = []
    for panel in panels:
        charts: dict[str, Any] = {}
        html = panel_html(panel, charts)
        made.append({"name": panel.name, "title": panel.title, "html": html, "charts": charts, "digest": "d"})
    return {"run": "w-1", "state": "failed", "panels": made}


def embedded(text: str) -> Mapping[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    read: Mapping[str, Any] = json.loads(found[1])
    return read


def test_what_a_run_says_is_escaped_once_in_texts_and_in_data() -> None:
    parts = (
        Text(EVIL),
        Facts([(EVIL, EVIL)]),
        Log(EVIL, EVIL),
        Picture(EVIL, EVIL, "image/png", b"x"),
        CHART,
    )
    text = document(data(Panel("p", EVIL, parts)))
    assert "alert(" in text
    assert "<script>alert" not in text
    assert "<!--<" not in text.replace("<!doctype", "")
    assert embedded(text)["charts"]["p-1"]["data"]["values"] == [{"x": EVIL, "y": None}]


def test_the_page_names_no_address_but_those_of_names_in_xml() -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', document(data()))
    assert policy is not None
    assert policy[1].startswith("default-src 'none';")
    assert "unsafe" not in policy[1]
    assert "connect-src" not in policy[1]
    assert "connect-src 'self'" in document(data(), live="data")


def test_commands_in_a_text_are_code_and_markup_in_them_is_not() -> None:
    html = panel_html(Panel("p", "P", [Text("`diel resume` goes on, `<b>` does not")]), {})
    assert "<code>diel resume</code> goes on, <code>&lt;b&gt;</code> does not" in html


def test_columns_of_numbers_are_aligned_and_bars_say_what_they_show() -> None:
    table = Grid("numbers", ("task", "loss", "tasks"), [["a", 0.123456789, Bar([("done", 0.5)], "5 of 10")]])
    html = panel_html(Panel("p", "P", [table]), {})
    assert '<td class="number">0.12346</td>' in html
    assert '<rect class="s-done" x="0.00" width="50.00"' in html
    assert "<span>5 of 10</span>" in html
    assert "<caption>numbers</caption>" in html


def test_what_a_keyboard_scrolls_has_a_role_and_a_name_and_sizes_stay_in_a_line() -> None:
    table = Grid("files", ("path", "size"), [["a long path of a file", "22.8 KiB"]])
    sketch = Sketch("stages", "<svg></svg>", table)
    html = panel_html(Panel("p", "P", [table, sketch, Log("its stderr", "boom")]), {})
    stops = re.findall(r'<[^>]* tabindex="0"([^>]*)>', html)
    names = ("files", "stages", "files", "its stderr")
    assert stops == [f' role="group" aria-label="{name}"' for name in names]
    assert '<summary aria-label="The numbers: files">' in html
    assert "a long path of a file" in html
    assert "22.8\N{NO-BREAK SPACE}KiB" in html
