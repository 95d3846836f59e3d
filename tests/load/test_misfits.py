"""What does not fit the models becomes one message a place, with the key or value that was meant."""

from __future__ import annotations

from typing import Any

import pytest

from diel.load.misfits import check
from diel.spec import Workflow

GOOD: dict[str, Any] = {"diel": 1, "name": "w", "stages": {"a": {"command": ["echo"]}}}


@pytest.mark.parametrize(
    ("change", "key", "message", "hint"),
    [
        ({"name": 3}, ("name",), "expected text, found 3", "put it in quotes"),
        ({"name": "a b"}, ("name",), "'a b' is not a name", "letters, digits"),
        ({"stages": {}}, ("stages",), "expected at least 1 entry, found none", ""),
        (
            {"stages": {"a": {"command": ["x"], "retries": "2"}}},
            ("stages", "a", "retries"),
            "found '2'",
            "write 2",
        ),
        ({"axes": {"t": {"values": 1}}}, ("axes", "t", "values"), "expected a list, found 1", "write [1]"),
        ({"hyperparams": {}}, ("hyperparams",), "unknown key", "did you mean 'hyperparameters'?"),
    ],
)
def test_a_misfit_says_what_was_expected_and_what_to_do(
    change: dict[str, Any], key: tuple[str, ...], message: str, hint: str
) -> None:
    _, (misfit,) = check({**GOOD, **change}, Workflow)
    assert misfit.key == key
    assert message in misfit.message
    assert hint in misfit.hint


def test_a_key_that_is_missing_is_asked_for_with_an_example() -> None:
    made, (misfit,) = check({"name": "w", "stages": GOOD["stages"]}, Workflow)
    assert made is None
    assert (misfit.message, misfit.hint) == ("the key 'diel' is missing", "begin the file with `diel: 1`")


def test_an_unknown_key_hides_nothing_and_the_rest_is_read() -> None:
    made, (misfit,) = check({**GOOD, "stages": {"a": {"cmd": ["echo"]}}}, Workflow)
    assert misfit.key == ("stages", "a", "cmd")
    assert made is not None
    assert made.stages["a"].command == ("echo",)
