"""The plan: how many tasks, in which pool, at what cost; nothing is submitted."""

from __future__ import annotations

import json
import textwrap
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.base.errors import SpecError
from diel.planning.check import check
from diel.planning.plan import Plan, make_plan
from diel.site.site import Site

POOLS: dict[str, Any] = {
    "small": {"cores": 2, "memory": "4GiB"},
    "large": {"cores": 32, "nodes": 4, "gpus": 4, "memory": "256GiB"},
}


def site(**pools: Any) -> Site:
    return Site.model_validate({"name": "here", "scheduler": "local", "pools": pools or POOLS})


def planned(text: str, where: Site | None = None) -> Plan:
    path = Path("w.yaml")
    return make_plan(check(path, text="diel: 1\nname: w\n" + textwrap.dedent(text)), where or site())


SWEEP = """
axes:
  a: {{range: {a}}}
  b: {{linspace: [0, 1, {b}]}}
  c: {{from: make.points}}
stages:
  make: {{command: [echo, "$DIEL_RESULT"], over: [a]}}
  grid: {{command: [echo], over: [a, b], resources: {{walltime: 30m, ranks: 2, cores_per_rank: 3}}}}
  once: {{command: [echo], timeout: 90s}}
"""


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_a_stages_tasks_are_the_product_of_its_axes_points(a: int, b: int) -> None:
    plan = planned(SWEEP.format(a=a, b=b))
    assert {name: stage.tasks for name, stage in plan.stages.items()} == {"make": a, "grid": a * b, "once": 1}
    assert plan.tasks == a + a * b + 1


def test_core_hours_are_tasks_times_cores_times_the_longest_run_time() -> None:
    plan = planned(SWEEP.format(a=10, b=7))
    assert plan.stages["grid"].core_hours == pytest.approx(70 * 6 * 0.5)
    assert plan.stages["once"].core_hours == pytest.approx(90 / 3600)
    assert plan.stages["make"].core_hours is None
    assert plan.core_hours is None


def test_a_plans_cost_is_the_sum_where_every_stage_has_a_bound() -> None:
    plan = planned(
        """
        axes: {a: {range: 3}}
        stages:
          one: {command: [echo], over: [a], timeout: 1h}
          two: {command: [echo], over: [a], resources: {walltime: 2h, cores_per_rank: 2}, timeout: 5h}
        """
    )
    assert plan.core_hours == pytest.approx(3 * 1 + 3 * 2 * 2)


DERIVED = """
axes:
  a: {range: 3}
  d: {from: make.points}
stages:
  make: {command: [echo, "$DIEL_RESULT"], over: [a]}
  use: {command: [echo], over: [a, d], timeout: 1h}
"""


def test_what_only_the_run_will_tell_is_not_made_up() -> None:
    plan = planned(DERIVED)
    assert plan.stages["use"].tasks is plan.stages["use"].core_hours is plan.tasks is None
    assert plan.document()["stages"]["use"]["axes"] == {"a": 3, "d": None}
    assert plan.executor == "threads"


def test_a_sweep_of_a_million_million_tasks_is_counted() -> None:
    with pytest.raises(SpecError, match="1,000,000,000,000 tasks; expected at most 1,000,000,000"):
        planned(SWEEP.format(a=10**6, b=10**6))
    assert planned(SWEEP.format(a=10**6, b=1000)).stages["grid"].tasks == 10**9


def test_stages_stand_in_the_order_in_which_they_run_and_the_longest_chain_is_named() -> None:
    plan = planned(
        """
        stages:
          last: {command: [echo], after: [long, short], timeout: 1s}
          short: {command: [echo], after: [first], timeout: 1s}
          long: {command: [echo], after: [first], timeout: 5s}
          first: {command: [echo], timeout: 1s}
        """
    )
    assert list(plan.stages) == ["first", "short", "long", "last"]
    assert plan.critical_path == ("first", "long", "last")


# --- pools --------------------------------------------------------------------------------------

ONE = "stages: {{s: {{command: [echo], resources: {{{resources}}}}}}}\n"


@pytest.mark.parametrize(
    ("resources", "pool"),
    [
        ("cores_per_rank: 2", "small"),
        ("cores_per_rank: 3", "large"),
        ("gpus_per_rank: 1", "large"),
        ("memory: 5GiB", "large"),
        ("pool: large", "large"),
    ],
)
def test_a_stage_goes_into_the_first_pool_that_it_fits_or_the_one_that_it_names(
    resources: str, pool: str
) -> None:
    assert planned(ONE.format(resources=resources)).stages["s"].pool == pool


@pytest.mark.parametrize(
    ("resources", "key", "message", "hints"),
    [
        (
            "cores_per_rank: 64",
            "stages.s.resources",
            "fits no pool of site 'here'",
            (
                "pool 'small': asks for 64 cores a node, and it has 2",
                "pool 'large': asks for 64 cores a node, and it has 32",
                "--site",
            ),
        ),
        (
            "gpus_per_rank: 1, pool: small",
            "stages.s.resources",
            "fits no pool",
            ("pool 'small': asks for 1 GPU a node, and it has 0",),
        ),
        (
            "pool: lage",
            "stages.s.resources.pool",
            "site 'here' has no pool 'lage'",
            ("pools: small, large",),
        ),
    ],
)
def test_a_stage_that_fits_nowhere_is_refused_with_what_each_pool_lacks(
    resources: str, key: str, message: str, hints: tuple[str, ...]
) -> None:
    with pytest.raises(SpecError) as error:
        planned(ONE.format(resources=resources))
    (problem,) = error.value.problems
    assert (problem.key, problem.line) == (key, 3)
    assert message in problem.message
    assert all(hint in problem.hint for hint in hints)


def test_all_stages_that_fit_nowhere_are_told_at_once() -> None:
    big = "{command: [echo], resources: {cores_per_rank: 99}}"
    with pytest.raises(SpecError) as error:
        planned(f"stages:\n  a: {big}\n  b: {big}\n  c: {{command: [echo]}}\n")
    assert [problem.line for problem in error.value.problems] == [4, 5]


def test_the_capacity_is_all_cores_of_all_pools() -> None:
    assert planned(ONE.format(resources="")).capacity == 2 + 4 * 32


# --- as JSON ------------------------------------------------------------------------------------


def test_the_document_has_the_promised_keys() -> None:
    document = json.loads(json.dumps(planned(SWEEP.format(a=10, b=7)).document()))
    assert {"workflow", "site", "executor", "tasks", "core_hours", "critical_path", "stages"} <= set(document)
    grid = document["stages"]["grid"]
    assert (grid["tasks"], grid["axes"], grid["pool"]) == (70, {"a": 10, "b": 7}, "large")
    assert (grid["cores"], grid["walltime_s"], grid["kind"]) == (6, 1800.0, "analysis")
    assert grid["launcher"][1:] == ["-n", "2"]
    assert document["tasks"] == sum(stage["tasks"] for stage in document["stages"].values())
    assert all(stage["tasks"] == prod(stage["axes"].values()) for stage in document["stages"].values())


def test_ranks_that_need_several_nodes_are_told_how_many() -> None:
    with pytest.raises(SpecError) as error:
        planned(ONE.format(resources="ranks: 33"))
    assert "write `nodes: 2`" in error.value.problems[0].hint
