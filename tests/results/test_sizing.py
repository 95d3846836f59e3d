"""Advice rests on what tasks used, and says on which of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.results import RunReader
from diel.results.usage import advise, sizes_by
from tests.handmade import Handmade

FLOW = """
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
    run = Handmade(folder, FLOW.format(asked=asked, stage=stage)).stage("train", 1000)
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
