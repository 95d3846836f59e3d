"""Who reads what a stage publishes, and which publications cannot be."""

from __future__ import annotations

from typing import Any

from diel.workflow.graph import Edge
from diel.workflow.models import Violation
from tests.graph.building import AXES, built, flaws_of

REGISTRY = {"h": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.5}}
READ = {"command": ["x", "${{ hp.h }}"]}
TUNE = {"outputs": {"found": {"value": "float"}}, "publishes": {"h": "found"}}


def published(stages: dict[str, Any], axes: dict[str, Any] | None = None) -> dict[str, Edge]:
    """The edges of published values, by the stage that reads one."""
    graph = built(stages, axes, hyperparameters=REGISTRY)
    return {edge.downstream: edge for edge in graph.edges if edge.published is not None}


def flaws(stages: dict[str, Any], axes: dict[str, Any] | None = None) -> list[Violation]:
    return flaws_of(stages, axes, hyperparameters=REGISTRY)


def test_a_stage_behind_the_publisher_reads_its_value_and_another_the_registrys() -> None:
    edges = published({"tune": TUNE, "use": {**READ, "after": ["tune"]}, "apart": READ})
    assert set(edges) == {"use"}
    edge = edges["use"]
    assert (edge.upstream, edge.output, edge.key) == ("tune", "found", ("stages", "use", "command", 1))
    assert edge.published is not None
    assert (edge.published.name, edge.published.spec.high) == ("h", 1.0)


def test_of_several_publishers_the_latest_before_a_stage_is_read() -> None:
    stages = {
        "first": TUNE,
        "second": {**TUNE, "after": ["first"]},
        "between": {**READ, "after": ["first"]},
        "end": {**READ, "after": ["second"]},
    }
    edges = published(stages)
    assert {name: edge.upstream for name, edge in edges.items()} == {"between": "first", "end": "second"}
    (flaw,) = flaws({"first": TUNE, "second": TUNE})
    assert flaw.message == "'first' publishes 'h' too, and neither depends on the other"
    assert "after: [first]" in flaw.hint


def test_trials_read_what_their_search_sets_and_cannot_publish_it() -> None:
    axes = {"t": {"search": {"trials": 2, "parameters": ["h"], "minimize": "judge.loss"}}}
    judge = {**READ, "over": ["t"], "after": ["tune"]}
    assert published({"tune": TUNE, "judge": judge}, axes) == {}
    (flaw,) = flaws({"judge": {**TUNE, "over": ["t"]}}, axes)
    assert flaw.message == "'judge' runs over 't', a search that sets 'h' itself"
    assert flaw.key == ("stages", "judge", "publishes", "h")
    assert "{from: hp.h, at: {t: best}}" in flaw.hint


def test_a_value_for_each_point_is_read_by_stages_over_the_axis_alone() -> None:
    tune = {**TUNE, "over": ["a"]}
    assert set(published({"tune": tune, "use": {**READ, "over": ["a"], "after": ["tune"]}})) == {"use"}
    (flaw,) = flaws({"tune": tune, "use": {**READ, "after": ["tune"]}})
    assert flaw.message == "'tune' publishes 'h' once for each a, and 'use' lacks a"
    assert flaws({"tune": tune, "blind": {"command": ["x"], "after": ["tune"]}}) == []


def test_of_a_loop_that_publishes_in_some_rounds_the_last_of_these_is_read() -> None:
    axes = {**AXES, "r": {"loop": {"max": 3}}}
    tune = {**TUNE, "over": ["r"], "when": "r > 0"}
    edge = published({"tune": tune, "use": {**READ, "over": ["r"], "after": ["tune"]}}, axes)["use"]
    assert edge.chosen["r"].word == "last"


def test_a_hyperparameter_that_nobody_knows_is_not_published() -> None:
    (flaw,) = flaws({"tune": {**TUNE, "publishes": {"hh": "found"}}})
    assert (flaw.message, flaw.hint) == ("no hyperparameter 'hh'", "did you mean 'h'?")
    assert flaw.key == ("stages", "tune", "publishes", "hh")
