"""A value that does not fit a module's parameter is refused in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diel.workflow.modules.signature import Signature, read_signature

MISFITS = [
    ("int", True, "expected a whole number, found true"),
    ("int", "1", 'expected a whole number, found "1"'),
    ("int", 1.5, "expected a whole number, found 1.5"),
    ("int", 1e6, "expected a whole number, found 1000000.0"),
    ("int", None, "expected a whole number, found null"),
    ("float", True, "expected a number, found true"),
    ("float", "1.5", 'expected a number, found "1.5"'),
    ("str", 1, "expected a text, found 1"),
    ("bool", 1, "expected true or false, found 1"),
    ("bool", "yes", 'expected true or false, found "yes"'),
    ("Path", 1, "expected a text, found 1"),
    ("list[int]", "12", 'expected a list, found "12"'),
    ("list[int]", [1, "a"], 'expected a whole number, found "a" in [1, "a"]'),
    ("tuple[int, int]", [1, 2, 3], "expected at most 2 items, found [1, 2, 3]"),
    ("tuple[int, int]", [1], "expected at least 2 items, found [1]"),
    ("tuple[int, int, int]", [1], "expected at least 3 items, found [1]"),
    ("dict[str, int]", [1], "expected a mapping, found [1]"),
    ("dict[str, int]", {"a": "b"}, 'expected a whole number, found "b" in {"a": "b"}'),
    ("int | None", "a", 'expected a whole number, found "a"'),
    ("int | str", 1.5, "expected a whole number or a text, found 1.5"),
    ("Literal['a', 'b']", "c", "expected 'a' or 'b', found \"c\""),
    ("Literal['a', 1]", True, "expected 'a' or 1, found true"),
    ("Literal['a', 1]", 1.0, "expected 'a' or 1, found 1.0"),
    ("list[Literal[1, 2] | None]", [2, True], "expected 1 or 2, found true in [2, true]"),
    ("Literal[True]", 1, "expected True, found 1"),
    ("Annotated[int, Field(ge=1)]", 0, "expected at least 1, found 0"),
    ("Annotated[int, Field(le=LIMIT)]", 6, "expected at most 5, found 6"),
    ("Annotated[float, at.Gt(0)]", 0, "expected more than 0.0, found 0"),
    ("Annotated[float, at.Gt(0)]", math.nan, "expected more than 0.0, found NaN"),
    ("list[Annotated[float, at.Gt(0)]]", [math.nan], "expected more than 0.0, found NaN in [NaN]"),
    ("Annotated[float, at.Interval(gt=0, lt=1)]", 1, "expected less than 1.0, found 1"),
    ("Annotated[int, Field(multiple_of=2)]", 3, "expected a multiple of 2, found 3"),
    ("Annotated[str, Field(pattern='^a')]", "b", 'expected a text that matches ^a, found "b"'),
    ("Annotated[list[int], Field(min_length=2)]", [1], "expected at least 2 items, found [1]"),
    ("Positive", 0, "expected at least 1, found 0"),
    ("list[Positive]", [1, 0], "expected at least 1, found 0 in [1, 0]"),
    ("np.float64", "1.5", 'expected a number, found "1.5"'),
    ("list[np.int8]", [300], "expected what numpy.int8 holds exactly, found 300 in [300]"),
    ("NDArray[np.int64]", [1, 2.5], "expected what numpy.int64 holds exactly, found [1, 2.5]"),
    ("int | np.ndarray", "a.npy", 'expected a whole number or a list, found "a.npy"'),
    ("dict[int, float]", {"1": 1}, 'expected a whole number, found "1" in {"1": 1}'),
    ("Annotated[float, Field(gt=0)]", float("nan"), "expected more than 0.0, found NaN"),
    ("PositiveInt", 0, "expected more than 0, found 0"),
]


@pytest.mark.parametrize(("annotation", "value", "message"), MISFITS)
def test_values_that_do_not_fit_are_refused_in_plain_words(
    signature: Callable[[str], Signature], annotation: str, value: Any, message: str
) -> None:
    assert signature(f"x: {annotation}").parameters[0].check(value) == message


@pytest.mark.parametrize(
    ("annotation", "value", "hint"),
    [
        ("int", 1e6, "1000000"),
        ("float", "1.5", "without quotes"),
        ("bool", "no", "true or false"),
        ("int", "a", ""),
        ("Annotated[float, at.Lt(1)]", 2.0, ""),
    ],
)
def test_the_usual_slips_of_yaml_get_a_hint(
    signature: Callable[[str], Signature], annotation: str, value: Any, hint: str
) -> None:
    [(name, message, shown)] = signature(f"x: {annotation}").check({"x": value}, ())
    assert name == "x"
    assert message.startswith("expected ")
    assert (hint in shown) if hint else (shown == "")


RECORDS = """
import datetime as dt
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple, TypedDict
from pydantic import BaseModel
@dataclass(frozen=True)
class D:
    a: int
class N(NamedTuple):
    a: int
class P(BaseModel):
    a: int
class E(Enum):
    A = "a"
class S(StrEnum):
    A = "a"
class T(TypedDict):
    a: int
"""


@pytest.mark.parametrize("annotation", ["D", "'N'", "P", "E", "dt.date", "dt.datetime", "bytes"])
@pytest.mark.parametrize("deferred", [(), ("x",)])
def test_what_no_value_becomes_is_refused_before_the_run(
    tmp_path: Path, annotation: str, deferred: tuple[str, ...]
) -> None:
    (tmp_path / "m.py").write_text(f"{RECORDS}def f(x: {annotation}): ...\n")
    [(name, message, hint)] = read_signature(tmp_path / "m.py", "f").check({"x": {"a": 1}}, deferred)
    assert (name, message) == (
        "x",
        f"no value of a workflow becomes {annotation.strip(chr(39)).removeprefix('dt.')}",
    )
    assert "make the object in the function" in hint


@pytest.mark.parametrize("annotation", ["T", "S", "D | dict", "dt.date | str", "Path", "set[int]"])
def test_what_a_value_is_or_stands_for_is_taken(tmp_path: Path, annotation: str) -> None:
    (tmp_path / "m.py").write_text(f"from pathlib import Path\n{RECORDS}def f(x: {annotation}): ...\n")
    assert read_signature(tmp_path / "m.py", "f").check({"x": None}, ("x",)) == []
