"""The points of a run's axes: static ones fixed at its start, derived ones from what a stage made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.base.paths import RunPaths
from diel.base.states import TaskState
from diel.controller.stages import Axes
from diel.store.artifacts import content
from diel.store.journal.stage_history import StageHistory
from diel.tasks.points.domain import make_domain
from diel.tasks.results import Results
from diel.tasks.stage_run import StageRun
from diel.workflow.models import AxisForm, Workflow
from diel.workflow.models.forms.axis import Points
from tests.record import as_record


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "runs" / "w-1")
    found.root.mkdir(parents=True)
    return found


def axes_of(axes: dict[str, Any], folder: Path, paths: RunPaths, over: list[str] | None = None) -> Axes:
    stages = {
        "make": {"command": ["true"], "over": ["a"] if "a" in axes else []},
        "use": {"command": ["true"], "over": list(axes) if over is None else over},
    }
    spec = {"diel": 1, "name": "w", "axes": axes, "stages": stages}
    return Axes(Workflow.model_validate(spec), folder, paths)


def rows(points: Points) -> list[tuple[Any, ...]]:
    return [points.values(index) for index in range(len(points))]


# --- static -------------------------------------------------------------------------------------


def test_static_axes_are_open_at_the_start_and_derived_ones_are_not(tmp_path: Path, paths: RunPaths) -> None:
    axes = axes_of({"n": {"range": 3}, "d": {"from": "make.points"}}, tmp_path, paths)
    axes.open_static()
    assert {label: rows(points) for label, points in axes.points.items()} == {"n": [(0,), (1,), (2,)]}


def test_an_axis_that_no_stage_runs_over_is_not_read(tmp_path: Path, paths: RunPaths) -> None:
    axes = axes_of({"n": {"file": "none.csv"}}, tmp_path, paths, over=[])
    axes.open_static()
    assert axes.points == {}


def test_a_run_keeps_the_points_of_a_file_that_changes_or_vanishes(tmp_path: Path, paths: RunPaths) -> None:
    (tmp_path / "p.csv").write_text("x\n1\n2\n")
    first = axes_of({"p": {"file": "p.csv"}}, tmp_path, paths)
    first.open_static()
    (tmp_path / "p.csv").write_text("x\n7\n")
    for _ in range(2):
        again = axes_of({"p": {"file": "p.csv"}}, tmp_path, paths)
        again.open_static()
        assert rows(again.points["p"]) == rows(first.points["p"]) == [(1,), (2,)]
        (tmp_path / "p.csv").unlink(missing_ok=True)


def test_a_run_keeps_the_points_that_it_drew(tmp_path: Path, paths: RunPaths) -> None:
    sample = {"method": "uniform", "points": 5, "parameters": {"u": {"low": 0, "high": 1}}}
    first = axes_of({"p": {"sample": sample}}, tmp_path, paths)
    first.open_static()
    resumed = axes_of({"p": {"sample": {**sample, "seed": 9}}}, tmp_path, paths)
    resumed.open_static()
    assert rows(resumed.points["p"]) == rows(first.points["p"])


# --- derived ------------------------------------------------------------------------------------


def maker(paths: RunPaths, made: list[Any], over: bool = True) -> tuple[StageRun, Results]:
    """A stage whose tasks gave these values for `points`; None for a task without a result."""
    axes = ("a",) if over else ()
    domain = make_domain(axes, {"a": len(made)}, {})
    run = StageRun("make", None, StageHistory("analysis", len(made), bytearray()), 0, domain)  # type: ignore[arg-type]
    run.points = {"a": Points(("a",), (range(len(made)),))}
    results = Results(paths)
    for index, value in enumerate(made):
        if value is None:
            run.history.set(index, TaskState.FAILED)
            continue
        run.history.set(index, TaskState.DONE)
        record: dict[str, Any] = {"event": "done", "values": {"points": value}}
        if isinstance(value, Path):
            size, digest = content(value)
            artifact = {"path": str(value.relative_to(paths.root)), "size": size, "digest": digest}
            record = {"event": "done", "artifacts": {"points": artifact}}
        results.put("make", index, "s", 0, as_record(record))
    return run, results


def derived(paths: RunPaths, made: list[Any], over: bool = True, **axis: Any) -> Axes:
    spec: dict[str, Any] = {"d": {"from": "make.points", **axis}}
    axes = axes_of({"a": {"range": max(len(made), 1)}, **spec} if over else spec, paths.root, paths)
    axes.open_derived("d", *maker(paths, made, over))
    return axes


def test_one_task_without_axes_gives_all_points(paths: RunPaths) -> None:
    axes = derived(paths, [[3, 1, 2]], over=False)
    assert (axes.points["d"].parameters, rows(axes.points["d"])) == (("d",), [(3,), (1,), (2,)])
    assert axes.origins == {}


def test_each_point_remembers_the_task_that_made_it(paths: RunPaths) -> None:
    axes = derived(paths, [[{"x": 1}, {"x": 2}], [], [{"x": 3}]])
    assert rows(axes.points["d"]) == [(1,), (2,), (3,)]
    assert (axes.origins["d"].axes, list(axes.origins["d"].rows)) == (("a",), [(0,), (0,), (2,)])


def test_tasks_without_a_result_give_no_points(paths: RunPaths) -> None:
    axes = derived(paths, [[1], None, [2]])
    assert rows(axes.points["d"]) == [(1,), (2,)]
    assert list(axes.origins["d"].rows) == [(0,), (2,)]


def test_points_may_come_as_files(paths: RunPaths) -> None:
    path = paths.root / "tasks" / "points.csv"
    path.parent.mkdir()
    path.write_text("x,y\n1,a\n2,b\n")
    axes = derived(paths, [path, [{"x": 3, "y": "c"}]])
    assert rows(axes.points["d"]) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_column_is_of_one_type_in_all_files_and_of_its_contract(paths: RunPaths) -> None:
    (folder := paths.root / "tasks").mkdir()
    files = [folder / "0.csv", folder / "1.csv"]
    for path, text in zip(files, ("id,e\n12,1.5\n", "id,e\n007,2\n"), strict=True):
        path.write_text(text)
    found = rows(derived(paths, [*files]).points["d"])
    assert [*map(repr, found)] == [*map(repr, [("12", 1.5), ("007", 2.0)])]
    assert rows(derived(paths, files[:1], columns={"e": "str"}).points["d"]) == [("1.5",)]
    outputs = {"points": {"path": "p.csv", "columns": {"id": "str"}}}
    stages = {"make": {"command": ["true"], "outputs": outputs}, "use": {"command": ["true"], "over": ["d"]}}
    spec = {"diel": 1, "name": "w", "axes": {"d": {"from": "make.points"}}, "stages": stages}
    axes = Axes(Workflow.model_validate(spec), paths.root, paths)
    axes.open_derived("d", *maker(paths, files[:1], over=False))
    assert rows(axes.points["d"]) == [("12", 1.5)]


def test_no_points_at_all_keep_the_columns_that_were_declared(paths: RunPaths) -> None:
    assert derived(paths, [[], []], columns=["x", "y"]).points["d"].parameters == ("x", "y")
    assert derived(paths, [[]]).points["d"].parameters == ("d",)


def test_derived_points_are_written_down_for_readers(paths: RunPaths) -> None:
    derived(paths, [[{"x": 1}], [{"x": 2}]])
    lines = paths.axis("d").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [["x"], [1], [2]]


@pytest.mark.parametrize(
    ("made", "axis", "message"),
    [
        ([5], {}, "axis 'd': make/0.points is 5; expected a list, or a CSV or JSONL file"),
        ([{"x": 1}], {}, "expected a list"),
        ([[{"x": 1}], [{"y": 1}]], {}, "make/1 gives y, other tasks gave x"),
        ([[{"x": 1}], [7]], {}, "make/1 gives d, other tasks gave x"),
        ([[{"x": 1}]], {"columns": ["z"]}, "make/0.points: point 0 has no 'z'; it has: x"),
    ],
)
def test_what_is_no_list_of_points_is_refused(
    paths: RunPaths, made: list[Any], axis: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        derived(paths, made, **axis)
    assert message in str(error.value)


def test_an_output_that_was_not_made_is_told_with_those_that_were(paths: RunPaths) -> None:
    axes = axes_of({"d": {"from": "make.grid"}}, paths.root, paths)
    with pytest.raises(UsageError, match="axis 'd': make/0 made no 'grid'; it made: points"):
        axes.open_derived("d", *maker(paths, [[1]], over=False))


def test_an_axis_names_its_maker() -> None:
    assert AxisForm.model_validate({"from": "make.points"}).axis.maker == "make"
    assert AxisForm.model_validate({"range": 3}).axis.maker is None
