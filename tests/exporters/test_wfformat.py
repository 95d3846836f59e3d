"""WfCommons reads what was written for it: tasks, what each waited for, when and where it ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.export import take_out
from diel.observe.results import RunReader
from diel.store.journal.history import History
from diel.store.journal.segment import Reader
from tests.handmade import HOST, WORKER, Handmade
from tests.searched import loop, search

FLOW = """
axes: {t: {range: 3}}
stages:
  sim: {over: [t], command: [x], resources: {ranks: 2, cores_per_rank: 3}, outputs: {out: {path: out.txt}, e: {value: float}}}
  fit: {command: [x], inputs: {out: {from: sim.out, min_success: 0.5}}, outputs: {model: {path: "m m.txt"}}}
  end: {over: [t], command: [x], inputs: {e: sim.e}, after: [fit]}
"""


def trace(run: Handmade) -> dict[str, Any]:
    take_out(RunReader(run.paths), "wfformat", run.folder / "out")
    found: dict[str, Any] = json.loads((run.folder / "out" / "wfformat.json").read_text())
    return found


def flow(tmp_path: Path) -> Handmade:
    """Two of three simulations succeed and are fitted; one task after them has ended."""
    run = Handmade(tmp_path, FLOW).stage("sim", 3).stage("fit", 1).stage("end", 3)
    run.worker.append({"event": "worker", "host": HOST, "pid": 1, "time": run.clock})
    run.done("sim", 0, {"out": "abc"}, e=1).done("sim", 1, {"out": "abcd"}, e=2).failed("sim", 2)
    return run.done("fit", 0, {"model": "x"}).done("end", 0)


def test_tasks_have_their_parents_files_and_times(tmp_path: Path) -> None:
    found = trace(flow(tmp_path))
    tasks = {task["id"]: task for task in found["workflow"]["specification"]["tasks"]}
    assert [*tasks] == ["sim-0", "sim-1", "sim-2", "fit-0", "end-0"]
    assert tasks["sim-0"]["name"] == "sim/0 (t=0)"
    assert sorted(tasks["sim-0"]["children"]) == ["end-0", "fit-0"]
    assert tasks["fit-0"]["parents"] == ["sim-0", "sim-1"]
    assert tasks["fit-0"]["inputFiles"] == ["tasks/sim/0/out.txt", "tasks/sim/1/out.txt"]
    assert sorted(tasks["end-0"]["parents"]) == ["fit-0", "sim-0"]
    assert tasks["end-0"]["inputFiles"] == []
    assert {"id": "tasks/sim/1/out.txt", "sizeInBytes": 4} in found["workflow"]["specification"]["files"]
    execution = found["workflow"]["execution"]
    ran = {task["id"]: task for task in execution["tasks"]}
    assert (ran["sim-0"]["runtimeInSeconds"], ran["sim-0"]["coreCount"]) == (2.0, 6)
    assert ran["sim-0"]["machines"] == [HOST]
    assert ran["sim-2"]["runtimeInSeconds"] == 1.0
    assert "memoryInBytes" not in ran["sim-0"], "what was not measured is left out"
    assert execution["machines"] == [{"nodeName": HOST}]


def test_what_an_attempt_used_is_there_where_it_was_measured(tmp_path: Path) -> None:
    run = Handmade(tmp_path, "stages: {a: {command: [x]}}").stage("a", 1)
    usage = {"cpu_seconds": 3.0, "system_seconds": 0.5, "memory_bytes": 2**20, "read_bytes": 7}
    run.work("done", "a", 0, seconds=2.0, key="0" * 32, usage=usage)
    (task,) = trace(run)["workflow"]["execution"]["tasks"]
    assert (task["avgCPU"], task["memoryInBytes"], task["readBytes"]) == (150.0, 2**20, 7)
    assert "writtenBytes" not in task


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    said = take_out(RunReader(flow(tmp_path).paths), "wfformat", tmp_path / "out")
    assert said[1:3] == [
        "1 task of these failed or were stopped, for which the format has no word",
        "left out are tasks that have not run: 2 waiting (the run: interrupted)",
    ]


def test_what_ran_for_a_pruned_trial_is_told_and_hides_nothing_that_did_not_run(tmp_path: Path) -> None:
    run = search(tmp_path)
    stopped: dict[str, Any] = {
        "seconds": 0.5,
        "class": "cancelled",
        "message": "its search has stopped this trial",
    }
    run.work("start", "f", 3).work("fail", "f", 3, **stopped, exit_code=None, stderr_tail="")
    run.write("gone", stage="sub", tasks=[[6, 1], [7, 1]]).skipped("sub", 6, 7, reason="axis")
    said = take_out(RunReader(run.skipped("end", 0).paths), "wfformat", tmp_path / "out")
    assert said[2:4] == [
        "left out are tasks that have not run: 5 waiting, 1 skipped (the run: interrupted)",
        "3 tasks ran for trials that were pruned: no result of theirs counts",
    ]
    flow = json.loads((tmp_path / "out" / "wfformat.json").read_text())["workflow"]
    tasks = {task["id"]: task for task in flow["specification"]["tasks"]}
    assert tasks["f-3"]["parents"] == ["sub-6", "sub-7"]
    seconds = {task["id"]: task["runtimeInSeconds"] for task in flow["execution"]["tasks"]}
    assert (seconds["sub-6"], seconds["f-3"]) == (2.0, 0.5)


def test_a_result_that_is_damaged_is_left_out_and_said(tmp_path: Path) -> None:
    run = flow(tmp_path)
    reader = Reader(run.paths, History())
    reader.catch_up()
    reader.save()  # a snapshot knows what the journal has lost since
    segment = run.paths.journal / WORKER
    segment.write_bytes(
        segment.read_bytes().replace(b'"event":"done","stage":"sim","index":1', b'"event":"d')
    )
    said = take_out(RunReader(run.paths), "wfformat", tmp_path / "out")
    assert said[0] == "4 tasks, dependencies: 3"
    assert said[-2] == "left out: 1 task, damaged in the journal"


def test_a_run_without_an_ended_task_is_refused(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("sim", 3)
    with pytest.raises(UsageError, match="w-1 has no task that ended"):
        trace(run)


@pytest.mark.filterwarnings("ignore")
def test_wfcommons_reads_it_and_finds_no_mistake(tmp_path: Path) -> None:
    """Its own checks of what a schema cannot say; the schema itself is fetched from where no test may go."""
    wfcommons = pytest.importorskip(
        "wfcommons", reason="wfcommons (with Matplotlib) reads traces: pip install wfcommons"
    )
    (tmp_path / "schema.json").write_text("{}")
    for place, run in enumerate((flow(tmp_path / "a"), loop(tmp_path / "b", over=True))):
        trace(run)
        read = wfcommons.Instance(run.folder / "out" / "wfformat.json", schema_file=tmp_path / "schema.json")
        nodes, edges = read.workflow.number_of_nodes(), read.workflow.number_of_edges()
        assert (nodes, edges) == ((5, 4), (6, 5))[place]
