"""Numbers keep their digits on every way into a run, or somebody says so."""

from __future__ import annotations

from pathlib import Path

from tests.throwaway import Project

BUILDS = """
    stages:
      make: {command: "printf 'version\\n1.1\\n1.10\\n' > b.csv", outputs: {b: {path: b.csv}}}
      test: {over: [v], command: "echo ${{ v }}"}
    axes: {v: {from: make.b%s}}
"""


def test_a_text_that_an_axis_of_results_reads_as_a_number_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(BUILDS.replace("v }}", "version }}") % "")
    told = "axis 'v': version: 1.10 is read as 1.1; columns: {version: str} keeps it"
    assert told in project.diel("run", "flow.yaml")
    assert told in project.diel("status", "last")
    project.workflow(BUILDS.replace("v }}", "version }}") % ", columns: {version: str}")
    assert "is read as" not in project.diel("run", "flow.yaml") + project.diel("status", "last")
