"""Values: which are taken from a module or a command, and what is refused."""

from __future__ import annotations

import enum
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.base.errors import ModuleError
from diel.store.artifacts import MAX_VALUES, collect_result, collect_returned
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


class Phase(enum.StrEnum):
    SOLID = "solid"


class Colour(str, enum.Enum):  # noqa: UP042  # as it was written before Python 3.11
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Energy(float):
    def __float__(self) -> float:
        return -1.0

    def __repr__(self) -> str:
        return f"{float.__repr__(self)} eV"


class Name(str):
    def __str__(self) -> str:
        return f"the {super().__str__()}"


OWN = [
    (Phase.SOLID, "solid"),
    (Colour.RED, "red"),
    (Level.LOW, 1),
    (Energy(1.5), 1.5),
    (Name("cell"), "cell"),
]


@pytest.mark.parametrize(("value", "bare"), OWN, ids=lambda part: type(part).__name__)
def test_what_derives_from_a_text_or_number_is_the_bare_one(take: Take, value: Any, bare: Any) -> None:
    (values, _) = take(x=value, inside=[value, {"in": (value,)}])
    assert values == {"x": bare, "inside": [bare, {"in": [bare]}]}
    assert {type(values["x"]), *map(type, (values["inside"][0], *values["inside"][1]["in"]))} == {type(bare)}


def test_names_that_derive_from_a_text_are_bare(task_dir: Path, run_dir: Path) -> None:
    class Named(os.PathLike[str]):
        def __fspath__(self) -> str:
            return Name("a.txt")

    (task_dir / "a.txt").touch()
    returned = {
        Phase.SOLID: {Colour.RED: 1, numpy.str_("b"): 2},
        Name("array"): numpy.ones(2),
        Name("file"): Named(),
    }
    values, artifacts = collect_returned(returned, task_dir, run_dir)
    assert values == {"solid": {"red": 1, "b": 2}}
    names = [*values, *values["solid"], *artifacts, *(one["path"] for one in artifacts.values())]
    assert {type(name) for name in names} == {str}


@pytest.mark.parametrize(
    ("value", "key"),
    [({"1": 1, 1: 2}, "1"), ({None: 1, "None": 2}, "None"), ({Phase.SOLID: {0.5: 1, "0.5": 2}}, "0.5")],
)
def test_keys_that_are_equal_as_text_are_refused(take: Take, value: Any, key: str) -> None:
    with pytest.raises(ModuleError, match=f'output \'v.*the key "{key}" is there twice'):
        take(v=value)


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


class Measured(numpy.ndarray[Any, Any]):
    """An array with a unit, as libraries of units have it."""

    magnitude = units = None


@pytest.mark.parametrize(
    ("value", "loss"),
    [
        (numpy.ma.masked, "masked"),
        (numpy.ma.masked_array(5.0, mask=True), "masked"),
        (numpy.ma.masked_array([1.0, 2.0], [True, False]), "masked"),
        (numpy.array([1, 2]).view(Measured), "has a unit"),
    ],
)
def test_a_mask_and_a_unit_are_not_lost_wherever_they_are(take: Take, value: Any, loss: str) -> None:
    for output in (value, [value, 1], (1, value), {"inner": value}):
        with pytest.raises(ModuleError, match=rf"output 'odd.*{loss}"):
            take(odd=output)
    assert take(whole=numpy.ma.masked_array(5.0, mask=False))[0] == {"whole": 5.0}


def test_values_beyond_a_mebibyte_belong_into_a_file(take: Take) -> None:
    quotes = len(json.dumps({"x": ""}))
    assert take(x="a" * (MAX_VALUES - quotes))[0]
    with pytest.raises(ModuleError, match=r"1048577 bytes of JSON; return a file's Path"):
        take(x="a" * (MAX_VALUES - quotes + 1))
