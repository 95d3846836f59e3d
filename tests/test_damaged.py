"""What a damaged journal still tells: results, exports and comparisons have all the rest, and say what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import diel
from diel.store.journal.snapshot import read_run
from diel.ui.page.outcome.result import parts
from diel.ui.page.panel import RunView, Text
from tests.cli.call import call
from tests.handmade import WORKER, Handmade

Capture = pytest.CaptureFixture[str]
FLOW = "axes: {t: {range: 3}}\nstages: {a: {over: [t], command: [x], outputs: {n: {value: int}}}}"


@pytest.fixture
def run(workspace: Path) -> Handmade:
    run = Handmade(workspace, FLOW).stage("a", 3)
    for index in range(3):
        run.done("a", index, n=index)
    return run


def damage(run: Handmade, new: bytes) -> None:
    """Another text for the beginning of the second task's result."""
    segment = run.paths.journal / WORKER
    old = b'{"event":"done","stage":"a","index":1'
    assert segment.read_bytes().count(old) == 1
    segment.write_bytes(segment.read_bytes().replace(old, new))


@pytest.mark.parametrize("snapshot", [False, True], ids=["no snapshot", "snapshot"])
def test_a_record_of_a_wrong_form_is_left_out_and_its_place_is_said(
    run: Handmade, capsys: Capture, snapshot: bool
) -> None:
    if snapshot:
        read_run(run.paths).save()
    damage(run, b'{"event":"done","stage":"a","index":"x"')
    place = f"{WORKER}:4: a record of `done`: `index` is 'x'"
    for words in (["results", "w-1", "a"], ["results", "w-1", "a", "--usage"]):
        said = call(capsys, *words)
        assert (said.code, place in said.err) == (0, True), said
        assert [line.split()[0].removeprefix("a/") for line in said.out.splitlines()[2:]] == ["0", "2"]
    document = json.loads(call(capsys, "results", "w-1", "a", "--json").out)
    assert [row["a.n"] for row in document["rows"]] == [0, 2]
    assert place in document["missing"]["journal"]
    said = call(capsys, "export", "w-1", "--to", "wfformat", "out")
    assert (said.code, "2 tasks" in said.out, place in said.out) == (0, True, True)
    for words in (["compare", "w-1", "w-1"], ["trend", "w"]):
        said = call(capsys, *words)
        assert (said.code, "a.n" in said.out, place in said.out) == (0, True, True), words
    with pytest.warns(UserWarning, match="index` is 'x'"), pytest.warns(UserWarning, match="have no result"):
        assert len(diel.open_run("w-1").table("a")) == 2


@pytest.mark.parametrize("snapshot", [False, True], ids=["no snapshot", "snapshot"])
def test_a_record_without_its_attempt_hides_neither_reasons_nor_advice(
    workspace: Path, capsys: Capture, snapshot: bool
) -> None:
    used = {"cpu_seconds": 1.0, "system_seconds": 0.1, "memory_bytes": 2**30}
    run = Handmade(workspace, FLOW).stage("a", 3)
    for index in range(3):
        run.work("done", "a", index, seconds=2.0, key=f"{index:032x}", usage=used)
    run.end("succeeded")
    if snapshot:
        read_run(run.paths).save()
    damage(
        run, b'{"event":"done","stage":"a","index":1,"seconds":1.0,"key":"","time":1.0}\n{"event":"future"'
    )
    place = f"w-1 is without a damaged record: {run.paths.journal / WORKER}:2: a record of `done`: `attempt`"
    Path("w.yaml").write_text(f"diel: 1\nname: w\n{FLOW}")
    for words in (
        ["explain", "w-1", "a"],
        ["run", "w.yaml", "--sized-by", "w-1", "-n"],
        ["results", "w-1", "a", "--usage"],
    ):
        said = call(capsys, *words)
        assert (said.code, place in said.err) == (0, True), said
    assert "a could ask for" in call(capsys, "explain", "w-1", "a").out
    assert place in json.loads(call(capsys, "explain", "w-1", "a", "--json").out)["damaged"][0]
    assert call(capsys, "report", "w-1", "-o", "w.html").code == 0
    page = Path("w.html").read_text(encoding="utf-8")
    assert page.count(f"{WORKER}:2: a record of <code>done</code>") == 1
    assert "What another run could ask for" in page
    if not snapshot:  # with one the line is not read
        assert place in call(capsys, "status", "w-1").out
        listed = call(capsys, "list")
        assert ("2/3" in listed.out, place in listed.err) == (True, True), listed
        assert call(capsys, "report", "w-1").code == 0


def test_a_result_whose_line_is_lost_is_counted_where_a_snapshot_knows_of_it(
    run: Handmade, capsys: Capture
) -> None:
    read_run(run.paths).save()
    damage(run, b'\x00"event":"done","stage":"a","index":1')
    said = call(capsys, "results", "w-1", "a")
    assert said.err.strip() == "1 of 3 tasks of 'a' have no result: 1 damaged in the journal"
    assert "w-1: 1 task of 'a', damaged in the journal" in call(capsys, "compare", "w-1", "w-1").out
    assert next(parts(RunView(run.paths))) == Text(
        "a: 1 result damaged in the journal, and not shown.", "bad"
    )
    with pytest.warns(UserWarning, match="1 damaged in the journal"):
        assert len(diel.open_run("w-1").table("a")) == 2


def test_a_line_that_is_no_record_is_told_where_no_snapshot_knows_better(
    run: Handmade, capsys: Capture
) -> None:
    damage(run, b'\x00\xff"event":"done","stage":"a","index":1')
    place = f"w-1 is without a damaged line: {run.paths.journal / WORKER}:4: it is no record of a journal"
    assert place in call(capsys, "results", "w-1", "a").err
    run.end("failed")
    said = call(capsys, "explain", "w-1", "a")
    assert (
        "a: 1 task waiting: was not tried before the run ended, or ran, and what says so is damaged"
        in said.out
    )
    assert place in said.err
    assert place in call(capsys, "status", "w-1").out
    assert json.loads(call(capsys, "status", "w-1", "--json").out)["damaged"] == [place]
    assert place in call(capsys, "compare", "w-1", "w-1").out
    assert place in call(capsys, "export", "w-1", "--to", "wfformat", "out").out
    assert call(capsys, "report", "w-1", "-o", "w.html").code == 0
    assert place in Path("w.html").read_text(encoding="utf-8")
