"""What attempts used, as rows: what was measured, and what was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import diel
from diel.errors import UsageError
from diel.results import RunReader, list_usage
from diel.results.usage import ended
from tests.cli.call import call
from tests.handmade import Handmade

FLOW = """
axes: {depth: {values: [2.5, 4.0]}}
stages:
  train: {over: [depth], command: [x], resources: {cores_per_rank: 2, memory: 2GiB}}
  older: {command: [x]}
"""
USED = {
    "cpu_seconds": 3.8,
    "system_seconds": 0.5,
    "memory_bytes": 310 << 20,
    "read_bytes": 5 << 20,
    "written_bytes": 0,
}


def ends(run: Handmade, stage: str, index: int, attempt: int = 1, event: str = "done", **more: Any) -> None:
    failed = {"class": "oom", "message": "m", "exit_code": 1, "stderr_tail": ""}
    own = failed if event == "fail" else {"key": "k", "parts": ["p", "i"]}
    run.work("start", stage, index, attempt)
    run.work(event, stage, index, attempt, seconds=2.0, **own, **more)


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    """A task that failed first, one that was too small to be measured, and one of an older diel."""
    run = Handmade(tmp_path, FLOW).stage("train", 2).stage("older", 1)
    ends(run, "train", 0, 1, "fail", usage={**USED, "memory_bytes": 99})
    ends(run, "train", 0, 2, usage={**USED, "gpu_seconds": 1.5, "gpu_memory_bytes": 8})
    ends(run, "train", 1, usage={**USED, "memory_at_most": True})
    ends(run, "older", 0)
    run.end("succeeded")
    return run


def test_a_row_is_an_attempt_and_what_was_not_measured_is_empty_and_said(run: Handmade) -> None:
    found = list_usage(RunReader(run.paths))
    measured = ("cpu_seconds", "system_seconds", "memory_bytes", "read_bytes", "written_bytes")
    gpus = ("gpu_seconds", "gpu_memory_bytes")
    assert found.columns == ("task", "depth", "attempt", "state", "seconds", *measured, *gpus)
    assert found.rows == [
        ("train/0", 2.5, 1, "oom", 2.0, 3.8, 0.5, 99, 5 << 20, 0, None, None),
        ("train/0", 2.5, 2, "done", 2.0, 3.8, 0.5, 310 << 20, 5 << 20, 0, 1.5, 8),
        ("train/1", 4.0, 1, "done", 2.0, 3.8, 0.5, None, 5 << 20, 0, None, None),
        ("older/0", None, 1, "done", 2.0, *[None] * 7),
    ]
    assert found.missing == {"older": "nothing was measured of 1 attempt of 'older'"}


def test_a_stage_a_point_and_a_limit_choose(run: Handmade) -> None:
    assert [row[0] for row in list_usage(RunReader(run.paths), ["train"], at={"depth": 4.0}).rows] == [
        "train/1"
    ]
    assert len(list_usage(RunReader(run.paths), ["train"], limit=1).rows) == 1
    with pytest.raises(UsageError, match="has no stage 'tran'; did you mean 'train'"):
        list_usage(RunReader(run.paths), ["tran"])


def test_of_many_some_are_read(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("train", 2)
    for attempt in range(1, 101):
        run.work("done", "train", 0, attempt, seconds=1.0, key="k", parts=["p", "i"])
    run.work("done", "train", 1, seconds=1.0, key="k", parts=["p", "i"])
    assert len(list(ended(RunReader(run.paths), "train", most=1))) == 101 // 3


def test_commands_show_it(run: Handmade, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ("--runs", str(run.paths.root.parent))
    table = call(capsys, "results", "w-1", "train", "--usage", "--csv", *runs)
    assert table.out.splitlines()[1] == f"train/0,2.5,1,oom,2.0,3.8,0.5,99,{5 << 20},0,,"
    told = "used: 7.6s of processor time, 1.9 cores a task, at most 310.0 MiB of memory, 1.5s of GPUs"
    assert told in call(capsys, "status", "w-1", "train", *runs).out
    used = "used 1.9 of 2 cores, 310.0 MiB of 2.0 GiB, 0.75 GPUs, 8 B on them, read 5.0 MiB\n"
    assert used in call(capsys, "explain", "w-1", "train/0", *runs).out
    bound = "used 1.9 of 2 cores, at most 310.0 MiB of 2.0 GiB, read 5.0 MiB\n"
    assert bound in call(capsys, "explain", "w-1", "train/1", *runs).out
    assert call(capsys, "results", "w-1", "train", "--usage", "--metrics", *runs).code == 2


def test_a_notebook_gets_it(run: Handmade) -> None:
    found = diel.open_run("w-1", runs=run.paths.root.parent).usage("older")
    assert list(found["cpu_seconds"].isna()) == [True]
