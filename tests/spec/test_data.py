"""Inputs and outputs of a stage: their short forms, and paths that stay with the task."""

from __future__ import annotations

from typing import Any

import pytest

from diel.workflow.models import Input, Output
from diel.workflow.models.data import path_flaw
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


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"match": "a"}, "`match` finds a value, found no `value`", "write `value: float`"),
        ({"value": "float", "file": "x.out"}, "`file` goes with a value", "add `match: 'PATTERN'`"),
        ({"file": "x.out"}, "`file` goes with a value", "write `path: FILE`"),
        ({"path": "x.out", "pick": "all"}, "`pick` goes with a value", "drop it"),
        ({"value": "float", "match": "a", "key": "b"}, "found both `match` and `key`", "two outputs"),
        ({"value": "list", "match": "a"}, "found value: list", "`pick: all` makes a list"),
        ({"value": "float", "match": "(a) (b)"}, "one group is the value, found 2 groups", "(?P<value>...)"),
        ({"value": "float", "match": "a*"}, "the pattern matches an empty line", "write + instead of *"),
        ({"value": "float", "file": "/x", "match": "a"}, "an absolute path leaves", "relative to the task's"),
        ({"value": "float", "column": 0}, "there is no column 0", "counted from 1"),
        ({"value": "float", "column": ""}, "an empty name of a column", "a number from 1"),
        ({"value": "float", "key": "a..b"}, "'a..b' is no place in JSON", "steps[-1].energy"),
        (
            {"value": "float", "file": "x.json", "key": "a", "pick": "all"},
            "`pick` chooses among lines",
            "[-1]",
        ),
    ],
)
def test_what_finds_no_value_is_refused_with_what_to_write(
    given: dict[str, object], message: str, hint: str
) -> None:
    (flaw,) = flaws_of(Output, given)
    assert message in flaw.message
    assert hint in flaw.hint


def test_a_pattern_that_cannot_be_read_is_told_at_its_character() -> None:
    (flaw,) = flaws_of(Output, {"value": "float", "match": "E = (\\S+"})
    assert flaw.message == "the pattern cannot be read: missing ), unterminated subpattern"
    assert (flaw.key, flaw.offset) == (("match",), 4)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"value": "float", "match": "a"}, "float"),
        ({"value": "float", "match": "a", "pick": "all"}, "list"),
        ({"value": "float", "key": "a", "file": "x.jsonl", "pick": "all"}, "list"),
        ({"value": "int"}, "int"),
        ({"path": "x"}, None),
    ],
)
def test_all_that_is_found_is_a_list(given: dict[str, object], kind: str | None) -> None:
    assert Output.model_validate(given).kind == kind
