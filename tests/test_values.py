"""What text means: plain words of YAML, durations, sizes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.base.values import (
    encoder,
    format_duration,
    format_size,
    json_value,
    parse_duration,
    parse_size,
    resolve,
    scalar,
    task_text,
    value_text,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("2d", 172800),
        ("01:30:00", 5400),
        ("100:00:00", 360000),
        ("1-12:00:00", 129600),
        (" 5m ", 300),
        ("0s", 0),
    ],
)
def test_a_duration_with_a_unit_becomes_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s",
        "10 m",
        "m10",
        "1h 30m",
        "-5s",
        "1e3s",
        "01:75:00",
        "90S",
        "١٠s",
        "9" * 400 + "s",
        None,
        True,
        [],
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 90s"):
        parse_duration(value)


@pytest.mark.parametrize("value", [600, 1.5, "600"])
def test_a_bare_number_is_refused_with_the_units_it_might_have(value: Any) -> None:
    with pytest.raises(ValueError, match=rf"without a unit; write {value}s, {value}m or {value}h"):
        parse_duration(value)


def test_a_duration_of_more_than_a_year_is_refused() -> None:
    assert parse_duration("366d") == 366 * 86400
    with pytest.raises(ValueError, match="at most 366 days"):
        parse_duration("367d")
    with pytest.raises(ValueError, match="at most 366 days"):
        parse_duration("9999-00:00:00")


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MiB", 2**29), ("4GiB", 2**32), ("4GB", 4 * 10**9), ("1.5kB", 1500), ("10 KiB", 10240), ("7B", 7)],
)
def test_a_size_with_a_unit_becomes_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("value", ["", "GiB", "4G", "4gib", "-1GiB", "1e3MiB", None, False, {}])
def test_what_is_no_size_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a size such as 512MiB"):
        parse_size(value)


def test_a_size_without_a_unit_is_refused_with_the_units_it_might_have() -> None:
    with pytest.raises(ValueError, match="write 512MiB or 512GiB"):
        parse_size(512)


def test_a_size_beyond_an_exbibyte_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1 EiB"):
        parse_size("2000PiB")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.4s"), (12, "12s"), (59.6, "1m00s"), (185, "3m05s"), (7800, "2h10m"), (273600, "3d04h")],
)
def test_a_duration_is_shown_in_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(512, "512 B"), (1536, "1.5 KiB"), (2**30, "1.0 GiB"), (2**60, "1024.0 PiB")]
)
def test_a_size_is_shown_in_powers_of_1024(size: float, text: str) -> None:
    assert format_size(size) == text


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_a_short_message(text: str) -> None:
    for parse in (parse_duration, parse_size):
        assert _outcome(parse, text) < 200


def _outcome(parse: Callable[[str], float], text: str) -> int:
    """The length of the refusal; 0 for a number that is none below zero."""
    try:
        return 0 if parse(text) >= 0 else 1000
    except ValueError as error:
        return len(str(error))


# --- plain words of YAML ---------------------------------------------------------------------------


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


def test_numbers_that_json_lacks_are_texts() -> None:
    given = {"a": [math.nan, 1.5, None], "b": math.inf, "c": -math.inf}
    assert json_value(given) == {"a": ["NaN", 1.5, None], "b": "Infinity", "c": "-Infinity"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.5, "2.5"),
        (1.0, "1.0"),
        (0.1 + 0.2, "0.3"),
        (1 / 3, "0.333333333333333"),
        (1e-07, "1e-07"),
        (math.inf, "inf"),
        (True, "true"),
        (None, "null"),
        ("copper", "copper"),
        ([1, 2], "[1, 2]"),
        ("two\nlines", "two�lines"),
        ("/data/campaign/2026/samples/reads-00017.fastq", "/data/campaign/…eads-00017.fastq"),
    ],
)
def test_a_value_of_a_point_is_short_and_right(value: Any, text: str) -> None:
    assert value_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_found_by_the_text_that_was_shown(value: float) -> None:
    assert math.isclose(float(value_text(value)), value, rel_tol=1e-9)


def test_a_task_is_named_by_its_point() -> None:
    assert task_text("fit/0", {}) == "fit/0"
    assert task_text("simulate/33", {"depth": 2.5, "seed": 1}) == "simulate/33 (depth=2.5, seed=1)"
    many = {f"p{number}": number for number in range(20)}
    assert task_text("a/1", many) == "a/1 (p0=0, p1=1, p2=2, p3=3, p4=4, p5=5, …)"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    "form", [{}, {"ensure_ascii": False, "separators": (",", ":")}, {"sort_keys": True, "default": str}]
)
@given(value=PLAIN)
def test_json_has_the_form_that_python_gives_it(form: dict[str, Any], value: Any) -> None:
    assert encoder(**form)(value) == json.dumps(value, **form)
