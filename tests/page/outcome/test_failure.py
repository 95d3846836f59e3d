"""The panel of failures: those alike together, with the ends of their output."""

from __future__ import annotations

from pathlib import Path

from diel.page.document import panel_html
from diel.page.panel import Entry, Grid, Log, Text
from diel.page.panels import END, failures, panel_of
from diel.page.run_view import RunView
from tests.handmade import Handmade

FLOW = """
axes: {depth: {values: [1.0, 2.0]}, seed: {range: 3}}
stages:
  sim: {over: [depth, seed], command: [x], outputs: {e: {value: float}}}
  mean: {over: [depth], command: [x, "${{ sim.e }}"]}
"""


def test_failures_alike_are_one_row_with_the_end_of_one_stderr(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("sim", 6).stage("mean", 2)
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
    run, said = Handmade(tmp_path, FLOW).stage("sim", 6), "RuntimeError: unstable"
    run.failed("sim", 0, said, headline=said, stderr_tail="\x1b[31mRED\x1b[0m\n").end("failed")
    panel = panel_of(Entry("failures", "Failures", failures), RunView(run.paths))
    assert panel is not None
    html = panel_html(panel, {})
    assert html.count(said.replace(" ", "&nbsp;")) + html.count(said) == 1
    assert ">RED</pre>" in html


def test_what_the_workflow_leaves_out_is_no_failure(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("sim", 6).skipped("sim", 0, reason="when").end("succeeded")
    assert list(failures(RunView(run.paths))) == []


def test_without_its_workflow_failures_are_listed_as_the_journal_has_them(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("sim", 6).failed("sim", 2).end("failed")
    run.paths.workflow.write_text("junk {")
    panel = panel_of(Entry("failures", "Failures", failures), RunView(run.paths))
    assert panel is not None
    table, why = panel.parts
    assert isinstance(table, Grid)
    assert [list(row) for row in table.rows] == [["sim/2", "app", "exit code 3"]]
    assert isinstance(why, Text)
    assert "its workflow cannot be read" in why.text
