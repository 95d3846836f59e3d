"""MLflow reads what was written for it: every trial and task with its parameters, curves and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.export import take_out
from diel.observe.results import RunReader
from tests.searched import search

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_trial_is_a_run_with_its_curves_and_files(tmp_path: Path) -> None:
    """One test: MLflow takes seconds to load, and others to make its tables."""
    tracking: Any = pytest.importorskip(
        "mlflow.tracking", reason="MLflow takes 90 MB: pip install -c constraints.txt 'diel[mlflow]'"
    )
    run = search(tmp_path).done("end", 0)
    folder = run.paths.task_dir("f", 1, 1)
    (folder / ".metrics.jsonl").write_text(
        '{"step": 10, "error": 2.5, "time": 77}\n{"step": 20, "error": 1.5}\n'
    )
    said = take_out(RunReader(run.paths), "mlflow", tmp_path / "out")
    assert said[0] == "experiment w-1: 5 trials and 1 task outside of trials"
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/out/mlflow.db")
    (experiment,) = (one for one in client.search_experiments() if one.name == "w-1")
    found = {one.info.run_name: one for one in client.search_runs([experiment.experiment_id])}
    assert {*found} == {"w-1", *(f"trial={number}" for number in range(5)), "end/0"}
    best = found["trial=1"]
    assert best.data.params == {"x": "0.5"}
    assert best.data.metrics == {
        "f.error": 1.5,
        "f.loss/result": 0.25,
        "sub.v/2/result": 0.5,
        "sub.v/3/result": 1.5,
        "objective/f.loss": 0.25,
    }
    curve = client.get_metric_history(best.info.run_id, "f.error")
    assert [(one.step, one.value) for one in curve] == [(10, 2.5), (20, 1.5)]
    assert curve[0].timestamp == 77_000
    assert [found[f"trial={number}"].info.status for number in range(5)] == [
        *["FINISHED"] * 3,
        "KILLED",
        "KILLED",
    ], "the fourth was pruned, the controller of the fifth is gone"
    assert (found["w-1"].info.status, found["end/0"].info.status) == ("KILLED", "FINISHED")
    known: Any = pytest.importorskip("mlflow.environment_variables")
    assert known.MLFLOW_DISABLE_TELEMETRY.get(), "an export tells nobody"
    assert found["trial=3"].data.tags["diel.message"] == "f.loss was 200 at step 0"
    assert best.data.tags["mlflow.parentRunId"] == found["w-1"].info.run_id
    file = client.download_artifacts(best.info.run_id, "f/1/model/model.txt", str(tmp_path))
    assert Path(file).read_text() == "model 1"
    whole = client.list_artifacts(found["w-1"].info.run_id)
    assert [one.path for one in whole] == ["workflow.yaml"]
