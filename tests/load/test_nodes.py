"""A YAML text as a tree: what no workflow may hold is refused at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.workflow.load import parse
from diel.workflow.load.nodes import MAX_DEPTH, Source, Unreadable, compose, content


def plain(text: str) -> object:
    root, complaints = compose(text)
    assert root is not None
    value = content(root, False, complaints)
    assert complaints == []
    return value


def test_scalars_are_read_by_the_rules_of_yaml_1_2() -> None:
    assert plain("{a: yes, b: 0o17, c: 1e3, d: ~, e: '1', f: [&x 2, *x]}") == {
        "a": "yes",
        "b": 15,
        "c": 1000.0,
        "d": None,
        "e": "1",
        "f": [2, 2],
    }


@pytest.mark.parametrize(
    ("text", "message", "key"),
    [
        ("a: !x 1", "the tag `!x` is refused: a file holds data only", ("a",)),
        ("a: {<<: {b: 1}}", "merge keys (`<<`) are no part of YAML 1.2", ("a",)),
        ("1: a", "a key is a text, found 1", ()),
        ("a: 1\na: 2", "the key is there twice", ("a",)),
        ("[1, *x]", "`*x` repeats nothing", (1,)),
        ("{[a]: 1}", "a list or a mapping where a key belongs", ()),
    ],
)
def test_what_no_workflow_may_hold_is_refused(text: str, message: str, key: tuple[str | int, ...]) -> None:
    _, complaints = compose(text)
    assert [(one.message, one.key) for one in complaints] == [(message, key)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\n---\nb: 1", "a second document starts here"),
        ("&a [*a]", "`*a` is inside what it repeats"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "levels deep"),
    ],
)
def test_a_text_that_has_no_end_or_no_one_meaning_is_not_read_on(text: str, message: str) -> None:
    with pytest.raises(Unreadable) as caught:
        compose(text)
    assert message in caught.value.complaint.message


def test_a_problem_is_at_the_value_or_the_nearest_part_above_it() -> None:
    text = "stages:\n  a: {command: 'say ${{ x }}'}\n  b:\n    over: [t]\n"
    source = Source(Path("w.yaml"), text, compose(text)[0])
    places = {
        ("stages", "a", "command"): (2, 16),
        ("stages", "a", "params"): (2, 3),
        ("stages", "b"): (3, 3),
        ("stages", "b", "over", 0): (4, 12),
    }
    for key, place in places.items():
        problem = source.problem(key, "wrong")
        assert (problem.line, problem.column) == place, key
    inside = source.problem(("stages", "a", "command"), "wrong", offset=8)
    assert inside.column == 16 + 1 + 8


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("a: 'b", (1, 4), "a quote opens here and is never closed", "close it"),
        ("a: [1, 2\nb: 1", (2, 2), "a list [...] is not closed, or lacks a comma", "it opens at line 1"),
        ("a: b: c", (1, 5), "a ':' where no key can be", "put a text with `: ` in quotes"),
        ("a:\n\tb: 1", (2, 1), "a tab; YAML indents by spaces", "replace it by spaces"),
        ("a: @b", (1, 4), "a text cannot start with '@'", "put it in quotes"),
        ("a: ${{ x: y }} z", (1, 9), "", "put ${{ … }} in quotes"),
    ],
)
def test_what_is_no_yaml_is_said_in_plain_words(
    text: str, place: tuple[int, int], message: str, hint: str
) -> None:
    _, _, (problem,) = parse(text, Path("w.yaml"))
    assert message in problem.message
    assert hint in problem.hint
    assert (problem.line, problem.column) == place
