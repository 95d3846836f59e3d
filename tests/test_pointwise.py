"""Expressions over gathered values: point by point, or reduced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.workflow.expressions import ExpressionError, parse, parse_expression
from diel.workflow.expressions.expression import PLACES
from diel.workflow.expressions.gathered import GatheredValues
from tests.expressions.evaluating import value
from tests.throwaway import Project

THREE = [(0,), (1,), (2,)]
SCOPE: dict[str, Any] = {
    "a": {
        "e": GatheredValues([1.0, -2.0, 3.0], ("x",), THREE),
        "ok": GatheredValues([True, False, True], ("x",), THREE),
        "name": GatheredValues(["p", "q", "r"], ("x",), THREE),
        "fit": GatheredValues([{"slope": 1}, {"slope": 2}, {"slope": 3}], ("x",), THREE),
        "missing": GatheredValues([1.0, None, 3.0], ("x",), THREE),
        "nan": GatheredValues([0.0, float("nan"), 0.0], ("x",), THREE),
        "shape": GatheredValues([[2, 3], [2, 4], [2, 3]], ("x",), THREE),
    },
    "b": {
        "e": GatheredValues([10.0, 30.0], ("x",), [(0,), (2,)]),
        "xy": GatheredValues([1, 2, 3, 4], ("x", "y"), [(0, 0), (0, 1), (1, 0), (2, 1)]),
        "yx": GatheredValues([1, 3, 2, 4], ("y", "x"), [(0, 0), (0, 1), (1, 0), (1, 2)]),
        "y": GatheredValues([100, 200], ("y",), [(0,), (1,)]),
        "none": GatheredValues([], ("x",), []),
    },
    "curve": [5.0, 6.0, 7.0],
    "n": 2,
    PLACES: {"x": [0, 1, 2], "y": [0, 1]},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 * a.e", [2.0, -4.0, 6.0]),
        ("-a.e", [-1.0, 2.0, -3.0]),
        ("a.e ** 2 / b.e", [0.1, 0.3]),
        ("b.e - a.e", [9.0, 27.0]),
        ("abs(a.e)", [1.0, 2.0, 3.0]),
        ("sqrt(a.e ** 2)", [1.0, 2.0, 3.0]),
        ("round(a.e / 3, 1)", [0.3, -0.7, 1.0]),
        ("format(a.e, '.1f')", ["1.0", "-2.0", "3.0"]),
        ("max(a.e, b.e)", [10.0, 30.0]),
        ("min(a.e, 0)", [0, -2.0, 0]),
        ("a.e == 1", [True, False, False]),
        ("a.e != 1", [False, True, True]),
        ("0 < a.e < 2", [True, False, False]),
        ("a.e in [1, 3]", [True, False, True]),
        ("a.e not in [1, 3]", [False, True, False]),
        ("a.name + '.txt'", ["p.txt", "q.txt", "r.txt"]),
        ("a.name == 'q'", [False, True, False]),
        ("a.fit.slope * 2", [2, 4, 6]),
        ("where(a.fit, a.ok).slope", [1, 3]),
        ("a.fit[1:]['slope']", [2, 3]),
        ("a.shape == [2, 3]", [True, False, True]),
        ("a.missing + 1", [2.0, None, 4.0]),
        ("sqrt(a.missing)", [1.0, None, 3.0**0.5]),
        ("a.missing == null", [False, True, False]),
        ("a.missing > 0", [True, None, True]),
        ("b.xy - b.yx", [0, 0, 0, 0]),
        ("a.e + b.xy", [2.0, 3.0, 1.0, 7.0]),
        ("b.xy + b.y", [101, 202, 103, 204]),
        ("where(a.e, a.ok)", [1.0, 3.0]),
        ("where(b.e, a.ok)", [10.0, 30.0]),
        ("a.e[1:]", [-2.0, 3.0]),
        ("a.e[1:] + b.e", [33.0]),
        ("along(curve, x) * b.e", [50.0, 210.0]),
        ("along(concat(curve[:1], sorted(curve[1:])), x) * b.e", [50.0, 210.0]),
        ("along(concat([n] * len(b.e), [null]), x)", [2, 2, None]),
        ("b.none * 2", []),
    ],
)
def test_gathered_values_compute_and_compare_at_each_point(text: str, expected: list[Any]) -> None:
    found = value(text, SCOPE)
    assert found == (pytest.approx(expected) if expected and type(expected[0]) is float else expected)
    assert type(found) is GatheredValues
    assert len(found.points) == len(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(a.e) - mean(b.e)", -18.0),
        ("mean(2 * a.e)", 4 / 3),
        ("all(a.e == 1)", False),
        ("any(a.e == 1) and n == 2", True),
        ("quantile(a.e, 0.5)", 1.0),
        ("count(a.missing)", 2),
        ("sum(a.missing)", None),
        ("sum(a.ok)", 2),
        ("sorted(a.e)", [-2.0, 1.0, 3.0]),
        ("len(where(a.e, a.ok))", 2),
        ("1 in a.e", True),
        ("a.e[0]", 1.0),
        ("a.e[-1]", 3.0),
        ("concat(a.e, b.e, [0])", [1.0, -2.0, 3.0, 10.0, 30.0, 0]),
        ("join(a.name, '+')", "p+q+r"),
        ("fortran(a.ok)", ".true., .false., .true."),
        ("str(a.ok)", "[true, false, true]"),
        ("[0] * 2", [0, 0]),
        ("[n] * n + [1]", [2, 2, 1]),
        ("'yes' if all(a.e < 9) else 'no'", "yes"),
        ("sum(b.none) + len(b.none)", 0),
        ("mean(b.none)", None),
        ("1 if mean(b.none) == null else 0", 1),
        ("null and false or true", True),
        ("null or n", 2),
        ("any(a.missing > 0) and not all(a.e > 0)", True),
    ],
)
def test_what_reduces_them_gives_one_value_or_a_list_without_points(text: str, expected: Any) -> None:
    found = value(text, SCOPE)
    assert found == expected
    assert isinstance(found, type(expected))
    assert not isinstance(found, GatheredValues)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a.e + b.y", "values gathered over y and over x have no points in common"),
        ("a.e if a.ok else 0", "one truth is needed here"),
        ("a.ok and true", "one truth is needed here"),
        ("not a.ok", "write all(...), any(...), or compare mean(...)"),
        ("curve * 2", "concat(a, b) puts lists together"),
        ("curve + [1]", "cannot compute with a list"),
        ("a.e + curve", "along(list, axis)"),
        ("a.e == [1, 2, 3]", "a number never equals a list, at point 0 of x"),
        ("curve == 5", "a list never equals a whole number"),
        ("sqrt(curve)", "sqrt: expected one value, found a list"),
        ("where(curve, a.ok)", "the items of one list have points"),
        ("along(curve, y)", "3 items at 2 points of axis 'y'"),
        ("along(curve, z)", "nothing is gathered over 'z' here"),
        ("along(a.e, x)", "found gathered values, which have their points"),
        ("along(concat(b.e, [5]), x)", "were gathered, and have lost their points"),
        ("along(sorted(a.e, reverse=true)[0:3], x)", "were gathered, and have lost their points"),
        ("along(concat(where(sorted(b.e), [true, true]), [5]), x)", "have lost their points"),
        ("along(where(a.e, a.ok), x)", "found gathered values, which have their points"),
        ("join(a.missing, ',')", "join: expected values, found null among them"),
        ("join(format(a.missing, '.1f'))", "where(a.e, a.e != null) leaves it out"),
        ("join([[1, null], [2, 3]])", "found null among them"),
        ("1 / (a.e - 1)", "division by zero, at point 0 of x"),
        ("mean(b.none) + 1", "cannot compute with null: mean(b.none) is null, as it is of no values"),
        ("mean(b.none) < 1", "cannot compute with null"),
        ("1 + 2 * mean(a.missing)", "mean(a.missing) is null, as one of its values is, at point 1 of x"),
        ("mean(a.missing) > 0", "where(a.missing, a.missing != null) leaves it out"),
        ("1 / std(a.e[:1])", "std(a.e[:1]) is null, as it is of one value"),
        ("1 - a.missing[1]", "a.missing[1] is null"),
        ("0 if n > 5 else sqrt(a.missing[1])", "a.missing[1] is null"),
        ("not all(a.missing > 0)", "all(a.missing > 0) is null, as one of its values is"),
        ("not any(a.nan)", "any(a.nan) is null, as NaN among its values could decide it"),
        ("not a.missing[1]", "null is neither true nor false: a.missing[1] is null"),
        ("null and n", "null is neither true nor false"),
        ("n and null", "null is neither true nor false"),
        ("null or 0", "null is neither true nor false"),
        ("1 if all(a.missing > 0) else 0", "null is neither true nor false"),
        ("a.e[:mean(b.none)]", "cannot cut a list at null: mean(b.none) is null"),
        ("round(1.5, null)", "round: cannot compute with null"),
        ("join(a.name, null)", "join: cannot compute with null"),
        ("sorted(a.e, reverse=null)", "sorted: cannot compute with null"),
    ],
)
def test_what_cannot_be_right_is_refused_with_what_to_write(text: str, told: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text, SCOPE)
    assert told in str(caught.value)


def test_a_condition_that_holds_at_some_points_is_no_condition() -> None:
    with pytest.raises(ExpressionError, match="one truth is needed"):
        parse_expression("a.e == 1").truth(SCOPE)
    assert parse_expression("any(a.e == 1)").truth(SCOPE)


@pytest.mark.parametrize("text", ["all(a.missing > 0)", "nothing", "null", "n and nothing"])
def test_a_condition_that_is_null_is_no_condition(text: str) -> None:
    with pytest.raises(ExpressionError, match="null is neither true nor false"):
        parse_expression(text).truth({**SCOPE, "nothing": None})


def test_texts_and_words_have_the_values_without_their_points() -> None:
    assert parse("<${{ a.ok }}>").text_value(SCOPE) == "<[true, false, true]>"
    assert parse("${{ 2 * a.e }}").words(SCOPE) == ["2.0", "-4.0", "6.0"]
    assert parse("${{ join(where(a.missing, a.missing != null)) }}").text_value(SCOPE) == "1.0 3.0"


def test_a_null_keeps_its_place_among_the_words_of_a_command() -> None:
    assert parse("${{ a.missing }}").words(SCOPE) == ["1.0", "null", "3.0"]
    assert parse("f ${{ a.missing }} '${{ a.missing }}'").shell(SCOPE) == "f 1.0 null 3.0 '''1.0 null 3.0'''"
    assert parse("${{ str(a.missing) }}").words(SCOPE) == ["[1.0, null, 3.0]"]
    assert parse("${{ null }}").words(SCOPE) == ["null"]


def test_what_is_gathered_along_is_no_name_that_is_read() -> None:
    assert parse("${{ along(a.list, x) }}").references == {("a", "list")}


STUDY = """
hyperparameters: {left_out: {type: int, default: 1}}
axes:
  x: {range: 4}
  y: {range: 2}
stages:
  a:
    over: [x]
    when: "x != hp.left_out"
    command: 'echo "{\\"e\\": 0.5}" > $DIEL_RESULT'
    outputs: {e: {value: float}}
  rows: {over: [x, y], command: 'echo "{\\"v\\": ${{ 10 * x + y }}}" > $DIEL_RESULT', outputs: {v: {value: int}}}
  cols: {over: [y, x], command: 'echo "{\\"v\\": ${{ 10 * x + y }}}" > $DIEL_RESULT', outputs: {v: {value: int}}}
  one: {command: 'echo "{\\"list\\": [1, 2, 3, 4]}" > $DIEL_RESULT', outputs: {list: {value: list}}}
  gate: {when: "all(a.e == 0.5)", command: [echo, open]}
  twice: {command: [echo, "${{ 2 * a.e }}"]}
  orders: {command: [echo, "${{ rows.v - cols.v }}"]}
  whole: {command: [echo, "${{ sum(rows.v) }} ${{ mean(where(a.e, a.e > 1)) == null }}"]}
  pairs: {command: [echo, "${{ along(one.list, x) * a.e }}"]}
  given: {module: pairing, inputs: {e: a.e}, params: {item: "${{ along(one.list, x) }}"}}
"""
MODULE = """
    @diel.module(kind="analysis")
    def pairing(e: list[float], item: list[int]):
        print(item)
        return {"pairs": list(zip(item, e))}
"""


@pytest.fixture
def project(workspace: Path) -> Project:
    return Project(workspace)


def test_a_run_computes_with_what_it_gathers(project: Project) -> None:
    project.workflow(STUDY).module("pairing", MODULE).run()
    printed = {stage: project.diel("logs", "last", stage).strip() for stage in ("gate", "twice", "orders")}
    assert printed == {"gate": "open", "twice": "1.0 1.0 1.0", "orders": "0 0 0 0 0 0 0 0"}
    assert project.diel("logs", "last", "whole").strip() == "124 true"
    assert project.diel("logs", "last", "pairs").strip() == "0.5 1.5 2.0"


NULL_AT_1 = """
axes: {x: {range: 2}}
stages:
  a: {over: [x], command: 'echo "{\\"e\\": ${{ 1 if x == 0 else "null" }}}" > $DIEL_RESULT'}
  guess: {when: "not all(a.e > 0)", command: [echo, ran]}
  gate: {when: "all(a.e > 0)", command: [echo, ran]}
  half: {over: [x], command: [echo, "${{ a.e / 2 }}"]}
  twice: {over: [x], inputs: {e: a.e}, command: [echo, "${{ 2 * inputs.e }}"]}
"""


def test_a_condition_or_computation_that_null_stops_fails_and_names_the_task_that_made_it(
    project: Project,
) -> None:
    run = project.workflow(NULL_AT_1).run(code=1)
    assert run.counts("guess") == run.counts("gate") == {"failed": 1}
    assert run.counts("half") == run.counts("twice") == {"done": 1, "failed": 1}
    assert "all(a.e > 0) is null, as one of its values is, at point 1 of x" in project.diel(
        "explain", "last", "guess"
    )
    assert "a.e, which a/1 (x=1) made, is null" in project.diel("explain", "last", "half/1")
    assert "inputs.e, which a/1 (x=1) made, is null" in project.diel("explain", "last", "twice/1")


def test_points_that_items_of_a_list_meet_are_in_the_key(project: Project) -> None:
    project.workflow(STUDY).module("pairing", MODULE).run()
    assert project.diel("logs", "last", "given").strip() == "[1, 3, 4]"
    project.run("--set", "hp.left_out=2")
    assert project.diel("logs", "last", "given").strip() == "[1, 2, 4]"
    assert project.diel("logs", "last", "pairs").strip() == "0.5 1.0 2.0"


def test_a_list_of_another_length_is_refused_with_both(project: Project) -> None:
    project.workflow(STUDY.replace("[1, 2, 3, 4]", "[1, 2]")).module("pairing", MODULE).run(code=1)
    assert "along: 2 items at 4 points of axis 'x'" in project.diel("explain", "last", "pairs")
