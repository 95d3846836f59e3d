"""Expressions over hyperparameters in the forms of axes; and nowhere else where none is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import Problem, SpecError
from diel.planning.check import check
from diel.workflow.models import Axis
from tests.throwaway import Project

HEAD = """diel: 1
name: w
hyperparameters:
  n: {type: int, default: 3, low: 0, high: 50}
  w: {type: float, default: 2.5}
  none: {type: int}
  lr: {type: float, default: 0.1, low: 0.01, high: 1}
  told: {type: float, default: 0.1}
  file: {type: str, default: pts}
axes:
  lrs: {search: {trials: 2, sampler: random, minimize: s.loss, parameters: [lr]}}
  a: AXIS
stages:
  s: {over: [lrs], command: [x, "${{ hp.lr }}"], outputs: {loss: {value: float}}}
  t: {command: [x], outputs: {v: {value: float}}, publishes: {told: v}}
  u: {over: [a], command: [x, "${{ hp.told }}"]}
"""


def axis(folder: Path, text: str, *settings: str) -> Axis:
    return check(folder / "w.yaml", settings, text=HEAD.replace("AXIS", text)).workflow.axes["a"]


def values(folder: Path, text: str, *settings: str) -> list[Any]:
    workflow = check(folder / "w.yaml", settings, text=HEAD.replace("AXIS", text)).workflow
    points = workflow.axes["a"].points_of("a", workflow.hyperparameters, folder)
    rows = [points.values(index) for index in range(len(points))]
    return [row[0] if len(row) == 1 else row for row in rows]


def the_problem(folder: Path, text: str) -> Problem:
    with pytest.raises(SpecError) as error:
        axis(folder, text)
    (problem,) = error.value.problems
    return problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{range: "${{ hp.n }}"}', [0, 1, 2]),
        ('{range: [1, "${{ hp.n + 1 }}"]}', [1, 2, 3]),
        ('{linspace: [0, "${{ hp.w * 2 }}", "${{ hp.n }}"]}', [0.0, 2.5, 5.0]),
        ('{linspace: "${{ [0, hp.n, 2] }}"}', [0.0, 3.0]),
        ('{logspace: [0, 1, "${{ hp.n - 1 }}"]}', [1.0, 10.0]),
        ('{values: ["${{ 1/4 }}", "x${{ hp.n }}", "$${{ n }}", "${{ hp.n }}"]}', [0.25, "x3", "${{ n }}", 3]),
        ('{values: "${{ range(hp.n) }}"}', [0, 1, 2]),
        ('{zip: {columns: "${{ range(hp.n) }}", type: {range: "${{ hp.n }}"}}}', [(0, 0), (1, 1), (2, 2)]),
        ('{file: "${{ hp.file }}.csv"}', [1, 2]),
    ],
)  # fmt: skip
def test_each_form_of_a_static_axis_is_evaluated(workspace: Path, text: str, expected: list[Any]) -> None:
    (workspace / "pts.csv").write_text("a\n1\n2\n")
    assert values(workspace, text) == expected


def test_sizes_come_from_the_command_line(workspace: Path) -> None:
    assert values(workspace, '{range: "${{ hp.n }}"}', "hp.n=5") == [0, 1, 2, 3, 4]
    assert values(workspace, '{range: "${{ hp.none }}"}', "hp.none=2") == [0, 1]


def test_samples_searches_and_loops_have_sizes_too(workspace: Path) -> None:
    drawn = '{sample: {method: uniform, points: "${{ hp.n ** 2 }}", parameters: {q: {low: 0, high: "${{ hp.w }}"}}}}'
    assert len(values(workspace, drawn)) == 9
    assert axis(workspace, '{loop: {max: "${{ hp.n + 4 }}"}}').size({}) == 7


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ('{range: "${{ hp.n / 2 }}"}', 14, "expected 4, [0, 4] or [0, 10, 2]|expected a whole number, found 1.5", "'${{ hp.n / 2 }}' gives 1.5"),
        ('{range: "${{ hp.file }}"}', 14, "expected 4, [0, 4] or [0, 10, 2], found 'pts'", "gives 'pts'"),
        ('{range: "${{ hp.nn }}"}', 19, "no hyperparameter 'nn'", "did you mean '"),
        ('{range: "${{ hp.none }}"}', 19, "hp.none has no value", "--set hp.none=VALUE"),
        ('{range: "${{ hp.lr }}"}', 19, "hp.lr has no value before the run: the search 'lrs' sets it", ""),
        ('{range: "${{ hp.told }}"}', 19, "hp.told has no value before the run: stage 't' publishes it", ""),
        ('{range: "${{ t.v }}"}', 19, "an axis cannot read 't.v'", "hp.NAME"),
        ('{values: ["${{ 1/0 }}"]}', 21, "division by zero", ""),
        ('{values: ["${{ hp.n"]}', 17, "the expression that starts here does not end", ""),
        ('{values: ["${{ __import__(1) }}"]}', 21, "unknown function", ""),
        ('{range: "${{ hp.n - 3 }}"}', 14, "holds no number", "gives 0"),
        ('{from: "${{ hp.file }}"}', 13, "an expression where none is evaluated", "hp.NAME in axes"),
    ],
)  # fmt: skip
def test_what_gives_no_size_is_told_at_its_place(
    workspace: Path, text: str, column: int, message: str, hint: str
) -> None:
    problem = the_problem(workspace, text)
    assert (problem.line, problem.column) == (12, column)
    assert any(one in problem.message for one in message.split("|"))
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: w", 'name: "${{ hp.n }}"'),
        ("over: [a]", 'over: ["${{ hp.n }}"]'),
        ("default: pts", 'default: "${{ hp.n }}"'),
        ("publishes: {told: v}", 'publishes: {told: v}, grace: "${{ hp.n }}s"'),
        ("{v: {value: float}}", '{v: {value: float, units: "${{ hp.n }}"}}'),
    ],
)
def test_elsewhere_an_expression_is_refused_and_no_text(workspace: Path, before: str, after: str) -> None:
    text = HEAD.replace("AXIS", "{range: 2}").replace(before, after)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if after in row)
    column = text.splitlines()[line - 1].index('"${{') + 1
    with pytest.raises(SpecError) as error:
        check(workspace / "w.yaml", text=text)
    first = error.value.problems[0]
    assert (first.line, first.column, first.message) == (
        line,
        column,
        "an expression where none is evaluated",
    )


def test_a_run_keeps_its_sizes(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(
        'hyperparameters: {n: {type: int, default: 9}}\naxes: {a: {range: "${{ hp.n }}"}}\n'
        "stages: {s: {over: [a], command: 'test -e ${{ run.dir }}/../../ok'}}\n"
    )
    planned = json.loads(project.diel("plan", "flow.yaml", "--json", "--set", "hp.n=3"))
    assert planned["stages"]["s"]["axes"] == {"a": 3}
    run = project.run("--set", "hp.n=3", code=1)
    (tmp_path / "ok").touch()
    project.diel("resume")
    assert run.counts("s") == {"done": 3}
    assert json.loads(project.diel("status", "--json"))["stages"]["s"]["total"] == 3
