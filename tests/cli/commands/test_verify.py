"""diel verify: the content of a run's files against its journal."""

from __future__ import annotations

import json
from pathlib import Path

from tests.throwaway import Project

FLOW = """
    axes: {n: {range: 2}}
    stages:
      make:
        over: [n]
        command: 'echo ${{ n }} > a.txt; mkdir d; echo 1 > d/x; echo 2 > d/y; touch 1.log 2.log g.txt'
        outputs: {a: a.txt, d: d, logs: {glob: "*.log"}, gone: {path: g.txt, keep: false}}
      reads: {over: [n], inputs: {x: make.gone}, command: 'true'}
"""


def test_what_differs_is_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow(FLOW)
    run = made.run()
    assert "8 outputs compared, all as they were made" in made.diel("verify")
    (run.task_dir("make", 1) / "d/x").write_text("7\n")
    (run.task_dir("make", 0) / "2.log").write_text("7\n")
    said = made.diel("verify", run.id, code=1)
    assert "make/1.d: " in said
    assert "its file 'x' is another" in said
    assert "make/0.logs: " in said
    assert "2 differ" in said
    document = json.loads(made.diel("verify", "--json", code=1))
    assert (document["run"], document["compared"]) == (run.id, 8)
    assert {one["output"] for one in document["differ"]} == {"make/1.d", "make/0.logs"}


def test_files_of_the_earlier_run_are_compared_too(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow("stages: {make: {command: 'echo 1 > a.txt', outputs: {a: a.txt}}}")
    first = made.run()
    made.run()
    made.diel("verify", "last")
    (first.task_dir("make") / "a.txt").unlink()
    assert "make/0.a: " in made.diel("verify", "last", code=1)
