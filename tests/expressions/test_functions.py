"""Functions and operators of expressions, and values as text."""

from __future__ import annotations

import time
from pathlib import PurePosixPath
from typing import Any

import pytest

from diel.workflow.expressions import parse, plain, written
from tests.expressions.evaluating import SCOPE, failure, value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max(count, 2) + min([4, 5]) + abs(-1)", 8),
        ("round(2.567, 1) + len(name)", 7.6),
        ("[sum([1, 2]), mean([1, 2]), sorted([2, 1]), int('4'), float(2)]", [3, 1.5, [1, 2], 4, 2.0]),
        ("[sqrt(4), exp(0), log(1), log10(100), floor(1.5), ceil(1.5)]", [2.0, 1.0, 0.0, 2.0, 1, 2]),
        ("[any([false, 1]), all([1, 0]), range(2), range(1, 6, 2)]", [True, False, [0, 1], [1, 3, 5]]),
        ("sorted([1, 3, 2], reverse=true)", [3, 2, 1]),
        ("str(true) + str(null) + str(0.1)", "truenull0.1"),
        ("'ab' * 2 + 'c'", "ababc"),
        ("join([1, 0.5, 'a', true])", "1 0.5 a true"),
        ("join([[1, 2], [3, 4]], '; ')", "1 2; 3 4"),
        ("format(1 / 3, '.3f') + format(7, '03d') + format(1.5, '10.2e')", "0.333007  1.50e+00"),
        ("fortran([1e-10, 0.001, 100.0, 3, true, \"it's\"])", "1.0d-10, 0.001d0, 100.0d0, 3, .true., 'it''s'"),
        ("[0] * 3 + [1]", [0, 0, 0, 1]),
    ],
)  # fmt: skip
def test_functions_and_operators_give_what_a_reader_expects(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_where_keeps_what_a_condition_of_its_own_holds_for() -> None:
    assert value("where([1, 2, 3], [true, false, true])") == [1, 3]
    assert value("where([], [])") == []
    assert "expected two lists, found a list and a truth value" in str(failure("${{ where([1], true) }}"))
    assert "one list has 1 item, the other 2" in str(failure("${{ where([1], [true, false]) }}"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("join('ab')", "join: expected a list, found a text"),
        ("format(1.5, '9999f')", "format: '9999f' is no format"),
        ("format(1.5, 'd')", "format: cannot compute with 1.5 and 'd'"),
        ("format([1], 's')", "format: expected one value, found a list"),
        ("fortran(float('nan'))", "fortran: namelists have no form for nan that all compilers read"),
        ("fortran([1.0, -float('inf')])", "fortran: namelists have no form for -inf"),
        ("fortran({})", "fortran: expected a number, a text or a truth value, found a mapping"),
    ],
)
def test_what_cannot_be_written_is_refused_with_the_function(text: str, told: str) -> None:
    assert told in str(failure(f"${{{{ {text} }}}}"))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", "true"),
        ("1 > 2", "false"),
        ("null", ""),
        ("0.1", "0.1"),
        ("1e-7", "1e-07"),
        ("float('inf')", "inf"),
        ("12", "12"),
        ("name", "argon"),
        ("files.script", "/data/in.melt"),
        ("[1, true, 'é']", '[1, true, "é"]'),
        ("{'a': null}", '{"a": null}'),
    ],
)
def test_values_in_a_text_are_written_as_yaml_writes_them(expression: str, expected: str) -> None:
    assert parse(f"<${{{{ {expression} }}}}>").value(SCOPE) == f"<{expected}>"


def test_a_value_of_a_scope_becomes_plain_json_and_the_rest_of_it_stays_as_it_is() -> None:
    source = {"paths": (PurePosixPath("/a"), {"b": PurePosixPath("c")}), "n": 1}
    assert plain(source) == {"paths": ["/a", {"b": "c"}], "n": 1}
    assert written(source) == '{"paths": ["/a", {"b": "c"}], "n": 1}'
    with pytest.raises(TypeError):
        written(object())


@pytest.mark.parametrize(
    "text",
    [
        "9 ** 9 ** 9",
        "2 ** -99999999 + 10 ** 5000",
        "(10 ** 1000) * (10 ** 1000)",
        "'a' * 99999999",
        "[0] * 99999999",
        "[[0]] * 100",
        "range(10 ** 9)",
        "range(10 ** 30)",
        "'%999999999d' % 1",
        "round(5, -999999999)",
        "int('9' * 9999)",
        "exp(1000)",
        "9.0 ** 999",
    ],
)
def test_a_computation_that_would_never_end_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    failure("${{ " + text + " }}")
    assert time.process_time() - start < 5
