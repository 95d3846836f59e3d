"""Which seed a search without one gets."""

from __future__ import annotations

from pathlib import Path

from diel.project.seeds import draw_seeds
from diel.spec import Workflow
from tests.handmade import Handmade

SEARCH = {"trials": 2, "minimize": "f.value", "parameters": ["x"]}
FLOW = Workflow.model_validate(
    {
        "diel": 1,
        "name": "w",
        "hyperparameters": {"x": {"type": "float", "low": 0.0, "high": 1.0}},
        "axes": {"own": {"search": {**SEARCH, "seed": 3}}, "a": {"search": SEARCH}, "b": {"search": SEARCH}},
        "stages": {"f": {"over": ["own", "a", "b"], "command": "true"}},
    }
)


def test_the_last_run_of_the_same_workflow_that_kept_seeds_gives_its_own(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert draw_seeds(FLOW, runs, anew=False).keys() == {"a", "b"}
    for name, kept in (("w-1", {"a": 1}), ("w-2", {"a": 5}), ("w-3", {}), ("other-1", {"a": 9, "b": 9})):
        Handmade(tmp_path, "stages: {f: {command: [echo]}}", name, seeds=kept)
    (runs / "w-3" / "run.json").write_text("{}", encoding="utf-8")
    found = draw_seeds(FLOW, runs, anew=False)
    assert found["a"] == 5
    assert found["b"] != draw_seeds(FLOW, runs, anew=False)["b"]
    assert draw_seeds(FLOW, runs, anew=True)["a"] != 5
