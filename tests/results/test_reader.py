"""A run read back from its directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.base.states import RunState
from diel.observe.results import RunReader
from diel.observe.results.reader import LinesByStage, lines_of, results_of
from diel.observe.results.rows import all_at
from diel.store.journal.segment import decode
from diel.workflow.models.forms.axis import Points, keep
from tests.handmade import Handmade

FLOW = """
axes:
  t: {values: [10, 20]}
  found: {from: pick.list}
stages:
  sim: {over: [t], command: [x], outputs: {e: {value: float}}}
  pick: {command: [x], outputs: {list: {value: list}}}
  end: {over: [found], command: [x]}
"""


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    return Handmade(tmp_path, FLOW).stage("sim", 2).stage("pick", 1).done("sim", 1, e=0.5)


def test_a_task_is_found_by_its_point_and_tells_it(run: Handmade) -> None:
    recorded = RunReader(run.paths)
    assert (all_at(recorded, "sim", {"t": 20}), all_at(recorded, "sim", {"t": 30})) == ([1], [])
    assert recorded.point("sim", 1) == {"t": 20}
    assert recorded.parameters("sim") == ["t"]
    assert recorded.hyperparameters("sim", 1) == {}


def test_an_axis_that_is_not_made_yet_is_not_known(run: Handmade) -> None:
    recorded = RunReader(run.paths)
    assert (recorded.points("found"), recorded.domain("end"), all_at(recorded, "end", {})) == (None, None, [])


def test_the_last_of_two_results_counts_and_none_that_was_given_up(run: Handmade) -> None:
    run.write("fenced", stage="sim", tasks=[[0, 1]])
    run.work("done", "sim", 0, seconds=1.0, key="k", values={"e": 9.0})
    run.work("done", "sim", 1, 2, seconds=1.0, key="k", values={"e": 1.5})
    recorded = RunReader(run.paths)
    assert recorded.records("sim") == {1: {"values": {"e": 1.5}}}
    assert recorded.record("sim", 0) is None
    assert [record["event"] for _, record in recorded.attempts("sim", 1)] == ["start", "done", "done"]


def test_without_its_controller_nothing_runs_and_what_ran_is_lost(run: Handmade) -> None:
    run.work("start", "sim", 0)
    recorded = RunReader(run.paths)
    assert recorded.state is RunState.INTERRUPTED
    assert list(recorded.lost("sim")) == [0]
    assert recorded.history.stage("sim").counts()["running"] == 0


def test_a_workflow_that_was_changed_since_is_refused_with_its_place(run: Handmade) -> None:
    run.paths.workflow.write_text("diel: 1\nname: w\nstages: {sim: {commando: [x]}}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"w-1: its workflow cannot be read \(this is another diel\): .*:3:"):
        _ = RunReader(run.paths).workflow


def test_points_at_a_place_inside_a_file_are_joined_with_where_they_were_made(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="diel[data] is not installed")
    run = Handmade(
        tmp_path,
        """
        axes:
          t: {values: [10, 20]}
          part: {from: sim.parts}
        stages:
          sim: {over: [t], command: [x], outputs: {parts: "run.h5:/group/data"}}
          fit: {over: [t, part], command: [x]}
        """,
    ).stage("sim", 2)
    for index in range(2):
        folder = run.paths.task_dir("sim", index, 1)
        folder.mkdir(parents=True)
        with h5py.File(folder / "run.h5", "w") as file:
            file["group/data"] = [3 * index, 3 * index + 1, 3 * index + 2][: index + 1]
            file["group/other"] = file["other"] = [0.0] * 7
        path = str((folder / "run.h5").relative_to(run.paths.root))
        entry = {"path": path, "size": 1, "digest": "d", "inside": "/group/data"}
        run.work("done", "sim", index, seconds=1.0, key="k", values={}, artifacts={"parts": entry})
    keep(Points.of_rows(("part",), [(0,), (3,), (4,)]), run.paths.axis("part"))
    recorded = RunReader(run.paths)
    assert [recorded.point("fit", index) for index in range(3)] == [
        {"t": 10, "part": 0},
        {"t": 20, "part": 3},
        {"t": 20, "part": 4},
    ]


STAGES = [f"s{number}" for number in range(60)]
TWO_STAGES = "stages:\n" + "".join(
    f"  {name}: {{command: [x], outputs: {{e: {{value: float}}}}}}\n" for name in STAGES
)


def test_a_line_is_found_by_each_stage_that_it_names_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    both = '{"stage":"a","of":{"stage":"b"}}'
    path.write_text(f'{both}\n{{"event":"end"}}\n{{"stage":"a","n":2', encoding="utf-8")
    lines = LinesByStage(path)
    assert [list(lines.of(name)) for name in "abc"] == [[both.encode()], [both.encode()], []]
    with path.open("a", encoding="utf-8") as file:
        file.write("}\n")
    assert list(lines.of("a")) == [both.encode(), b'{"stage":"a","n":2}']


def test_of_many_stages_each_has_its_own_results_also_those_that_came_later(tmp_path: Path) -> None:
    run = Handmade(tmp_path, TWO_STAGES)
    for number, name in enumerate(STAGES):
        run.stage(name, 1).done(name, 0, e=float(number))
    recorded = RunReader(run.paths)
    assert [recorded.records(name)[0] for name in STAGES] == [
        {"values": {"e": float(number)}, "artifacts": {}} for number in range(60)
    ]
    before = [record["event"] for _, record in recorded.attempts("s7", 0)]
    run.work("start", "s7", 0, 2)
    assert [record["event"] for _, record in recorded.attempts("s7", 0)] == [*before, "start"]


def test_the_results_of_some_tasks_are_found_among_those_whose_names_begin_alike(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    tasks = [(stage, index) for stage in ("a", "ab", "b") for index in (0, 1, 7, 10, 11, 77, 100)]
    path.write_text(
        "".join(
            f'{{"event":"{event}","stage":"{stage}","index":{index},"attempt":1}}\n'
            for stage, index in tasks
            for event in ("start", "done")
        ),
        encoding="utf-8",
    )
    for wanted in (tasks, tasks[3:12:2], [("ab", 1), ("ab", 100), ("b", 10), ("c", 1)], []):
        found = [decode(line) for line in lines_of(path, results_of(wanted))]
        told = [
            (record["stage"], record["index"]) for record in found if record and record["event"] == "done"
        ]
        assert (len(found), told) == (len(told), [task for task in tasks if task in wanted])


DERIVED = """
axes:
  t: {values: [10, 20]}
  found: {from: fit.list}
stages:
  sim: {over: [t], command: [x], outputs: {e: {value: float}}}
  fit: {command: [fit, "${{ inputs.e }}"], inputs: {e: sim.e}, outputs: {list: {value: list}}}
  end: {over: [found], command: [x]}
"""


def made(folder: Path, name: str = "w-1") -> Handmade:
    return Handmade(folder, DERIVED, name).stage("sim", 2).stage("fit", 1).done("sim", 1, e=0.5)


def test_its_links_and_recipes_give_what_a_task_reads(tmp_path: Path) -> None:
    run = made(tmp_path)
    view = RunReader(run.paths)
    (link,) = view.into("fit")
    assert (link.up.name, list(link.members(()))) == ("sim", [0, 1])
    assert view.recipe("fit").resolve(0).command == ("fit", "0.5"), "as far as there are results"
    run.done("sim", 0, e=1.5)
    assert RunReader(run.paths).recipe("fit").resolve(0).command == ("fit", "1.5", "0.5")


def test_an_axis_that_is_not_known_yet_is_named_with_its_maker(tmp_path: Path) -> None:
    view = RunReader(made(tmp_path).paths)
    assert view.unknown_axes("end") == [("found", "fit")]
    assert not view.stages["end"].known
    assert view.unknown_axes("sim") == []


def test_earlier_runs_are_those_of_the_same_workflow_the_nearest_first(tmp_path: Path) -> None:
    for name in ("w-1", "other-1", "w-2", "w-3", "w-4"):
        made(tmp_path, name)
    (tmp_path / "runs" / "w-2" / "run.json").write_text("{")
    view = RunReader(made(tmp_path, "w-5").paths)
    for _ in range(2):
        assert [old.paths.run_id for old in view.earlier()] == ["w-4", "w-3", "w-1"]
