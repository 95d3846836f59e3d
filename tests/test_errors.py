"""What diel says of mistakes: where, in which order, how many, and with which exit code."""

from __future__ import annotations

import diel
from diel.base.errors import (
    MAX_PROBLEMS,
    DielError,
    ModuleError,
    Problem,
    SpecError,
    StreamBroken,
    UsageError,
    counted,
    did_you_mean,
    first_problems,
    likeness,
)


def test_errors_have_the_exit_codes_of_their_kinds() -> None:
    kinds = (DielError, ModuleError, UsageError, SpecError, StreamBroken, diel.Interrupted)
    assert [kind.exit_code for kind in kinds] == [1, 1, 2, 2, 4, 1]


def test_a_problem_says_where_what_and_what_to_do() -> None:
    problem = Problem("w.yaml", 3, 5, "stages.s", "no such key", "did you mean 'over'?")
    assert str(problem) == "w.yaml:3:5: stages.s: no such key\n    did you mean 'over'?"
    assert str(Problem("w.yaml", 1, 1, "", "is empty")) == "w.yaml:1:1: is empty"


def test_problems_are_told_once_in_the_files_order() -> None:
    late, early = Problem("w.yaml", 10, 1, "b", "wrong"), Problem("w.yaml", 9, 1, "a", "wrong")
    error = SpecError([late, early, late])
    assert error.problems == (early, late)
    assert str(error) == "w.yaml:9:1: a: wrong\nw.yaml:10:1: b: wrong"


def test_of_very_many_problems_the_first_are_told_and_that_there_are_more() -> None:
    problems = [Problem("w.yaml", line, 1, "", "wrong") for line in range(3 * MAX_PROBLEMS, 0, -1)]
    assert first_problems(problems[-MAX_PROBLEMS:]) == problems[: -MAX_PROBLEMS - 1 : -1]
    *told, last = first_problems(problems)
    assert [problem.line for problem in told] == list(range(1, MAX_PROBLEMS + 1))
    assert (last.line, last.message) == (MAX_PROBLEMS + 1, "and more problems from here on")


def test_numbers_go_with_their_words() -> None:
    assert [counted(number, "task") for number in (0, 1, 2000)] == ["0 tasks", "1 task", "2,000 tasks"]


def test_the_nearest_word_is_offered_and_nothing_far_away() -> None:
    assert did_you_mean("comand", ["module", "command"]) == "did you mean 'command'?"
    assert did_you_mean("over", ["module", "command"]) == ""
    assert did_you_mean("over", []) == ""


def test_messages_are_alike_that_differ_in_numbers_paths_and_the_file_they_are_from() -> None:
    assert likeness("exit code 1: no /a/b at 0x1f (in si.out)") == likeness(
        "exit code 2: no /c at 7 (in ge.out)"
    )
    assert likeness("no cells (in the mesh) here") != likeness("no cells here")
