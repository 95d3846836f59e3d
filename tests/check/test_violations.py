"""Axes: their files can be read, their tasks counted, and picked points exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, the_problem

PICK = """
axes:
  a: {axis}
stages:
  up: {{command: [run], over: [a], outputs: {{x: {{value: int}}}}}}
  down: {{command: [echo], inputs: {{x: {{from: up.x, at: {{a: {wanted}}}}}}}}}
"""


@pytest.mark.parametrize(
    ("axis", "wanted"),
    [
        ("{values: [1, 2, 3]}", "2"),
        ("{linspace: [0, 1, 11]}", "0.3"),
        ("{zip: {p: [1, 2], q: [x, y]}}", "{q: y}"),
        ("{range: 1000000000}", "7"),
        ("{values: [best, worst]}", "best"),
        ("{values: [first, last]}", "last"),
        ("{values: [previous, next]}", "previous"),
        ("{values: [top, bottom]}", "top"),
        ("{zip: {p: [pareto, x], q: [1, 2]}}", "{p: pareto}"),
        ("{zip: {top: [1, 2], q: [x, y]}}", "{top: 2}"),
    ],
)
def test_a_point_that_is_there_can_be_picked(folder: Path, axis: str, wanted: str) -> None:
    checked(folder, PICK.format(axis=axis, wanted=wanted))


@pytest.mark.parametrize(
    ("axis", "wanted", "hint"),
    [
        ("{values: [1, 2, 3]}", "4", "its points: 1, 2, 3"),
        ("{range: 100}", "100", "its points: 0, 1, 2, 3, 4, …"),
        ("{zip: {p: [1, 2], q: [x, y]}}", "{r: y}", "its parameters: p, q"),
        ("{zip: {p: [1, 2], q: [x, y]}}", "1", 'its points: {"p": 1, "q": "x"}, {"p": 2, "q": "y"}'),
        (
            "{values: [1, 2]}",
            "last",
            "`last` picks a round of a loop, and 'a' is not a loop; its points: 1, 2",
        ),
        (
            "{values: [1, 2]}",
            "{top: 2}",
            "`top` picks a trial of a search, and 'a' is not a search; its parameters: a",
        ),
        ("{range: 1000000000}", "best", "`best` picks a trial of a search, and 'a' is not a search"),
    ],
)
def test_a_point_that_is_not_there_is_told_with_those_that_are(
    folder: Path, axis: str, wanted: str, hint: str
) -> None:
    problem = the_problem(folder, PICK.format(axis=axis, wanted=wanted))
    assert problem.message.startswith("axis 'a' has no point ")
    assert hint in problem.hint
    assert problem.key == "stages.down.inputs.x.at.a"


def test_a_point_of_a_file_can_have_the_name_of_a_word(folder: Path) -> None:
    (folder / "p.csv").write_text("a\nbest\nlast\n")
    checked(folder, PICK.format(axis="{file: p.csv}", wanted="last"))


@pytest.mark.parametrize(
    ("reads", "message"),
    [
        ("{from: up.x, at: {a: last}, initially: 1}", "`initially` is the value before the first round"),
        (
            "{from: down.x, at: {a: previous}, initially: 1}",
            "`previous` picks a round of a loop, and 'a' is not a loop",
        ),
    ],
)
def test_a_point_of_such_a_name_makes_no_loop(folder: Path, reads: str, message: str) -> None:
    problem = the_problem(
        folder,
        f"""
        axes: {{a: {{values: [previous, last]}}}}
        stages:
          up: {{command: [run], over: [a], outputs: {{x: {{value: int}}}}}}
          down: {{command: [run], over: [a], outputs: {{x: {{value: int}}}}, inputs: {{x: {reads}}}}}
        """,
    )
    assert problem.message.startswith(message)


def test_a_file_of_points_is_counted_and_its_columns_are_names(folder: Path) -> None:
    (folder / "p.csv").write_text("x,y\n1,2\n3,4\n")
    text = 'axes: {p: {file: p.csv}}\nstages:\n  s: {command: [echo, "${{ x + y }}"], over: [p]}\n'
    assert checked(folder, text).counts == {"p": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "cannot read"), ("x\n1,2\n", "p.csv:2: 2 values"), ("x\n", "no points"), ("", "empty")],
)
def test_a_file_that_gives_no_points_is_told_at_its_axis(
    folder: Path, text: str | None, message: str
) -> None:
    if text is not None:
        (folder / "p.csv").write_text(text)
    problem = the_problem(folder, "axes:\n  p: {file: p.csv}\nstages:\n  s: {command: [echo], over: [p]}\n")
    assert message in problem.message
    assert problem.key.startswith("axes.p")


def test_more_tasks_than_diel_counts_are_refused(folder: Path) -> None:
    text = "axes: {a: {range: 100000}, b: {range: 100000}}\nstages: {s: {command: [echo], over: [a, b]}}\n"
    assert the_problem(folder, text).message == "10,000,000,000 tasks; expected at most 1,000,000,000 a stage"


@pytest.mark.parametrize(
    ("axis", "wanted", "hint"),
    [
        ("{values: [1, true, 1.0]}", "1.0000000001", "choose one of 1, 1.0"),
        ("{values: [0, 0]}", "0", "nothing tells 0, 0 apart: leave `at` out"),
        ("{zip: {z: [1, 2, 3], p: [1, 1, 2]}}", "{p: 1}", 'choose one of {"z": 1, "p": 1}, {"z": 2, "p": 1}'),
        ("{file: p.csv}", "{p: 1}", 'choose one of {"z": 1, "p": 1}, {"z": 2, "p": 1}'),
    ],
)
def test_a_pick_that_fits_several_points_is_refused(folder: Path, axis: str, wanted: str, hint: str) -> None:
    (folder / "p.csv").write_text("z,p\n1,1\n2,1\n")
    problem = the_problem(folder, PICK.format(axis=axis, wanted=wanted))
    assert problem.message.startswith("axis 'a' has 2 points that are ")
    assert hint in problem.hint


def test_a_truth_value_is_no_number(folder: Path) -> None:
    checked(folder, PICK.format(axis="{values: [1, true]}", wanted="true"))
    assert "no point" in the_problem(folder, PICK.format(axis="{values: [0, 1]}", wanted="true")).message


@pytest.mark.parametrize(
    ("header", "other", "message"),
    [
        ("x,z", "{file: f.csv}", "axes 'b' and 'a' both give the parameter 'x'"),
        ("b,z", "{range: 2}", "axes 'b' and 'a' both give the parameter 'b'"),
        ("b,z", "{zip: {p: [1], q: [2]}}", "axes 'b' and 'a' both give the parameter 'b'"),
        ("s,z", "{range: 2}", "axis 'a' gives a parameter 's', and 's' is a stage"),
        *(
            (f"{name},z", "{range: 2}", f"column '{name}' has its own meaning in expressions")
            for name in ("hp", "task", "params", "inputs", "outputs", "files", "run", "launcher")
        ),
    ],
)
def test_a_name_of_a_file_is_looked_at_as_a_written_one(
    folder: Path, header: str, other: str, message: str
) -> None:
    (folder / "f.csv").write_text("x,y\n1,2\n")
    (folder / "g.csv").write_text(f"{header}\n1,2\n")
    axes = f"axes: {{b: {other}, a: {{file: g.csv}}}}"
    problem = the_problem(folder, f"{axes}\nstages: {{s: {{command: [echo], over: [b, a]}}}}\n")
    assert message in problem.message
