"""The Python face: a script or a notebook runs a workflow and reads what it made."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas
import pytest

import diel
from diel.base.errors import SpecError, UsageError
from tests.searched import search
from tests.throwaway import Project

FLOW = """
    hyperparameters:
      scale: {type: float, default: 1.0}
      word: {type: str, default: none}
    axes:
      t: {linspace: [0, 1, 3]}
      r: {values: [a, b]}
    stages:
      sim:
        over: [t]
        command: |
          echo ${{ t }} ${{ hp.word }} > out.txt
          printf '{"e": %s}' ${{ t * hp.scale }} > "$DIEL_RESULT"
        outputs: {out: out.txt, e: {value: float}}
      fit:
        over: [r]
        inputs: {e: sim.e}
        command: |
          if [ ${{ r }} = "$FAIL_AT" ]; then exit 3; fi
          echo ${{ r }} > model
          printf '{"loss": %s}' ${{ sum(inputs.e) }} > "$DIEL_RESULT"
        outputs: {model: model, loss: {value: float}}
      best:
        inputs: {loss: fit.loss}
        command: 'echo x > best.txt; printf ''{"low": %s}'' ${{ min(inputs.loss) }} > "$DIEL_RESULT"'
        outputs: {low: {value: float}, file: best.txt}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("api"), "w").workflow(FLOW)


@pytest.fixture(scope="module")
def run(project: Project) -> diel.Run:
    settings = {"scale": 2, "word": "no; echo 'x'"}
    return diel.run(project.folder / "w.yaml", set=settings, runs=project.folder / "runs")


def test_a_run_tells_its_name_place_and_state(run: diel.Run, project: Project) -> None:
    assert (run.id, run.state) == ("w-1", "succeeded")
    assert run.dir == project.folder / "runs" / "w-1"
    assert repr(run) == "<Run w-1 succeeded: sim 3/3, fit 2/2, best 1/1>"
    assert run.status()["stages"]["sim"]["done"] == 3


def test_settings_arrive_with_their_type_and_text_as_it_is(run: diel.Run) -> None:
    assert run.table("sim.e")["sim.e"].tolist() == [0.0, 1.0, 2.0]
    assert run.artifact("sim.out", at={"t": 0.5}).read_text() == "0.5 no; echo 'x'\n"


def test_a_table_is_a_data_frame_joined_along_shared_axes(run: diel.Run) -> None:
    table = run.table("fit.loss", "best.low")
    assert isinstance(table, pandas.DataFrame)
    assert table.to_dict("records") == [
        {"r": "a", "fit.loss": 3.0, "best.low": 3.0},
        {"r": "b", "fit.loss": 3.0, "best.low": 3.0},
    ]


def test_its_graph_has_stages_or_tasks_with_states_and_times(run: diel.Run) -> None:
    stages, tasks = run.graph(), run.graph("tasks")
    assert set(stages.edges) == {("sim", "fit"), ("fit", "best")}
    assert (stages.nodes["sim"]["state"], stages.nodes["sim"]["done"]) == ("done", 3)
    assert len(tasks) == 6
    assert set(tasks.predecessors("fit/1")) == {"sim/0", "sim/1", "sim/2"}
    assert set(tasks.predecessors("best/0")) == {"fit/0", "fit/1"}
    node = tasks.nodes["sim/2"]
    assert (node["stage"], node["index"], node["state"], node["attempt"]) == ("sim", 2, "done", 1)
    assert node["label"] == "sim/2 (t=1.0)"
    assert node["ended"] - node["began"] == pytest.approx(node["seconds"], abs=1e-5)


def test_without_pandas_a_table_is_a_list_of_mappings(run: diel.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert run.table("best.low") == [{"best.low": 3.0}]
    assert type(run.table("best.file")[0]["best.file"]) is str


def test_values_and_files_are_read_by_name_and_point(run: diel.Run) -> None:
    assert run.value("best.low") == 3.0
    assert run.value("sim.e", at={"t": 1}) == 2.0
    assert run.artifact("best.file").read_text() == "x\n"
    files = run.artifact("fit.model")
    assert [path.read_text() for path in files] == ["a\n", "b\n"]
    assert all(isinstance(path, Path) for path in files)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda run: run.value("sim.e"), "'sim.e' has 3 values: pick one with at="),
        (lambda run: run.value("sim.f"), "w-1 has no 'sim.f'"),
        (lambda run: run.value("sin.e"), "did you mean 'sim'"),
        (lambda run: run.value("sim"), "expected STAGE.VALUE"),
        (lambda run: run.value("sim.e", at={"r": 1}), "'sim' has no axis parameter 'r'; it has: t"),
        (lambda run: run.value("sim.e", at={"t": 7}), "no result of 'sim' at t = 7; it has: t = 0.0"),
        (lambda run: run.artifact("best.low"), "is a value, not a file"),
        (lambda run: run.table(), r"for instance table\('sim.e'\)"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(run: diel.Run, ask: object, message: str) -> None:
    assert callable(ask)
    with pytest.raises(UsageError, match=message):
        ask(run)


def test_the_newest_run_is_opened_by_default(run: diel.Run, project: Project) -> None:
    runs = project.folder / "runs"
    assert diel.open_run(runs=runs).id == "w-1"
    assert diel.open_run("w", runs=str(runs)).id == "w-1"
    assert diel.open_run(runs / "w-1").id == "w-1"
    with pytest.raises(UsageError, match="no run 'v-1'"):
        diel.open_run("v-1", runs=runs)


def test_a_failure_raises_nothing_and_shows_in_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path, "w").workflow(FLOW)
    monkeypatch.setenv("FAIL_AT", "b")
    before = dict(os.environ)
    run = diel.run(project.folder / "w.yaml", runs=tmp_path / "runs")
    assert run.state == "failed"
    assert run.status()["failures"][0]["task"] == "fit/1"
    with pytest.warns(UserWarning, match="1 of 2 tasks of 'fit' have no result: 1 failed"):
        assert run.table("fit.loss")["r"].tolist() == ["a"]
    with pytest.warns(UserWarning, match=r"1 of 2 tasks failed: 'fit.loss' has 1"):
        run.value("fit.loss")
    assert dict(os.environ) == before, "what is started later must not look like a process of the run"
    monkeypatch.setenv("DIEL_RUN_DIR", "/mine")
    diel.run(project.folder / "w.yaml", runs=tmp_path / "runs")
    assert os.environ["DIEL_RUN_DIR"] == "/mine"


def test_what_is_wrong_is_raised_before_anything_is_made(tmp_path: Path) -> None:
    project = Project(tmp_path, "w").workflow(FLOW.replace("sum(", "summ("))
    with pytest.raises(SpecError, match="summ"):
        diel.run(project.folder / "w.yaml", runs=tmp_path / "runs")
    with pytest.raises(UsageError, match="no hyperparameter 'scal'"):
        diel.run(project.workflow(FLOW).folder / "w.yaml", set={"scal": 1}, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_plain_script_needs_no_main_guard(tmp_path: Path, root: Path) -> None:
    """Workers are processes of their own that do not import the script again."""
    Project(tmp_path, "w").workflow(FLOW)
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import diel
            print("imported")
            run = diel.run("w.yaml", quiet=False)
            print(run.value("best.low"))
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["imported", f"w-1: {tmp_path}/runs/w-1", "w-1 succeeded", "1.5"]


def test_the_names_of_diel_are_listed_before_they_are_loaded() -> None:
    asked = "import diel, sys; print(*dir(diel)); print('diel.api' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    names, loaded = said.splitlines()
    assert {*diel.__all__, "pytorch", "tabular"} <= {*names.split()}
    assert loaded == "False"


def test_metrics_are_a_data_frame_and_without_pandas_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = search(tmp_path)
    folder = done.paths.task_dir("f", 0, 1)
    (folder / ".metrics.jsonl").write_text('{"loss": 5, "step": 2}\n')
    run = diel.open_run(done.paths.root)
    assert run.metrics("f").to_dict("records")[0]["value"] == 5
    assert list(run.trials()["state"]) == ["complete"] * 3 + ["pruned", "waiting"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert run.metrics("f", at={"trial": 0})[0]["hp.x"] == 2.0
    assert run.trials("trial")[3]["message"] == "f.loss was 200 at step 0"
