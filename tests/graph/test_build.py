"""The stage graph: along which axes data moves, in which order stages run, what is wrong with it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.graph import Edge, StageGraph, build
from diel.spec import Flaw, Workflow

AXES: dict[str, Any] = {name: {"values": [1, 2]} for name in "abc"}


def workflow(stages: dict[str, Any], axes: dict[str, Any] | None = None, **more: Any) -> Workflow:
    """A workflow of commands that do nothing."""
    filled = {name: {"command": ["true"], **stage} for name, stage in stages.items()}
    spec = {"diel": 1, "name": "w", "axes": AXES if axes is None else axes, "stages": filled, **more}
    return Workflow.model_validate(spec)


def built(stages: dict[str, Any], axes: dict[str, Any] | None = None, **more: Any) -> StageGraph:
    graph, flaws = build(workflow(stages, axes, **more))
    assert flaws == []
    return graph


def flaws_of(stages: dict[str, Any], axes: dict[str, Any] | None = None, **more: Any) -> list[Flaw]:
    return build(workflow(stages, axes, **more))[1]


def edge_between(up: list[str], down: list[str], at: dict[str, Any] | None = None) -> Edge:
    graph = built(
        {
            "up": {"over": up, "outputs": {"x": {"value": "int"}}},
            "down": {"over": down, "inputs": {"x": {"from": "up.x", "at": at or {}}}},
        }
    )
    (edge,) = graph.edges
    return edge


# --- along which axes data moves ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("up", "down", "at", "matched", "gathered"),
    [
        (["a"], ["a"], {}, ("a",), ()),
        (["a"], [], {}, (), ("a",)),
        ([], ["a"], {}, (), ()),
        (["a", "b"], ["b", "c"], {}, ("b",), ("a",)),
        (["b", "a"], ["a", "b"], {}, ("b", "a"), ()),
        (["a", "b"], [], {"a": 2}, (), ("b",)),
        (["a", "b"], ["a", "b"], {"a": 2}, ("b",), ()),
        (["a", "b"], ["c"], {"a": 1, "b": 2}, (), ()),
    ],
)
def test_shared_axes_are_matched_and_those_of_the_upstream_alone_are_gathered_unless_picked(
    up: list[str], down: list[str], at: dict[str, Any], matched: tuple[str, ...], gathered: tuple[str, ...]
) -> None:
    edge = edge_between(up, down, at)
    assert (edge.matched, edge.gathered, edge.picked) == (matched, gathered, at)
    assert (edge.upstream, edge.downstream, edge.output, edge.name) == ("up", "down", "x", "x")
    assert edge.key == ("stages", "down", "inputs", "x")


@given(st.lists(st.sampled_from("abc"), unique=True), st.lists(st.sampled_from("abc"), unique=True))
def test_every_upstream_axis_is_either_matched_or_gathered(up: list[str], down: list[str]) -> None:
    edge = edge_between(up, down)
    assert sorted(edge.matched + edge.gathered) == sorted(up)
    assert set(edge.matched) == set(up) & set(down)


def test_an_order_without_data_follows_the_same_rules() -> None:
    graph = built({"one": {"over": ["a", "b"]}, "two": {"over": ["b"], "after": ["one"]}})
    (edge,) = graph.edges
    assert (edge.output, edge.name, edge.matched, edge.gathered) == (None, None, ("b",), ("a",))
    assert edge.key == ("stages", "two", "after", 0)


def test_an_expression_that_reads_another_stage_is_an_edge_told_once() -> None:
    down = {
        "command": ["echo", "${{ up.x }}", "${{ up.x + up.y }}"],
        "env": {"X": "${{ up.x }}"},
        "when": "up.x > 0",
        "over": ["a"],
    }
    graph = built({"up": {"over": ["a"]}, "down": down})
    assert [(e.output, e.key) for e in graph.edges] == [
        ("x", ("stages", "down", "command", 1)),
        ("y", ("stages", "down", "command", 2)),
    ]


def test_outputs_and_conditions_make_edges_too() -> None:
    down = {"outputs": {"f": "${{ up.x }}.txt"}, "when": "other.y"}
    graph = built({"up": {}, "other": {}, "down": down})
    assert {(e.upstream, e.output, e.key) for e in graph.edges} == {
        ("up", "x", ("stages", "down", "outputs", "f")),
        ("other", "y", ("stages", "down", "when")),
    }


def test_a_derived_axis_makes_its_stages_wait_for_its_maker() -> None:
    axes = {**AXES, "d": {"from": "make.points"}}
    graph = built({"make": {"over": ["a"]}, "use": {"over": ["a", "d"]}}, axes)
    (edge,) = graph.edges
    assert (edge.upstream, edge.downstream, edge.output, edge.axis) == ("make", "use", "points", "d")
    assert (edge.matched, edge.gathered) == (("a",), ())


def test_a_hyperparameter_as_an_input_is_no_edge() -> None:
    graph = built({"s": {"inputs": {"h": "hp.h"}}}, hyperparameters={"h": {"type": "int", "default": 1}})
    assert graph.edges == ()


def test_the_round_before_closes_no_cycle() -> None:
    loop = {"from": "s.x", "at": {"round": "previous"}, "initially": 0}
    graph = built({"s": {"over": ["round"], "inputs": {"x": loop}}}, {"round": {"loop": {"max": 3}}})
    assert graph.edges[0].follows
    assert graph.order == ("s",)
    assert graph.depth == {"s": 0}


# --- what is wrong ------------------------------------------------------------------------------


def test_a_stage_that_reads_itself_is_refused_by_name() -> None:
    (flaw,) = flaws_of({"s": {"inputs": {"x": "s.x"}}})
    assert flaw.key == ("stages", "s", "inputs", "x")
    assert "s -> s" in flaw.message


def test_a_cycle_is_named_in_the_order_in_which_it_turns_from_the_first_stage_of_the_file() -> None:
    stages = {
        "free": {},
        "two": {"after": ["one"]},
        "one": {"after": ["three", "free"]},
        "three": {"after": ["two"]},
    }
    (flaw,) = flaws_of(stages)
    assert flaw.message.endswith(": two -> three -> one -> two")
    assert flaw.key == ("stages", "two", "after", 0)


def test_a_cycle_that_the_first_stage_only_leads_to_turns_from_its_own_first() -> None:
    stages = {
        "a": {"after": ["d"]},
        "c": {"after": ["b"]},
        "b": {"after": ["a", "c"]},
        "d": {"after": ["c"]},
    }
    (flaw,) = flaws_of(stages, {})
    assert flaw.message.endswith(": c -> b -> c")


def test_two_cycles_are_told_both() -> None:
    stages = {
        "a1": {"after": ["a2"]},
        "a2": {"after": ["a1"]},
        "b1": {"after": ["b2"]},
        "b2": {"after": ["b1"]},
    }
    told = sorted(flaw.message.partition(": ")[2] for flaw in flaws_of(stages, {}))
    assert told == ["a1 -> a2 -> a1", "b1 -> b2 -> b1"]


@given(st.permutations(["p", "q", "r", "s", "t"]))
def test_each_edge_of_a_named_cycle_is_there(ring: list[str]) -> None:
    after = {name: [ring[place - 1]] for place, name in enumerate(ring)}
    (flaw,) = flaws_of({name: {"after": after[name]} for name in sorted(ring)}, {})
    named = flaw.message.rpartition(": ")[2].split(" -> ")
    assert named[0] == named[-1] == "p"
    assert sorted(named[1:]) == sorted(ring)
    assert all(after[down] == [up] for up, down in pairwise(named))


@pytest.mark.parametrize(
    ("stages", "key", "message", "hint"),
    [
        (
            {"simulate": {}, "s": {"inputs": {"x": "simulat.x"}}},
            ("stages", "s", "inputs", "x"),
            "no stage 'simulat'",
            "did you mean 'simulate'?",
        ),
        ({"s": {"over": ["zz"]}}, ("stages", "s", "over", 0), "no axis 'zz'", "axes: a, b, c"),
        (
            {"s": {"inputs": {"x": "energy"}}},
            ("stages", "s", "inputs", "x"),
            "expected STAGE.OUTPUT, found 'energy'",
            "",
        ),
        ({"s": {"inputs": {"x": "hp.h"}}}, ("stages", "s", "inputs", "x"), "no hyperparameter 'h'", ""),
        (
            {"u": {"over": ["a"]}, "s": {"inputs": {"x": {"from": "u.x", "at": {"b": 1}}}}},
            ("stages", "s", "inputs", "x", "at", "b"),
            "'u' does not run over an axis 'b'",
            "its axes: a",
        ),
        (
            {"u": {"over": ["a"]}, "s": {"inputs": {"x": {"from": "u.x", "at": {"a": "last"}}}}},
            ("stages", "s", "inputs", "x", "at", "a"),
            "`last` picks a round of a loop, and 'a' is no loop",
            "",
        ),
        (
            {"u": {"over": ["a"]}, "s": {"inputs": {"x": {"from": "u.x", "at": {"a": "best"}}}}},
            ("stages", "s", "inputs", "x", "at", "a"),
            "`best` picks a trial of a search, and 'a' is no search",
            "",
        ),
        (
            {
                "u": {"over": ["a"]},
                "s": {"over": ["a"], "inputs": {"x": {"from": "u.x", "min_success": 0.5}}},
            },
            ("stages", "s", "inputs", "x", "min_success"),
            "nothing is gathered here",
            "",
        ),
    ],
)
def test_a_reference_to_nothing_is_told_at_its_key(
    stages: dict[str, Any], key: tuple[str | int, ...], message: str, hint: str
) -> None:
    (flaw,) = flaws_of(stages)
    assert flaw.key == key
    assert flaw.message.startswith(message)
    assert hint in flaw.hint


def test_two_axes_that_give_the_same_parameter_are_refused_only_where_they_meet() -> None:
    axes = {"p": {"zip": {"x": [1], "y": [2]}}, "q": {"zip": {"x": [1], "z": [2]}}}
    assert flaws_of({"one": {"over": ["p"]}, "two": {"over": ["q"]}}, axes) == []
    (flaw,) = flaws_of({"both": {"over": ["p", "q"]}}, axes)
    assert flaw.message == "axes 'p' and 'q' both give the parameter 'x'"
    assert flaw.key == ("stages", "both", "over", 1)


def test_previous_needs_a_first_value() -> None:
    stages = {"s": {"over": ["r"], "inputs": {"x": {"from": "s.x", "at": {"r": "previous"}}}}}
    (flaw,) = flaws_of(stages, {"r": {"loop": {"max": 2}}})
    assert "initially" in flaw.message


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


# --- order --------------------------------------------------------------------------------------


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, list[str]]:
    """Stages in any order of the file, each after some that come earlier in a hidden order."""
    names = [f"s{number}" for number in range(draw(st.integers(1, 7)))]
    hidden = draw(st.permutations(names))
    after = {
        name: [other for other in hidden[:place] if draw(st.booleans())] for place, name in enumerate(hidden)
    }
    return {name: after[name] for name in draw(st.permutations(names))}


@given(acyclic())
def test_each_stage_comes_after_all_that_it_depends_on_and_ties_keep_the_files_order(
    after: dict[str, list[str]],
) -> None:
    graph = built({name: {"after": others} for name, others in after.items()}, {})
    expected: list[str] = []
    while len(expected) < len(after):  # the first stage of the file that can run
        expected.append(next(n for n, o in after.items() if n not in expected and set(o) <= set(expected)))
    assert list(graph.order) == expected
    for name, others in after.items():
        assert graph.depth[name] == max((graph.depth[o] + 1 for o in others), default=0)
        assert {e.upstream for e in graph.into(name)} == set(others)
        assert {e.downstream for e in graph.out_of(name)} == {n for n, o in after.items() if name in o}


@given(acyclic())
def test_what_comes_after_a_stage_is_all_that_would_change_with_it(after: dict[str, list[str]]) -> None:
    graph = built({name: {"after": others} for name, others in after.items()}, {})
    for name in after:
        reached = {name}
        for other in graph.order:
            if reached & set(after[other]):
                reached.add(other)
        assert graph.after(name) == reached


@given(acyclic(), st.data())
def test_the_critical_path_is_the_longest_chain(after: dict[str, list[str]], data: st.DataObject) -> None:
    graph = built({name: {"after": others} for name, others in after.items()}, {})
    seconds = {name: float(data.draw(st.integers(1, 100))) for name in after}
    path = graph.critical_path(seconds)
    assert all(up in after[down] for up, down in pairwise(path))
    longest: dict[str, float] = {}
    for name in graph.order:
        longest[name] = seconds[name] + max((longest[o] for o in after[name]), default=0.0)
    assert sum(seconds[name] for name in path) == pytest.approx(max(longest.values()))


def test_the_last_stages_own_time_counts_in_the_critical_path() -> None:
    graph = built({"a": {}, "short": {"after": ["a"]}, "long": {"after": ["a"]}}, {})
    assert graph.critical_path({"a": 1.0, "short": 1.0, "long": 9.0}) == ("a", "long")
    assert graph.critical_path({"a": 0.0, "short": 0.0, "long": 0.0})[0] == "a"
