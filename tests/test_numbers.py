"""Numbers keep their digits on every way into a run, or somebody says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


def test_every_document_is_json_whatever_a_point_is(tmp_path: Path) -> None:
    text = "stages: {s: {over: [x], command: [echo], outputs: {}}}\naxes: {x: {values: [.nan, 1, -.inf]}}\n"
    project = Project(tmp_path).workflow(text)
    project.run()
    for words in ("explain last s/0", "results last", "status last", "status last s", "graph last --format"):
        json.loads(
            project.diel(*words.split(), "json" if "graph" in words else "--json"), parse_constant=refuse
        )
    assert '"x": "NaN"' in project.diel("explain", "last", "s/0", "--json")


def test_exported_documents_are_json_whatever_a_point_is(tmp_path: Path) -> None:
    pytest.importorskip("rocrate", reason="diel[provenance] is not installed")
    project = Project(tmp_path).workflow(
        "stages: {s: {over: [x], command: [touch, f], outputs: {f: {path: f}}}}\naxes: {x: {values: [.nan, .inf]}}\n"
    )
    project.run()
    project.diel("export", "last", "crate", "--to", "rocrate")
    file = next(tmp_path.rglob("ro-crate-metadata.json"))
    json.loads(file.read_text(), parse_constant=refuse)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_the_best_trial_is_that_of_the_exact_whole_number(tmp_path: Path) -> None:
    text = """
        hyperparameters: {k: {type: int, low: 1, high: 2}}
        axes: {t: {search: {parameters: [k], sampler: random, trials: 2, enqueue: [{k: 1}, {k: 2}], minimize: s.y}}}
        stages:
          s:
            over: [t]
            command: "echo '{\\"y\\": ${{ 9007199254740992 + hp.k % 2 }}}' > $DIEL_RESULT"
            outputs: {y: {value: int}}
    """
    said = Project(tmp_path).workflow(text).diel("run", "flow.yaml")
    assert "best trial 1: 9007199254740992, k=2" in said
    assert "9007199254740993" in Project(tmp_path).diel("results", "last", "--trials")
