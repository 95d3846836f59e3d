"""Sizes and durations in expressions keep their unit, and refuse what would be nonsense."""

from __future__ import annotations

import pytest

from diel.store.artifacts import Artifact
from diel.workflow.expressions import ExpressionError, parse, plain
from diel.workflow.expressions.quantity import Quantity

SCOPE = {
    "n": 3,
    "mesh": Artifact("/m", "d", size=2_500_000_000),
    "parts": [Artifact("/a", "d", size=3), Artifact("/b", "d", size=4)],
    "word": "x",
}


def value(text: str) -> object:
    return parse("${{ " + text + " }}").value(SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2GiB * n", Quantity(3 * 2**31, 1)),
        ("n * 2 GiB", Quantity(3 * 2**31, 1)),
        ("1h30m", Quantity(5400, 0, 1)),
        ("10m * n + 30s - 1m", Quantity(1770, 0, 1)),
        ("1.5GB", Quantity(1_500_000_000, 1)),
        ("500ms", Quantity(0.5, 0, 1)),
        ("-1h", Quantity(-3600, 0, 1)),
        ("2GiB * ceil(size(mesh) / 1GB)", Quantity(3 * 2**31, 1)),
        ("size(parts)", Quantity(7, 1)),
        ("size(mesh) / (100MB / 1s)", Quantity(25, 0, 1)),
        ("max(1GiB, 512MiB) if 1h > 90s else 1B", Quantity(2**30, 1)),
        ("sum([1s, 2s])", Quantity(3, 0, 1)),
        ("round(1GiB / n)", Quantity(357913941, 1)),
        ("abs(floor(-1.5s))", Quantity(2, 0, 1)),
        ("2GiB / 512MiB", 4.0),
        ("7GiB // 2GiB", 3),
        ("7GiB // 2", Quantity(7 * 2**29, 1)),
        ("7s % 4s", Quantity(3, 0, 1)),
        ("log2(4GiB / 1GiB)", 2.0),
        ("1m == 60s", True),
        ("1m == 60", False),
        ("1GiB and 1", 1),
        ("'2GiB' + word", "2GiBx"),
        ("0x1d + 0xB", 40),
    ],
)
def test_a_computation_keeps_the_unit(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("2GiB + 1s", 4, "cannot compare, add or subtract 1.0s and 2.0 GiB"),
        ("2GiB > 1", 4, "2.0 GiB and a plain number"),
        ("2GiB ** 2", 4, "cannot compute with 2.0 GiB and a whole number"),
        ("sqrt(2GiB)", 4, "2.0 GiB is no plain number"),
        ("1GiB * word", 4, "cannot multiply a text by 1.0 GiB"),
        ("size(n)", 4, "size: expected a file or a directory, found 3"),
        ("2gb * n", 4, "cannot be read; write sizes as 2GiB"),
        ("n + 3 * nope(2GiB)", 12, "unknown function 'nope'"),
        ("400d * 2", 4, "a character that is not allowed"),
    ],
)
def test_what_has_no_meaning_is_refused_at_its_place(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        value(text)
    assert error.value.offset == column
    assert message in str(error.value)


def test_elsewhere_a_size_is_its_bytes_and_a_duration_its_seconds() -> None:
    assert parse("-m ${{ 2KiB }} -t ${{ 1.5m }}").text_value(SCOPE) == "-m 2048 -t 90.0"
    assert plain({"m": [value("1KiB")], "t": value("1m")}) == {"m": [1024], "t": 60.0}


def test_a_file_that_is_gone_has_no_size(tmp_path: object) -> None:
    from diel.store.artifacts import File

    with pytest.raises(ExpressionError, match="No such file"):
        parse("${{ size(f) }}").value({"f": File(f"{tmp_path}/gone")})
