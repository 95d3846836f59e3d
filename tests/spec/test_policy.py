"""Policies: what a stage's `on` and its defaults make of each class of failure."""

from __future__ import annotations

from typing import Any

import pytest

from diel.base.states import FailureClass
from diel.workflow.models import Resources, Stage
from diel.workflow.models.policy import most_failures

BIG = {"memory": "1GiB", "walltime": "1h"}


def stage(**keys: Any) -> Stage:
    return Stage.model_validate({"command": ["true"], **keys})


@pytest.mark.parametrize(
    ("keys", "kind", "retries", "memory", "walltime"),
    [
        ({"retries": 3}, "app", 3, 1, 1),
        ({"retries": 3}, "launch", 3, 1, 1),
        ({"retries": 3, "timeout": "1s"}, "timeout", 3, 1, 1),
        ({"retries": 3}, "oom", 3, 1, 1),
        ({"resources": BIG}, "oom", 2, 2, 1),
        ({"resources": BIG}, "walltime", 2, 1, 2),
        ({}, "walltime", 2, 1, 1),
        ({}, "node", 5, 1, 1),
        ({}, "preempted", 100, 1, 1),
        ({"retries": 3, "on": {"app": {"retries": 1}}}, "app", 1, 1, 1),
        ({"retries": 3, "on": {"app": {"retries": 1}}}, "launch", 3, 1, 1),
        ({"resources": BIG, "on": {"oom": {"memory": "x1.5"}}}, "oom", 2, 1.5, 1),
        ({"resources": BIG, "on": {"oom": {"retries": 4}}}, "oom", 4, 2, 1),
        ({"resources": BIG, "on": {"oom": {"walltime": "x3", "memory": "x1"}}}, "oom", 2, 1, 3),
        ({"on": {"node": {"retries": 0}}}, "node", 0, 1, 1),
    ],
)
def test_a_class_has_its_defaults_where_the_stage_says_nothing(
    keys: dict[str, Any], kind: str, retries: int, memory: float, walltime: float
) -> None:
    rule = stage(**keys).rule(FailureClass(kind))
    assert (rule.retries, rule.memory, rule.walltime) == (retries, memory, walltime)


def test_only_what_the_stages_retries_are_for_is_counted_together() -> None:
    made = stage(retries=2, timeout="1s", on={"timeout": {"retries": 1}})
    shared = {kind for kind in FailureClass if made.rule(kind).shared}
    assert {"app", "launch", "oom"} <= shared
    assert not shared & {"timeout", "walltime", "node", "preempted"}


def test_what_an_attempt_asked_for_comes_back_from_the_journal() -> None:
    made = stage(resources={**BIG, "ranks": 2})
    asked = made.resources.model_copy(update={"memory": 3 * 2**30})
    changed = asked.changes(made.resources)
    assert changed == {"memory": 3 * 2**30}
    assert made.resources.changed(changed) == asked
    assert made.resources.changes(made.resources) == {}
    assert made.resources.changed({}) is made.resources
    assert isinstance(made.resources.changed({"walltime": 7200.0}), Resources)


@pytest.mark.parametrize(
    ("written", "tasks", "most"),
    [
        (None, 40, None),
        (0, 40, 0),
        (5, 40, 5),
        ("10%", 40, 4),
        ("12.5 %", 40, 5),
        ("0%", 40, 0),
        ("100%", 3, 3),
    ],
)
def test_a_number_or_a_share_bounds_the_failures_of_a_stage(
    written: object, tasks: int, most: float | None
) -> None:
    stage = Stage.model_validate({"command": ["true"], "max_failures": written})
    assert most_failures(stage.max_failures, tasks) == most
