"""The page of a whole run in a real browser: without a network each chart is drawn, and no picture runs a script."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest

from diel.page.document import page
from diel.page.panel import Alternatives, Bar, Facts, Grid, Log, Panel, Part, Picture, Plot, Sketch, Text
from diel.page.panels import Public, plain_png
from diel.page.run_view import RunView
from tests import browser
from tests.handmade import Handmade
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
    file.write_text(page(RunView(searched.paths)), encoding="utf-8")
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


FLOW = "stages: {sim: {command: [x]}}"


@pytest.fixture
def public(tmp_path: Path) -> Public:
    """Of a run by `ada` on `cray-07`, with a worker on `node`."""
    run = Handmade(tmp_path, FLOW)
    text = run.paths.run_file.read_text().replace('"here"', '"cray-07"').replace('"me"', '"ada"')
    run.paths.run_file.write_text(text)
    return Public(RunView(run.paths))


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("cannot open /scratch/ada/data/x.npy: no", "cannot open …/x.npy: no"),
        ("opening /scratch//data on it", "opening …/data on it"),
        ("see file:///scratch/ada/x.txt, sftp://cray/data/x", "see …/x.txt, …/x"),
        ("PATH=//scratch/x", "PATH=…/x"),
        ("[fe80::1ff:fe23:4567:890a]:80, ::1 at 12:34:56", "[ADDRESS]:80, ADDRESS at 12:34:56"),
        ("~/secret/key and ~ada/x", "…/key and ~USER/x"),
        ("Ada ran it on CRAY-07.site.org, not adamant", "USER ran it on HOST.site.org, not adamant"),
        ("worker-0001-node-7-abc at 10.1.2.3:4000", "worker-0001-HOST-7-abc at ADDRESS:4000"),
        ("1/2 of https://diel.org/docs, 3.5/s", "1/2 of https://diel.org/docs, 3.5/s"),
    ],
)
def test_a_text_keeps_its_sense(public: Public, told: str, left: str) -> None:
    assert public.text(told) == left


def test_a_path_in_the_run_stays_as_one_from_its_directory(public: Public, tmp_path: Path) -> None:
    assert public.text(f"see {tmp_path}/runs/w-1/tasks/sim/0/out") == "see tasks/sim/0/out"


def test_every_part_of_a_panel_is_gone_through(public: Public) -> None:
    told = "/scratch/ada/x on cray-07"
    table = Grid(told, [told], [[told, 1.5, None, True, Bar([("done", 1.0)], told)]])
    spec = {
        "data": {"values": [{"ada": told, "y": 1}]},
        "mark": "line",
        "title": told,
        "scale": {"domain": [told]},
    }
    chart = Plot(told, spec, table)
    parts: list[Part] = [
        Text(told, "bad"),
        Facts([("by", told)]),
        chart,
        Alternatives(told, [(told, chart)]),
        Sketch(told, f"<svg><text>{told}</text></svg>", table),
        Log(told, told),
        Picture(told, told, "image/svg+xml", f"<svg><!-- {told} --></svg>".encode()),
    ]
    found = public.panel(Panel("all", "All", parts))
    text = repr(found)
    assert "/scratch" not in text
    assert "cray" not in text
    assert text.count("ada") == 2, "the key of a column stays, in both charts"
    assert [type(part) for part in found.parts] == [type(part) for part in parts]
    made = found.parts[2]
    assert isinstance(made, Plot)
    assert made.spec["mark"] == "line"
    assert made.table.rows[0][1:4] == [1.5, None, True]


def test_a_png_loses_what_programs_noted_in_it() -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head, end = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", bytes(13)), chunk(b"IEND", b"")
    noted = head + chunk(b"tEXt", b"Author\0ada") + chunk(b"IDAT", b"abc") + chunk(b"eXIf", b"x") + end
    assert plain_png(noted) == head + chunk(b"IDAT", b"abc") + end
