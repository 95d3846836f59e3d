"""Values out of files, in whole runs: the example of the docs, a pattern that finds nothing, what is a key."""

from __future__ import annotations

import re
from pathlib import Path

from tests.throwaway import Project


def test_the_example_of_the_docs_gives_its_values(tmp_path: Path, root: Path) -> None:
    page = (root / "docs" / "workflow-file.md").read_text(encoding="utf-8")
    section = page.partition("### Values out of files")[2]
    (example, *_) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    project = Project(tmp_path).workflow(example)
    values = project.run().results("scf")[0]["values"]
    found = {"energy": -15.85, "pressures": [0.71, 0.74], "force": 0.01, "seconds": 12.5, "warned": False}
    assert values == found


FLOW = """
axes: {x: {values: [1, 2]}}
stages:
  a:
    over: [x]
    command: 'echo step; if [ ${{ x }} = 1 ]; then echo E = 1.5 > a-${{ x }}.out; else echo died > a-${{ x }}.out; fi'
    outputs: {e: {value: float, file: "a-${{ x }}.out", match: 'E = (.*)'}}
  b: {over: [x], command: [echo, "${{ a.e }}"]}
"""


def test_a_task_in_which_nothing_is_found_fails_alone_with_the_end_of_its_file(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(FLOW)
    run = project.run(code=1)
    failure = run.failure("a", 1)
    told = "output 'e': nothing in a-2.out matches 'E = (.*)'\n    it ends with:\n      died"
    assert (failure["class"], failure["message"]) == ("app", told)
    assert "died" in project.diel("explain", "a/1")
    assert "matches 'E = (.*)'\n    it ends with:\n      died\n" in project.diel("status")
    assert run.counts("b") == {"done": 1, "skipped": 1}


def test_another_pattern_is_another_key(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(FLOW.replace("died", "E = 2"))
    project.run()
    assert "4 cached" in project.diel("run", "flow.yaml")
    project.workflow(FLOW.replace("died", "E = 2").replace("E = (.*)'}", "E = +(.*)'}"))
    assert "2 cached" in project.diel("run", "flow.yaml")
    assert "outputs.e" in project.diel("explain", "a/0")
