"""Two stages that are one computation give one result, random numbers included: that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

MODULE = """
    import random

    def draw(n: int = 1, seed: int = 0) -> dict:
        return {"x": random.random()}

    def other(x: list[float]) -> dict:
        return {"n": len(x)}
"""
FLOW = """
axes: {{n: {{range: 2}}, m: {{range: 2}}}}
stages:
  train: {{module: "draws:draw", over: [n], params: {{n: "${{{{ n }}}}"}}}}
  test: {{module: "draws:draw", {second}}}
"""


@pytest.mark.parametrize(
    ("second", "is_same"),
    [
        ('over: [n], params: {n: "${{ n }}"}', True),
        ('over: [n], params: {n: "${{ n }}"}, retries: 3, after: [train]', True),
        ('over: [n], params: {n: "${{ n }}", seed: 1}', False),
        ('over: [m], params: {n: "${{ m }}"}', False),
        ("over: [n]", False),
    ],
)
def test_two_stages_that_compute_the_same_are_named(tmp_path: Path, second: str, is_same: bool) -> None:
    project = Project(tmp_path).module("draws", MODULE).workflow(FLOW.format(second=second))
    for command in ("validate", "plan", "run"):
        said = " ".join(project.diel(command, "flow.yaml").split())
        assert ("stages 'train' and 'test' compute the same" in said) == is_same
        assert ("such as a seed" in said) == is_same


def test_commands_are_compared_by_what_they_make(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(
        """
        stages:
          a: {command: "echo 1 > out", outputs: {out: out}}
          b: {command: "echo 1 > out", outputs: {out: out}}
          c: {command: "true"}
          d: {command: "true"}
        """
    )
    said = project.diel("validate", "flow.yaml")
    assert said.count("compute the same") == 1
    assert "'a' and 'b'" in said
