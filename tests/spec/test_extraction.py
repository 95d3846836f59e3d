"""How a value is found in what a command wrote: what goes together, and what a pattern must be."""

from __future__ import annotations

import pytest

from diel.spec import Output
from tests.spec.flawed import flaws_of


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
