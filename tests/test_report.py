"""What a report says of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.ui.page.document import report as written
from diel.ui.page.panel import RunView
from tests.handmade import Handmade
from tests.searched import MATERIALS, Searched, loop, search


def report(run: Handmade) -> str:
    return written(RunView(run.paths))


def test_a_loop_is_told_with_its_course(workspace: Path) -> None:
    run = loop(workspace, over=True)
    said = report(run)
    assert said.startswith("# w-1: succeeded\n")
    assert "## Loops\n\nround: over after 3 rounds: `until` held in round 2 (loop until " in said
    assert "| round | check.error | until holds |\n|---|---|---|\n| 0 | 0.8 | no |" in said
    assert "| 2 | 0.05 | yes |" in said
    assert "| check | analysis | 3 of 3 |" in said
    assert "| check.error | round | 3 of 3 | 0.8 |" in said
    assert "## Failures" not in said


def test_a_search_is_told_with_its_best_trial(workspace: Path) -> None:
    run = search(workspace)
    said = report(run)
    assert " (tpe, minimize f.loss)." in said
    assert (
        "| trial | state | f.loss | x | why |\n|---|---|---|---|---|\n| 1 | complete | 0.25 | 0.5 |" in said
    )


def test_several_objectives_are_told_with_their_front_for_each_point(workspace: Path) -> None:
    run = Searched(workspace, MATERIALS).about("begin", 0, seed=1, at={"material": "Si"})
    for number, scores in enumerate([(1.0, 3.0), (2.0, 2.0), (3.0, 3.0)]):
        run.trial(number, 0.5, 0).score(number, *scores, context=(0,))
    said = report(run)
    assert "trial at material Si: the trials, the Pareto front first:" in said
    assert (
        "| trial | state | f.loss | f.time | x |\n|---|---|---|---|---|\n"
        "| 0 | complete | 1 | 3 | 0.5 |\n| 1 | complete | 2 | 2 | 0.5 |\n| 2 | complete | 3 | 3 | 0.5 |\n\n"
    ) in said


def test_failures_are_told_and_do_not_break_the_table(workspace: Path) -> None:
    run = search(workspace).failed("f", 4, "a | b\n<script>").end("failed")
    said = report(run)
    assert "| f | 1 | app | a \\| b &lt;script> | f/4 |" in said
    assert "Next: `diel logs w-1 f/4` shows all its output" in said


def test_results_are_told_by_output_and_files_by_their_path_in_the_run(workspace: Path) -> None:
    text = "axes: {i: {range: 2}}\nstages: {s: {over: [i], command: [x], outputs: {out: out.txt, n: {value: int}}}}\n"
    run = Handmade(workspace, text)
    assert "## Results" not in report(run)
    run.write("stage", stage="s", kind="analysis", total=2).done("s", 0, {"out": "text"}, n=7).end(
        "cancelled"
    )
    said = report(run)
    assert "| s.n | i | 1 of 2 | 7 |" in said
    assert "| s.out | i | 1 of 2 | tasks/s/0/out.txt |" in said


def test_of_many_rows_the_first_are_shown_and_the_others_counted(workspace: Path) -> None:
    run = Handmade(workspace, "stages: {s: {command: [x]}}")
    values: dict[str, Any] = {f"n{i}": i for i in range(23)}
    run.write("stage", stage="s", kind="analysis", total=1).done("s", 0, **values)
    said = report(run.end("succeeded"))
    assert "| s.n19 |  | 1 of 1 | 19 |\n\nand 3 more.\n" in said
    assert "s.n20" not in said
