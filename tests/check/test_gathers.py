"""Gathered values in expressions: what axes and types make knowable is refused at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, problems, the_problem

BASE = """
hyperparameters: {{cut: {{type: float, default: 0.1}}, mode: {{type: str, default: a}}, way: {{type: choice, choices: [p, q], default: p}}}}
axes:
  x: {{range: 4}}
  y: {{range: 3}}
  t: {{range: 5}}
  word: {{values: [p, q]}}
  round: {{loop: {{max: 3, until: "judge.error < 0.1"}}}}
stages:
  a:
    over: [x]
    command: [make]
    outputs: &made
      e: {{value: float}}
      n: {{value: int}}
      ok: {{value: bool}}
      name: {{value: str}}
      curve: {{value: list}}
      fit: {{value: dict}}
      table: t.csv
  b: {{over: [y], command: [make], outputs: *made}}
  c: {{over: [x, y], command: [make], outputs: *made}}
  d: {{over: [y, x], command: [make], outputs: *made}}
  one: {{command: [make], outputs: *made}}
  free: {{over: [x], command: 'make > $DIEL_RESULT'}}
  judge: {{over: [round], command: [make], outputs: {{error: {{value: float}}}}}}
  s:
    over: [{over}]
    {key}: {text}
    {other}
"""


def workflow(text: str, over: str = "word", key: str = "command") -> str:
    quoted = f'["${{{{ {text} }}}}"]' if key == "command" else f'"{text}"'
    return BASE.format(over=over, key=key, text=quoted, other="" if key == "command" else "command: [run]")


@pytest.mark.parametrize(
    "text",
    [
        "a.e + 1",
        "sqrt(a.e)",
        "a.e - b.e[0]",
        "c.e - d.e",
        "c.e - a.e",
        "mean(a.e) - mean(b.e)",
        "where(a.e, a.ok)",
        "where(one.curve, one.curve)",
        "along(one.curve, x) * a.e",
        "along(one.fit.curve, x) * a.e",
        "concat(a.e, b.e, [1] * len(a.e))",
        "2 * a.fit.slope",
        "a.curve == [1, 2]",
        "max(a.e, 0)",
        "max(a.name)",
        "count(a.name)",
        "mean(one.curve)",
        "1 if all(a.ok) and hp.cut > 0 else 2",
        "mean(a.e[1:]) + 1",
        "mean(where(a.e, a.n > 1)) + 1",
        "1 / (a.n - 1)",
        "word + a.name",
        "[1, 2][one.n]",
        "one.curve[one.n] + 1",
        "one.fit.x.y + 1",
        "join(a.table, ':') if false else ''",
        "join(a.curve, '; ')",
        "str(a.curve)",
        "format(a.e, '.1f')",
        "range(one.n)",
        "a.e[one.n] + 1",
        "[0] * one.n",
        "0 if 1 in free.v else not all(free.v)",
        "free.v in [1, 2]",
        "where(free.v, free.ok) * 2 + a.e",
        "along(one.fit.l, x) + free.v",
        "mean(free.v) + free.v.deep",
        "max(free.v) if hp.cut > 0 else free.v",
        "sqrt(abs(free.v)) ** 0.5 // 1",
        "str(free.v) + 'x'",
        "fortran(free.v)",
        "quantile(free.v, hp.cut)",
        "sorted(free.v)[one.n]",
        "[free.v, a.e]",
        "size(a.table) / 1MB",
        "len(one.name) + len(free.v)",
        "run.id + task.stage",
    ],
)
def test_what_can_be_right_is_good(folder: Path, text: str) -> None:
    checked(folder, workflow(text))


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("a.e + b.e", 0, "values gathered over y and over x have no points in common", "reduce one"),
        ("1 + (a.e + b.e)", 5, "have no points in common, in a.e + b.e", "reduce one"),
        ("max(a.e, b.e)", 0, "no points in common", "reduce one"),
        ("where(a.e, b.ok)", 0, "no points in common", "reduce one"),
        ("mean(one.e)", 0, "mean: expected a list, found a number", "gathered over an axis"),
        ("sum(hp.cut)", 0, "sum: expected a list, found a number", ""),
        ("len(one.n)", 0, "cannot compute with a whole number", "len(list)"),
        ("sqrt(a.name)", 0, "cannot compute with a text", "sqrt(number)"),
        ("sqrt(one.curve)", 0, "sqrt: expected one value, found a list", "along"),
        ("sqrt(a.curve)", 0, "cannot compute with a list", "sqrt(number)"),
        ("mean(a.name)", 0, "mean: expected numbers, found a text", ""),
        ("mean(a.curve)", 0, "mean: expected numbers, found a list", ""),
        ("a.name + 1", 0, "", ""),
        ("word * 2.5", 0, "cannot multiply a text by a number", ""),
        ("word - 1", 0, "cannot compute with a text and a whole number", ""),
        ("-word", 0, "cannot compute with a text", ""),
        ("word < 1", 0, "cannot compute with a text and a whole number", ""),
        ("one.curve + one.curve", 0, "cannot compute with a list", "concat(a, b)"),
        ("a.e + one.curve", 0, "cannot compute with a list", "along(list, axis)"),
        ("2 * one.curve", 0, "cannot compute with a list", "along(list, axis)"),
        ("a.e == [1, 2]", 0, "a number never equals a list", ""),
        ("one.curve == 0.5", 0, "a list never equals a number", ""),
        ("hp.way + 1", 0, "cannot compute with a text and a whole number", "str(n)"),
        ("sorted(a.e) - a.e", 0, "cannot compute with a list", "along(list, axis)"),
        ("quantile(a.e, 90)", 0, "quantile: expected a share from 0 to 1, found 90", "quantile(a.e, 0.9)"),
        ("word == 1", 0, "a text never equals a number", "quote texts"),
        ("a.name != 2", 0, "a text never equals a number", "quote texts"),
        ("hp.mode == true", 0, "a text never equals a number or a truth value", ""),
        ("not free.v", 0, "one truth is needed here", "all(...)"),
        ("free.v + b.e", 0, "no points in common", ""),
        ("free.v * one.curve", 0, "cannot compute with a list", "along"),
        ("not a.ok", 0, "one truth is needed here", "all(...)"),
        ("a.ok and true", 0, "one truth is needed here", "all(...)"),
        ("1 if a.e > 0 else 2", 0, "one truth is needed here", "all(...)"),
        ("1 in one.n", 0, "cannot compute with a whole number and a whole number", ""),
        ("where(one.curve, a.ok)", 0, "the items of one list have points", "along"),
        ("along(a.e, x)", 0, "gathered values, which have their points", ""),
        ("along(concat(a.e, [5]), x)", 0, "the items of this list were gathered", "they meet by point"),
        ("along(sorted(free.v), x)", 0, "the items of this list were gathered", ""),
        ("along(where(a.e, a.ok), x)", 0, "gathered values, which have their points", ""),
        ("along(one.curve, t) + a.e", 0, "nothing is gathered over 't' here", "gathers over: x"),
        ("along(one.n, x) + a.e", 0, "expected a list that one task made, found a whole number", ""),
        ("a.e[1:] - a.e[:-1]", 0, "slices keep their points", "module"),
        ("range(one.e)", 0, "cannot compute with a number", "range(begin"),
    ],
)
def test_what_cannot_be_right_is_refused_at_its_place(
    folder: Path, text: str, column: int, message: str, hint: str
) -> None:
    problem = the_problem(folder, workflow(text))
    assert message in problem.message
    assert hint in problem.hint
    line = next(
        n for n, one in enumerate(("diel: 1\nname: w\n" + workflow(text)).splitlines(), 1) if text in one
    )
    assert problem.line == line
    assert problem.column == workflow(text).splitlines()[line - 3].index(text) + 1 + column


@pytest.mark.parametrize("text", ["a.e == 0.5", "a.ok", "a.e[1:] > 0", "0 < a.e < 1"])
def test_when_needs_one_truth(folder: Path, text: str) -> None:
    problem = the_problem(folder, workflow(text, key="when"))
    assert "one truth is needed here, and this is a value for each point of x" in problem.message
    assert "all(...)" in problem.hint
    checked(folder, workflow(f"any({text})", key="when"))


def test_what_a_stage_matches_is_one_value(folder: Path) -> None:
    checked(folder, workflow("a.e == 0.5", over="x", key="when"))
    assert "mean: expected a list" in the_problem(folder, workflow("mean(a.e)", over="x")).message


def test_a_parameter_is_what_its_expression_gives(folder: Path) -> None:
    text = workflow("not params.p") + "    params: {p: '${{ a.e > 0 }}'}\n"
    assert "one truth is needed here" in the_problem(folder, text).message
    checked(folder, text.replace("not params.p", "all(params.p)"))


@pytest.mark.parametrize("line", ["outputs: {o: '${{ a.name }}.txt'}", "files: {f: '${{ 2 * a.n }}.txt'}"])
def test_a_path_takes_one_value(folder: Path, line: str) -> None:
    assert "one value is needed here" in the_problem(folder, f"{workflow('1')}    {line}\n").message


def test_until_is_computed_with_one_value_each(folder: Path) -> None:
    text = workflow("1").replace("judge.error < 0.1", "mean(judge.error) < 0.1")
    (problem,) = problems(folder, text)
    assert "mean: expected a list, found a number" in problem.message


def test_a_timeout_takes_one_value(folder: Path) -> None:
    text = workflow("1") + "    timeout: '${{ 1s * a.n }}'\n"
    assert "one value is needed here" in the_problem(folder, text).message
