"""Inputs and outputs of a stage: their short forms, and paths that stay with the task."""

from __future__ import annotations

from typing import Any

import pytest

from diel.spec import Input, Output
from diel.spec.data import path_flaw
from tests.spec.flawed import flaws_of


@pytest.mark.parametrize("path", ["a", "a/b.csv", "./a", "..a", "a..b", "${{ x }}.csv", "a/", "-x", "a b"])
def test_a_path_in_the_task_directory_is_taken(path: str) -> None:
    assert path_flaw(path) == ""


@pytest.mark.parametrize("path", ["/a", "..", "../a", "a/../b", "~", "~me/a", "", ".", "./", "a\0b", "a/.."])
def test_a_path_that_may_leave_the_task_directory_is_refused(path: str) -> None:
    assert path_flaw(path)


@pytest.mark.parametrize(
    ("given", "form", "plain"),
    [
        ("a.csv", "path", True),
        ({"glob": "*.csv"}, "glob", False),
        ({"value": "float"}, "value", True),
        ({"stream": True}, "stream", False),
        ({"path": "a.csv", "rows": 3}, "path", False),
        ({"units": "K"}, None, False),
    ],
)
def test_an_output_has_one_form(given: object, form: str | None, plain: bool) -> None:
    output = Output.model_validate(given)
    assert (output.form, output.is_plain) == (form, plain)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "a.csv", "inside": "/x"}, "there is no place `/x` in 'a.csv'"),
        ({"path": "a.h5", "inside": "x"}, "'x' is no place in a file"),
        ({"path": "a", "value": "int"}, "an output is a file or a value, found both `path` and `value`"),
        ({"path": "a", "stream": True}, "an output is a file or a stream, found both `path` and `stream`"),
        ({"glob": "../*"}, "a path with `..` leaves the task's directory: '../*'"),
        ({"value": "int", "keep": False}, "`keep` is about files, found a value"),
        ({"glob": "*", "drain": True}, "`drain` is about one file that a command writes"),
        ({"stream": True, "rows": 1}, "`rows` is not a promise that a stream can make"),
        (3, "expected a file name, found 3"),
    ],
)
def test_an_output_of_several_forms_is_refused(given: object, message: str) -> None:
    assert [flaw.message for flaw in flaws_of(Output, given)] == [message]


def test_a_text_alone_is_where_an_input_comes_from() -> None:
    given = Input.model_validate("make.x")
    assert (given.source, given.at, given.min_success, given.is_plain) == ("make.x", {}, 1.0, True)
    shared = Input.model_validate({"from": "make.x", "shard": "rank"})
    assert shared.shard is not None
    assert (shared.shard.by, shared.shard.seed, shared.is_plain) == ("rank", 0, False)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"initially": 0}, ("initially",)),
        ({"initially": 0, "at": {"r": "best"}}, ("initially",)),
        ({"columns": {"a": "int"}, "dtype": "int8"}, ("dtype",)),
        ({"from": "hp.h", "units": "K"}, ("units",)),
    ],
)
def test_an_input_that_says_two_things_is_refused(given: dict[str, Any], key: tuple[str, ...]) -> None:
    assert [flaw.key for flaw in flaws_of(Input, {"from": "make.x", **given})] == [key]
