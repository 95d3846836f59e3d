"""What was asked for when a run was made comes back, and what holds no run is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.store.project.run_file import (
    RunFile,
    draw_seeds,
    enlarged_designs,
    read_kept_workflow,
    read_run_file,
)
from diel.store.project.runs import create_run
from diel.workflow.models import Workflow
from tests.handmade import Handmade


def test_a_directory_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    paths = create_run(tmp_path, "a")
    for text in ("", "[]", '{"run": "a-1"}', "\0"):
        paths.run_file.write_text(text)
        with pytest.raises(UsageError, match="holds no run that this diel can read"):
            read_run_file(paths)
    paths.run_file.unlink()
    with pytest.raises(UsageError, match="holds no run"):
        read_run_file(paths)


def test_what_was_asked_for_comes_back_as_it_was(tmp_path: Path) -> None:
    asked = RunFile(
        run="a-1",
        workflow="a",
        source="/flows/a.yaml",
        cwd="/flows",
        site="local",
        hyperparameters={"rate": 1e-3, "layers": [1, 2], "name": "é"},
        origins={"rate": "default"},
        settings=("rate=1e-3",),
        created=1.5,
        host="h",
        user="u",
        diel="0",
        python="3",
    )
    paths = create_run(tmp_path, "a")
    paths.run_file.write_text(asked.model_dump_json())
    assert read_run_file(paths) == asked
    assert asked.folder == Path("/flows")


def test_a_workflow_that_is_gone_is_refused_with_what_to_do(tmp_path: Path) -> None:
    paths = create_run(tmp_path, "a")
    with pytest.raises(UsageError, match="its workflow cannot be read"):
        read_kept_workflow(paths)
    paths.workflow.write_text(" \n")
    with pytest.raises(UsageError, match="copy the workflow file there"):
        read_kept_workflow(paths)
    paths.workflow.write_text("name: é\n", encoding="utf-8")
    assert read_kept_workflow(paths) == "name: é\n"


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
