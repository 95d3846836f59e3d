"""Which stages judge a search or loop, and what is wrong with some."""

from __future__ import annotations

from typing import Any

import pytest

from diel.workflow.graph.judge import judge_of, place_of_name
from tests.graph.building import AXES, flaws_of, workflow


def test_a_search_is_judged_by_a_stage_over_it_and_every_stage_over_it_has_the_judges_axes() -> None:
    search = {"search": {"trials": 2, "parameters": ["h"], "minimize": "judge.loss"}}
    registry = {"h": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.5}}
    stages = {"train": {"over": ["t"]}, "judge": {"over": ["a", "t"], "after": ["train"]}}
    (lacking,) = flaws_of(stages, {**AXES, "t": search}, hyperparameters=registry)
    assert lacking.key == ("stages", "train", "over")
    assert "'t' runs once for each a" in lacking.message
    (unjudged,) = flaws_of({"judge": {}}, {"t": search}, hyperparameters=registry)
    assert "'judge' does not run over 't'" in unjudged.message
    (unknown,) = flaws_of({"other": {"over": ["t"]}}, {"t": search}, hyperparameters=registry)
    assert unknown.message == "no stage 'judge'"


def test_cross_validation_is_no_flaw() -> None:
    """`train` over [trial, fold], judged by `validate` over [trial]."""
    search = {"search": {"trials": 2, "parameters": ["h"], "minimize": "validate.loss"}}
    registry = {"h": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.5}}
    stages = {"train": {"over": ["t", "a"]}, "validate": {"over": ["t"], "inputs": {"x": "train.x"}}}
    assert flaws_of(stages, {**AXES, "t": search}, hyperparameters=registry) == []


def loop(until: str | None = None) -> dict[str, Any]:
    return {**AXES, "r": {"loop": {"max": 3, **({} if until is None else {"until": until})}}}


def test_a_loop_is_judged_by_the_stages_that_its_condition_reads_once_for_each_of_their_other_axes() -> None:
    stages = {"s": {"over": ["r", "a"]}, "o": {}}
    judge = judge_of(workflow(stages, loop("s.x < 1 and hp.h > 0 and o.x")), "r")
    assert (judge.stages, judge.context) == (("s",), ("a",))
    assert judge_of(workflow(stages, loop()), "r") == ((), ())


def test_a_stage_that_is_watched_by_a_pruner_is_no_judge() -> None:
    search = {"trials": 2, "parameters": ["h"], "minimize": "v.x", "watch": "t.x", "pruner": "median"}
    stages = {"t": {"over": ["s"]}, "v": {"over": ["s"]}}
    made = workflow(stages, {"s": {"search": search}}, hyperparameters={"h": {"type": "bool"}})
    assert judge_of(made, "s").stages == ("v",)


@pytest.mark.parametrize(
    ("until", "message"),
    [
        ("hp.h > 1", "`until` reads no value of a round"),
        ("r > 1", "`until` reads nothing of a round but its number"),
        ("s", "expected STAGE.VALUE, found 's'"),
        ("t.x > 1", "'t' does not run over 'r', so it cannot judge it"),
    ],
)
def test_a_condition_that_cannot_end_a_loop_is_refused(until: str, message: str) -> None:
    (flaw,) = flaws_of({"s": {"over": ["r"]}, "t": {}}, loop(until))
    assert flaw.message.startswith(message)
    assert flaw.key == ("axes", "r", "loop", "until")


def test_no_stage_waits_for_all_rounds_that_wait_for_it() -> None:
    stages = {
        "all": {"inputs": {"x": {"from": "s.x", "at": {"r": "last"}}}},
        "s": {"over": ["r"]},
        "t": {"over": ["r"], "inputs": {"x": "all.x"}},
    }
    assert flaws_of(stages, loop("s.x < 1")) == []
    (flaw,) = flaws_of(stages, loop("t.x < 1"))
    assert flaw.message == "'all' waits for every round of 'r', and 't', which is in each, waits for 'all'"


def test_the_place_of_a_name_is_that_of_the_whole_name() -> None:
    assert place_of_name("xs.x + s.x", "s.x") == 7
    assert place_of_name("s.xy + a.s.x", "s.x") is None
