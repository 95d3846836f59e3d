"""Values: which are taken from a module or a command, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.artifacts import MAX_VALUES, collect_result
from diel.errors import ModuleError
from tests.artifacts.conftest import Take

NUMPY = [
    (numpy.float64(0.1), 0.1, float),
    (numpy.float32(0.5), 0.5, float),
    (numpy.int64(3), 3, int),
    (numpy.uint8(3), 3, int),
    (numpy.bool_(True), True, bool),
    (numpy.str_("é"), "é", str),
    (numpy.array(2.5), 2.5, float),
]


def test_a_commands_result_is_one_json_object(tmp_path: Path) -> None:
    path = tmp_path / "result"
    assert collect_result(str(path), {}) == {}
    path.write_text('{"x": 1, "more": [1.5, null], "y": 2}', encoding="utf-8")
    assert collect_result(str(path), {"x": "int", "y": "float"}) == {"x": 1, "more": [1.5, None], "y": 2}


@pytest.mark.parametrize(
    ("text", "types", "message"),
    [
        (b"[1]", {}, "holds list; expected one JSON object"),
        (b"3.5", {}, "holds float"),
        (b"", {}, "holds no JSON"),
        (b'{"x": 1', {}, "holds no JSON"),
        (b'{"x": 1}\n{"x": 2}', {}, "holds no JSON"),
        (b'{"x": "\xff"}', {}, "cannot be read"),
        (b'{"x":' * 100_000, {}, "holds no JSON"),
        (b"{}", {"x": "int"}, "did not write the value 'x'"),
        (None, {"x": "int"}, "did not write the value 'x'"),
        (b'{"x": 1.0}', {"x": "int"}, "value 'x': expected int, found 1.0"),
        (b'{"x": true}', {"x": "int"}, "expected int, found True"),
        (b'{"x": "1"}', {"x": "float"}, "expected float, found '1'"),
        (b'{"x": null}', {"x": "str"}, "expected str, found None"),
        (b'{"x": 1}', {"x": "bool"}, "expected bool"),
    ],
)
def test_a_result_that_is_not_what_was_declared_is_refused(
    tmp_path: Path, text: bytes | None, types: dict[str, str], message: str
) -> None:
    path = tmp_path / "result"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ModuleError, match=message):
        collect_result(str(path), types)


def test_a_result_beyond_a_mebibyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_text(json.dumps({"x": "a" * MAX_VALUES}))
    with pytest.raises(ModuleError, match="1 MiB"):
        collect_result(str(path), {})


@pytest.mark.parametrize(("given_", "value", "kind"), NUMPY, ids=lambda part: type(part).__name__)
def test_numpy_scalars_become_pythons(take: Take, given_: Any, value: Any, kind: type) -> None:
    values, artifacts = take(x=given_, nested={"list": [given_], "tuple": (given_, 1)})
    assert values == {"x": value, "nested": {"list": [value], "tuple": [value, 1]}}
    assert type(values["x"]) is type(values["nested"]["list"][0]) is kind
    assert artifacts == {}
    assert json.loads(json.dumps(values)) == values


def test_values_that_are_no_numbers_are_kept(take: Take) -> None:
    values, _ = take(a=math.nan, b=math.inf, c=numpy.float64("nan"))
    again = json.loads(json.dumps(values))
    assert math.isnan(again["a"])
    assert again["b"] == math.inf
    assert math.isnan(again["c"])


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        b"bytes",
        object(),
        1j,
        numpy.complex128(1j),
        numpy.longdouble(1),
        numpy.datetime64("2020-01-01"),
        [Path("x")],
        numpy.array([object()]),
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_neither_json_nor_a_file_is_refused_by_name(take: Take, value: Any) -> None:
    with pytest.raises(ModuleError, match=r"output 'odd|the values cannot be written as JSON"):
        take(odd=value)


def test_values_beyond_a_mebibyte_belong_into_a_file(take: Take) -> None:
    quotes = len(json.dumps({"x": ""}))
    assert take(x="a" * (MAX_VALUES - quotes))[0]
    with pytest.raises(ModuleError, match=r"1048577 bytes of JSON; return a file's Path"):
        take(x="a" * (MAX_VALUES - quotes + 1))
