"""Tables and text for people."""

from __future__ import annotations

import pytest

from diel.observe.status.columns import columns, last_line, markdown_table, one_line, paint, plain, shorten


def test_columns_are_as_wide_as_what_is_seen_of_their_cells() -> None:
    rows = [["stage", "done"], [paint("train", fg="red"), "3"], ["模拟", "12"]]
    assert [line.replace(paint("train", fg="red"), "train") for line in columns(rows, right=(1,))] == [
        "stage  done",
        "train     3",
        "模拟     12",
    ]
    assert columns([]) == []


def test_no_colour_is_put_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("x", fg="red", bold=True) == "\033[31m\033[1mx\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", fg="red", bold=True) == "x"


def test_what_a_task_printed_cannot_move_the_cursor() -> None:
    assert one_line("a\tb\n c\033[2J") == "a b c"
    assert last_line("first\n  last \n\n") == "last"
    assert (shorten("abcdef", 4), shorten("abcd", 4)) == ("abc…", "abcd")


def test_text_in_a_table_of_markdown_stays_text() -> None:
    assert plain("a|b\n<c>\\") == "a\\|b &lt;c>\\\\"
    assert list(markdown_table(["n"], [["1|2"]])) == ["| n |", "|---|", "| 1\\|2 |", ""]
