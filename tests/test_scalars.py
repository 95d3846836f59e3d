"""YAML 1.2's core schema: what plain words mean."""

from __future__ import annotations

import math
from typing import Any

import pytest

from diel.scalars import resolve, scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("12", 12),
        ("+12", 12),
        ("-0", 0),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("true", True),
        ("FALSE", False),
        ("", None),
        ("~", None),
        ("Null", None),
        ("-.INF", -math.inf),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0" * 5000 + "7", 7),
    ],
)
def test_a_word_has_the_value_of_yaml_1_2(text: str, value: Any) -> None:
    found = resolve(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "yes",
        "on",
        "off",
        "y",
        "01:30:00",
        "1:30",
        "2026-01-31",
        "1_000",
        "0b1",
        "+0x1",
        "0o8",
        "1e",
        "e3",
        ".",
        "-",
        "+",
        "1.2.3",
        "nan",
        "inf",
        "NULl",
        "tRue",
        "٣",
        "a,b",
    ],
)
def test_what_other_versions_read_as_something_else_is_text(text: str) -> None:
    assert resolve(text) == text


def test_not_a_number_is_a_float() -> None:
    assert math.isnan(resolve(".nan"))


@pytest.mark.parametrize(
    "text", ["18446744073709551616", "-9223372036854775809", "9" * 100_000, "0x" + "f" * 17]
)
def test_a_whole_number_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="beyond 64 bits"):
        resolve(text)


def test_a_float_beyond_a_double_is_refused() -> None:
    with pytest.raises(ValueError, match=r"beyond 1\.8e308"):
        resolve("1e309")


def test_a_cell_of_a_table_keeps_text_and_reads_numbers_between_spaces() -> None:
    assert scalar(" 1.5 ") == 1.5
    assert scalar(" a ") == " a "
    assert scalar("9" * 30) == "9" * 30
