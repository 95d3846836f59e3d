"""The order of stages, their depth, what comes after one, and who waits for whom."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.building import built, flaws_of


def test_the_round_before_closes_no_cycle() -> None:
    loop = {"from": "s.x", "at": {"round": "previous"}, "initially": 0}
    graph = built({"s": {"over": ["round"], "inputs": {"x": loop}}}, {"round": {"loop": {"max": 3}}})
    assert graph.edges[0].follows
    assert graph.order == ("s",)
    assert graph.depth == {"s": 0}


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
