"""What attempts used, as rows: what was measured, and what was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import diel
from diel.base.errors import UsageError
from diel.observe.results import RunReader, list_usage
from diel.observe.results.attempts import advise, ended, sizes_by
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


SIZED = """
axes: {{n: {{range: 1000}}}}
stages:
  train: {{over: [n], {stage}, resources: {{{asked}}}}}
"""
MIB = 1 << 20


def made(
    folder: Path,
    *used: dict[str, Any],
    asked: str = "memory: 2GiB, cores_per_rank: 2",
    stage: str = "command: [x]",
) -> Handmade:
    """A run whose tasks used so much."""
    run = Handmade(folder, SIZED.format(asked=asked, stage=stage)).stage("train", 1000)
    for index, one in enumerate(used):
        usage = {"cpu_seconds": 1.0, "system_seconds": 0.0, "memory_bytes": 100 * MIB, **one}
        seconds, failed = usage.pop("seconds", 1.0), usage.pop("class", None)
        known = {"class": failed, "message": "m"} if failed else {"key": "k", "parts": ["p", "i"]}
        run.work("fail" if failed else "done", "train", index, seconds=seconds, usage=usage, **known)
    return run


def said(run: Handmade) -> list[str]:
    return [str(one) for one in advise(RunReader(run.paths), "train")]


def test_with_few_tasks_it_rests_on_the_one_that_used_most_and_keeps_a_wide_margin(tmp_path: Path) -> None:
    run = made(tmp_path, {"memory_bytes": 300 * MIB, "seconds": 90.0, "cpu_seconds": 171.0}, {"seconds": 2.0})
    assert said(run) == [
        "memory: 576.0 MiB, not 2.0 GiB (the most of 2 tasks: 300.0 MiB)",
        "walltime: 3m00s (the most of 2 tasks: 1m30s)",
        "cores_per_rank: 2 (the most of 2 tasks: 1.9)",
    ]


def test_of_many_one_that_stands_out_is_named_and_does_not_size_the_others(tmp_path: Path) -> None:
    many = [{"memory_bytes": (1000 + n) * MIB} for n in range(198)]
    run = made(tmp_path, *many, {"memory_bytes": 9000 * MIB})
    assert said(run)[0] == "memory: 1.8 GiB, not 2.0 GiB (p99 of 199 tasks: 1.2 GiB, but one used 8.8 GiB)"


def test_a_task_that_failed_for_want_of_it_counts_for_twice_what_it_had(tmp_path: Path) -> None:
    run = made(tmp_path, {}, {"class": "oom"}, {"class": "app", "memory_bytes": 50_000 * MIB})
    assert said(run)[0] == (
        "memory: 6.2 GiB, not 2.0 GiB "
        "(the most of 2 tasks: 4.0 GiB; 1 ran out of memory, "
        "and a task that never ended well counts for twice what it had)"
    )


def test_where_all_failed_for_want_of_it_they_are_sized_by_what_they_had(tmp_path: Path) -> None:
    run = made(tmp_path, *[{"class": "oom", "memory_bytes": 3000 * MIB}] * 2, {"class": "timeout"})
    assert said(run) == [
        "memory: 9.0 GiB, not 2.0 GiB "
        "(the most of 2 tasks: 5.9 GiB; 2 ran out of memory, "
        "and a task that never ended well counts for twice what it had)"
    ]


def test_a_task_that_ended_well_at_its_second_attempt_counts_for_what_that_used(tmp_path: Path) -> None:
    run = made(tmp_path, {"memory_bytes": 3000 * MIB}, {})
    run.work("fail", "train", 0, 1, **{"class": "oom", "message": "m", "seconds": 1.0})
    assert said(run)[0] == "memory: 4.5 GiB, not 2.0 GiB (the most of 2 tasks: 2.9 GiB; 1 ran out of memory)"


def test_what_was_not_measured_is_not_advised(tmp_path: Path) -> None:
    run = made(tmp_path, {"memory_at_most": True, "seconds": 0.01})
    assert [one.key for one in advise(RunReader(run.paths), "train")] == ["memory", "walltime"]
    assert said(made(tmp_path / "failed", {"class": "app"})) == []


def test_a_bound_is_not_told_as_what_a_task_used(tmp_path: Path) -> None:
    least = {"memory_bytes": 19 * MIB, "memory_at_most": True}
    assert said(made(tmp_path / "a", least, {"memory_bytes": 9 * MIB}))[0] == (
        "memory: 128.0 MiB, not 2.0 GiB (the most of 2 tasks: at most 19.0 MiB)"
    )
    assert said(made(tmp_path / "b", least, {"memory_bytes": 20 * MIB}))[0].endswith("2 tasks: 20.0 MiB)")


def test_ranks_share_nodes_and_cores(tmp_path: Path) -> None:
    used = {"memory_bytes": 4000 * MIB, "cpu_seconds": 78.0, "seconds": 10.0}
    run = made(tmp_path, used, asked="ranks: 8, nodes: 2, cores_per_rank: 4")
    assert sizes_by(RunReader(run.paths))["train"] == {
        "memory": 3328 * MIB,  # 1.5 times 2,000 MiB, and what four ranks have beside
        "walltime": 60.0,
        "cores_per_rank": 1,
    }


def test_what_expressions_say_for_each_task_is_left_alone(tmp_path: Path) -> None:
    run = made(tmp_path, {}, asked='memory: "${{ n * 1GiB }}"'.replace("{", "{{").replace("}", "}}"))
    assert [one.key for one in advise(RunReader(run.paths), "train")] == ["walltime", "cores_per_rank"]


def test_ranks_that_an_expression_says_share_what_a_task_used(tmp_path: Path) -> None:
    used = {"cpu_seconds": 8.0, "seconds": 2.0}
    run = made(tmp_path, used, used, asked='ranks: "${{ 4 }}"')
    run.write("queued", stage="train", tasks=[0, 1], bundle=1, asked={"ranks": 4})
    assert sizes_by(RunReader(run.paths))["train"]["cores_per_rank"] == 1
