"""Which seed a search without one gets, and which designs are others than before."""

from __future__ import annotations

from pathlib import Path

from diel.project.run_file import draw_seeds, enlarged_designs
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


def test_a_hypercube_of_another_size_is_said_to_be_another_design(tmp_path: Path) -> None:
    def found(method: str, points: int, name: str = "w") -> list[tuple[str, str, int]]:
        drawn = {"method": method, "points": points, "parameters": {"u": {"low": 0, "high": 1}}}
        stages = {"f": {"command": "true", "over": ["d"]}}
        flow = {"diel": 1, "name": name, "axes": {"d": {"sample": drawn}}, "stages": stages}
        return list(enlarged_designs(Workflow.model_validate(flow), tmp_path / "runs"))

    for name, points in (("w-1", 9), ("w-2", 3), ("w-3", None), ("w-x-1", 7)):
        paths = Handmade(tmp_path, "stages: {f: {command: [echo]}}", name).paths
        if points is not None:
            paths.axis("d").parent.mkdir(exist_ok=True)
            paths.axis("d").write_text('["u"]\n' + "[0.5]\n" * points, encoding="utf-8")
    assert found("lhs", 4) == [("d", "w-2", 3)]
    assert [*found("lhs", 3), *found("sobol", 4), *found("lhs", 4, "other")] == []
