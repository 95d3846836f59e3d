"""Templates as a run keeps them: by the stage that has them, and in runs of earlier times by their files."""

from __future__ import annotations

from pathlib import Path

from diel.load.document import fill_templates, kept_templates
from diel.spec import Workflow
from diel.spec.data import Filling
from tests.check.asking import checked

FLOW = """
stages:
  a: {command: ["true"], files: {x: {template: x.in}}}
  b: {command: ["true"], files: {x: {template: x.in}}}
"""


def texts(spec: Workflow) -> list[str]:
    return [one.text for one in kept_templates(spec).values()]


def test_each_stage_gets_back_its_own_text_and_in_an_earlier_run_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "x.in").write_text("now")
    spec = checked(tmp_path, FLOW).workflow
    kept = kept_templates(spec)
    assert len(kept) == 2
    fill_templates(spec, {key: Filling(key[:8]) for key in kept})
    assert texts(spec) == ["stages.a", "stages.b"]
    fill_templates(spec, {"x.in": Filling("then")})
    assert texts(spec) == ["then", "then"]
