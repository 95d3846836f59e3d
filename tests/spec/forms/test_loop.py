"""Rounds of a loop: how many there are, and which of them `at` can pick."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.workflow.models import Choice, Loop


def test_a_loop_has_its_rounds_by_number_and_may_end_early_only_with_a_condition() -> None:
    loop = Loop(max=3)
    assert (loop.size({}), loop.at_once(3), loop.may_end_early) == (3, 1, False)
    assert loop.describe(3) == "3 rounds"
    assert loop.points_of("r", {}, Path()).columns == (range(3),)
    ending = Loop(max=3, until="s.x < 1")
    assert (ending.condition, ending.may_end_early) == ("s.x < 1", True)
    assert ending.describe(3) == "up to 3 rounds"


def test_the_words_choose_while_a_run_goes_on_and_a_number_names_a_round() -> None:
    loop = Loop(max=3)
    assert loop.choice("last") == Choice("last")
    assert loop.choice("previous") == Choice("previous")
    assert loop.choice(2) is None
    assert list(loop.pick_flaws("r", 2, inside=False)) == []
    assert list(loop.pick_flaws("r", {"r": 2}, inside=False)) == []


@pytest.mark.parametrize(
    ("point", "inside", "message", "hint"),
    [
        ("previous", False, "`previous` is for stages that run over 'r' themselves", "use `last`"),
        (3, True, "expected the number of a round, 0 to 2; found 3", "`last` is the last one"),
        (-1, True, "expected the number of a round, 0 to 2; found -1", ""),
        ("final", True, "expected last, previous or the number of a round, found 'final'", "write last"),
        ("first", True, "expected last, previous", "write 0"),
        ("lats", True, "expected last, previous", "did you mean 'last'?"),
        (True, True, "expected last, previous", ""),
    ],
)
def test_a_pick_that_is_no_round_is_told_with_what_was_meant(
    point: object, inside: bool, message: str, hint: str
) -> None:
    ((said, advice),) = Loop(max=3).pick_flaws("r", point, inside)
    assert said.startswith(message)
    assert hint in advice
