"""The page of a whole run in a real browser: without a network each chart is drawn, and no picture runs a script."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest

from diel.ui.page.document import page, panel_html
from diel.ui.page.panel import (
    Alternatives,
    Bar,
    Entry,
    Facts,
    Grid,
    Log,
    Panel,
    Part,
    Picture,
    Plot,
    RunView,
    Sketch,
    Text,
)
from diel.ui.page.panels import END, Public, failures, hyperparameters, panel_of, plain_png, provenance
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


FAILING = """
axes: {depth: {values: [1.0, 2.0]}, seed: {range: 3}}
stages:
  sim: {over: [depth, seed], command: [x], outputs: {e: {value: float}}}
  mean: {over: [depth], command: [x, "${{ sim.e }}"]}
"""


def test_failures_alike_are_one_row_with_the_end_of_one_stderr(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FAILING).stage("sim", 6).stage("mean", 2)
    for index in (0, 1, 2):
        run.done("sim", index, e=1.0) if index else run.failed("sim", index, message="exit code 4")
    for index in (3, 4, 5):
        run.failed("sim", index, stderr_tail="x" * 2 * END + "\nno convergence\n", headline="no convergence")
    run.skipped("mean", 0, 1, cause="sim").end("failed")
    table, *rest = failures(RunView(run.paths))
    assert isinstance(table, Grid)
    assert [list(row) for row in table.rows] == [
        ["sim", 1, "app", "exit code 4", "sim/0", ""],
        ["sim", 3, "app", "exit code 3: no convergence", "sim/3, sim/4, sim/5", "all 3 with depth=2.0"],
    ]
    logs = [part for part in rest if isinstance(part, Log)]
    assert [log.caption for log in logs] == [
        "sim/0 (depth=1.0, seed=0), the end of its stderr",
        "sim/3 (depth=2.0, seed=0), the end of its stderr",
    ]
    assert logs[1].text.endswith("\nno convergence")
    assert len(logs[1].text) == END
    assert sum("Next: " in part.text for part in rest if isinstance(part, Text)) == 2
    skipped = rest[-1]
    assert isinstance(skipped, Grid)
    assert "has no result" in str(skipped.rows[0][1])


def test_a_message_stands_once_and_without_colours(tmp_path: Path) -> None:
    run, said = Handmade(tmp_path, FAILING).stage("sim", 6), "RuntimeError: unstable"
    run.failed("sim", 0, said, headline=said, stderr_tail="\x1b[31mRED\x1b[0m\n").end("failed")
    panel = panel_of(Entry("failures", "Failures", failures), RunView(run.paths))
    assert panel is not None
    html = panel_html(panel, {})
    assert html.count(said.replace(" ", "&nbsp;")) + html.count(said) == 1
    assert ">RED</pre>" in html


def test_what_the_workflow_leaves_out_is_no_failure(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FAILING).stage("sim", 6).skipped("sim", 0, reason="when").end("succeeded")
    assert list(failures(RunView(run.paths))) == []


def test_without_its_workflow_failures_are_listed_as_the_journal_has_them(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FAILING).stage("sim", 6).failed("sim", 2).end("failed")
    run.paths.workflow.write_text("junk {")
    panel = panel_of(Entry("failures", "Failures", failures), RunView(run.paths))
    assert panel is not None
    table, why = panel.parts
    assert isinstance(table, Grid)
    assert [list(row) for row in table.rows] == [["sim/2", "app", "exit code 3"]]
    assert isinstance(why, Text)
    assert "its workflow cannot be read" in why.text


TUNED = """
hyperparameters:
  rate: {type: float, default: 0.1, low: 0.001, high: 1, log: true, description: Step.}
  kind: {type: choice, choices: [adam, sgd], default: adam}
  x: {type: float, low: 0, high: 1}
axes: {trial: {search: {trials: 2, minimize: f.loss, parameters: [x]}}}
stages: {f: {over: [trial], command: [x], outputs: {loss: {value: float}}}}
"""


def test_each_value_says_where_it_came_from(tmp_path: Path) -> None:
    values = {"rate": 0.5, "kind": "adam"}
    origins = {"rate": "command line", "kind": "default"}
    sources = {"rate": "--set hp.rate=0.5", "kind": "w.yaml:4"}
    run = Handmade(tmp_path, TUNED, hyperparameters=values, origins=origins, sources=sources)
    (table,) = hyperparameters(RunView(run.paths))
    assert isinstance(table, Grid)
    assert [list(row) for row in table.rows] == [
        ["hp.rate", 0.5, "command line: --set hp.rate=0.5", "float, 0.001 to 1, log", 0.1, "Step."],
        ["hp.kind", "adam", "default: w.yaml:4", "adam | sgd", "adam", ""],
        ["hp.x", None, "search: trial", "float, 0 to 1", None, ""],
    ]


PROVEN = "stages: {sim: {command: [echo, hello]}}"


def test_the_command_that_asks_for_the_same_and_the_text_are_told(tmp_path: Path) -> None:
    run = Handmade(tmp_path, PROVEN, settings=("hp.x=1 2",), params_files=("p.yaml",), use_cache=False)
    run.stage("sim", 1, command="0123456789abcdef")
    facts, table, log = provenance(RunView(run.paths))
    assert isinstance(facts, Facts)
    told = dict(facts.facts)
    assert told["asked for"] == "diel run w.yaml --set 'hp.x=1 2' --params p.yaml --no-cache"
    assert told["by"] == "me on here"
    assert isinstance(table, Grid)
    assert list(table.rows[0]) == ["sim", "echo hello", "command 01234567"]
    assert isinstance(log, Log)
    assert PROVEN in log.text
