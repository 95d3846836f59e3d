"""What the YAML parser refuses is said in plain words, where it began."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.load import parse


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
