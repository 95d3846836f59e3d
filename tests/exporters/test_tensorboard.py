"""TensorBoard reads what was written for it: each task's curves and results, with hyperparameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.export import take_out
from diel.observe.results import RunReader
from tests.handmade import Handmade
from tests.searched import search

pytestmark = pytest.mark.filterwarnings("ignore")


def test_each_task_is_a_run_with_its_curves_and_results(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = search(tmp_path)
    folder = run.paths.task_dir("f", 1, 1)
    (folder / ".metrics.jsonl").write_text(
        '{"step": 10, "error": 2.5, "time": 77}\n{"step": 20, "error": 1.5}\n'
    )
    running = run.paths.task_dir("sub", 9, 1)
    running.mkdir(parents=True)
    (running / ".metrics.jsonl").write_text('{"v": 8}\n')
    take_out(RunReader(run.paths), "tensorboard", tmp_path / "out")
    read = accumulator.EventAccumulator(str(tmp_path / "out" / "tensorboard" / "f" / "1"))
    read.Reload()
    error = read.Scalars("error")
    assert [(one.step, one.value) for one in error] == [(10, 2.5), (20, 1.5)]
    assert error[0].wall_time == 77
    assert [(one.step, one.value) for one in read.Scalars("result/loss")] == [(20, 0.25)]
    assert {"_hparams_/session_start_info", "_hparams_/session_end_info"} <= {*read.Tags()["tensors"]}
    start = read.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert b"hp.x" in start
    under_way = accumulator.EventAccumulator(str(tmp_path / "out" / "tensorboard" / "sub" / "9"))
    under_way.Reload()
    assert [one.value for one in under_way.Scalars("v")] == [8.0]


def test_a_run_without_a_number_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run = Handmade(tmp_path, "stages: {a: {command: [x]}}").stage("a", 1).done("a", 0, word="text")
    with pytest.raises(UsageError, match="w-1 has no numbers for TensorBoard"):
        take_out(RunReader(run.paths), "tensorboard", tmp_path / "out")
