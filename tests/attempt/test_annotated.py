"""What a function is called with is of the types that its annotations say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.base.errors import ModuleError
from diel.worker.attempt.annotated import hold_arguments
from diel.workflow.modules.catalogue import find, load_function
from tests.throwaway import Project

HEAD = """
import datetime
import enum
import numbers
from dataclasses import dataclass
from pathlib import Path
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict
import numpy
import numpy as np
import pandas
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, Field
if TYPE_CHECKING:
    import numpy as later
    from kinds import Size as Only
from kinds import Size
class Mode(enum.StrEnum):
    FAST = "fast"
class Plain(enum.Enum):
    FAST = "fast"
class Pair(NamedTuple):
    a: float
class Model(BaseModel):
    a: float
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2
class Cell(TypedDict):
    a: float
    n: int
    t: NotRequired[tuple[int, str]]
class Series(TypedDict):
    x: NDArray[np.float64]
@dataclass
class Record:
    a: float
    n: int
class Moment(TypedDict):
    at: datetime.date
class Other: ...
"""
OTHER = (
    "from typing import Annotated\nfrom pydantic import Field\nSize = Annotated[int, Field(ge=8, le=100)]\n"
)
FITS: list[tuple[str, Any]] = [
    ("int", 8),
    ("float", 8),
    ("float", 1e300),
    ("float | None", None),
    ("float = None", None),
    ("list[float]", [1, 2.5]),
    ("tuple[int, int]", [1, 2]),
    ("set[str]", ["a"]),
    ("set[tuple[int, int]]", [[1, 2], [2, 1]]),
    ("dict[str, float]", {"a": 1}),
    ("Literal['fast', 2]", 2),
    ("Literal[True, 2]", True),
    ("list[Literal['fast', 2, None]]", ["fast", 2, None]),
    ("Mode", "fast"),
    ("Size", 8),
    ("Optional[Size]", None),
    ("list[Size]", [8, 100]),
    ("numpy.ndarray", [1]),
    ("Only", 9),
    ("ArrayLike", [[1, 2.5]]),
    ("list[Path]", ["a"]),
    ("Level", 1),
    ("Record | dict", {"a": 1, "n": 2}),
    ("datetime.date | str", "2026-01-02"),
    ("Decimal | None", None),
    ("complex", 1.5),
    ("Cell", {"a": 1, "n": 2}),
    ("list[Cell]", [{"a": 1.5, "n": 2, "t": [1, "a"]}]),
    ("numbers.Real", 1.5),
    ("tuple[numbers.Real, int]", [1, 2]),
    ("dict[str, float]", {"1": 1.0}),
    ("pandas.DataFrame", {"a": [1]}),
    ("complex | str", "1"),
    ("'Size'", 99),
]
MISFITS: list[tuple[str, Any, str]] = [
    ("numpy.float64", 2**53 + 1, "expected what numpy.float64 holds exactly"),
    ("np.float32", 2**53 + 1, "expected what numpy.float32 holds exactly"),
    ("list[np.float64]", [2**53 + 1], "expected what numpy.float64 holds exactly"),
    ("dict[str, np.float64 | None]", {"a": 2**53 + 1}, "expected what numpy.float64 holds exactly"),
    ("np.floating", 2**53 + 1, "expected what numpy.float64 holds exactly"),
    ("np.int32", 2**40, "expected what numpy.int32 holds exactly"),
    ("np.float64", "1", 'expected a number, found "1"'),
    ("np.float64", True, "expected a number, found true"),
    ("int", "9", 'expected a whole number, found "9"'),
    ("int", 8.5, "expected a whole number, found 8.5"),
    ("int", 8.0, "expected a whole number, found 8.0"),
    ("int", True, "expected a whole number, found true"),
    ("int", None, "expected a whole number, found null"),
    ("float", "1e3", 'expected a number, found "1e3"'),
    ("float", False, "expected a number, found false"),
    ("bool", 1, "expected true or false, found 1"),
    ("complex", "1", 'expected a number, found "1"'),
    ("complex", True, "expected a number, found true"),
    ("list[complex]", [1.5, "1"], 'expected a number, found "1" in [1.5, "1"]'),
    ("set[int]", [1, 1, 2], "expected a list in which nothing is there twice, found [1, 1, 2]"),
    ("frozenset[str] | None", ["a", "a"], "expected a list in which nothing is there twice"),
    ("set[int]", [1, 2.5], "expected a whole number, found 2.5 in [1, 2.5]"),
    ("str", 7, "expected a text, found 7"),
    ("int | None", "", 'expected a whole number, found ""'),
    ("list[int]", [1, 2.5], "expected a whole number, found 2.5 in [1, 2.5]"),
    ("list[float]", 1.5, "expected a list, found 1.5"),
    ("dict[str, list[int]]", {"a": ["1"]}, 'expected a whole number, found "1"'),
    ("tuple[int, int]", [1], "expected at least 2 items, found [1]"),
    ("Size", 200, "expected at most 100, found 200"),
    ("Size", "16", 'expected a whole number, found "16"'),
    ("list[Size]", [8, 7], "expected at least 8, found 7 in [8, 7]"),
    ("Literal['fast', 2]", "slow", "expected 'fast' or 2, found \"slow\""),
    ("Literal['fast', 1]", True, "expected 'fast' or 1, found true"),
    ("Literal['fast', 1]", 1.0, "expected 'fast' or 1, found 1.0"),
    ("dict[str, Literal[1] | None]", {"a": True}, 'expected 1, found true in {"a": true}'),
    ("Mode", "slow", "expected 'fast', found \"slow\""),
    ("NoSuchName", 5, "its type cannot be checked: No module named 'NoSuchName'"),
    ("Only", 200, "expected at most 100, found 200"),
    ("Path", 1, "expected a text, found 1"),
    ("list[Path | None]", ["a", 2], 'expected a text, found 2 in ["a", 2]'),
    ("Level", True, "expected 1 or 2, found true"),
    ("Level", 1.0, "expected 1 or 2, found 1.0"),
    ("dict[int, float]", {"1": 1.0}, 'expected a whole number, found "1" in {"1": 1.0}'),
    ("Cell", {"a": "1", "n": 2}, 'expected a number, found "1" in {"a": "1", "n": 2}'),
    ("Cell", {"a": 1.5}, "expected 'n', found {\"a\": 1.5}"),
    ("Cell", {"a": 1, "n": 2, "z": 3}, "expected no 'z', found 3 in"),
    *(
        (kind, {"a": 1.0, "n": 2}, f"expected an instance of {kind}, found {{")
        for kind in ("Record", "Model", "Pair")
    ),
    ("list[Record]", [{"a": 1.0, "n": 2}], "expected an instance of Record, found {"),
    ("Moment", {"at": "2026-01-02"}, 'expected an instance of date, found "2026-01-02" in {'),
    ("Plain", "fast", 'expected an instance of Plain, found "fast"'),
    ("datetime.date", "2026-01-02", 'expected an instance of date, found "2026-01-02"'),
    ("datetime.timedelta", 90, "expected an instance of timedelta, found 90"),
    ("Decimal", "1.5", 'expected an instance of decimal, found "1.5"'),
    ("bytes", "a", 'expected an instance of bytes, found "a"'),
    ("Annotated[float, Field(allow_inf_nan=False)]", math.nan, "expected a finite number, found NaN"),
    ("Annotated[float, Field(gt=0)]", math.nan, "expected more than 0.0, found NaN"),
    ("Annotated[Path, Field(min_length=1)]", "a", "its type cannot be checked: "),
    ("Other", {"a": 1}, "expected an instance of Other, found {"),
    ("list[Other]", [1], "expected an instance of Other, found 1 in [1]"),
    ("numbers.Real", "1", 'expected an instance of Real, found "1"'),
    ("pandas.DataFrame", "a", 'expected an instance of DataFrame, found "a"'),
    ("ArrayLike", {"a": 1}, "expected "),
]


def hold(folder: Path, annotation: str, value: Any) -> Any:
    modules = folder / "modules"
    modules.mkdir()
    (modules / "kinds.py").write_text(OTHER)
    (modules / "one.py").write_text(f"{HEAD}\ndef f(x: {annotation}) -> dict:\n    return {{}}\n")
    if any(one in annotation for one in ("NoSuchName", "Only", "later")):  # only a type checker sees it
        (modules / "one.py").write_text(
            f"from __future__ import annotations\n{(modules / 'one.py').read_text()}"
        )
    module = find("one:f", (modules,))
    return hold_arguments(load_function(module), module.signature, {"x": value})["x"]


@pytest.mark.parametrize(("annotation", "value"), FITS)
def test_what_fits_is_let_through(tmp_path: Path, annotation: str, value: Any) -> None:
    assert numpy.array_equal(hold(tmp_path, annotation, value), value)


ARRAYS: list[tuple[str, Any, str]] = [
    ("np.ndarray", [1.5, 2.5, math.nan], "float64"),
    ("np.ndarray", [[1, 2], [3, 4]], "int64"),
    ("np.ndarray", ["a", "bc"], "<U2"),
    ("NDArray[np.float64]", [1, 2], "float64"),
    ("NDArray[np.float32] | None", [0.5, 2], "float32"),
    ("NDArray[np.floating[Any]]", [1], "float64"),
    ("NDArray[np.bool_]", [True], "bool"),
    ("np.ndarray[tuple[int], np.dtype[np.int8]]", [-128], "int8"),
    ("later.ndarray", [1.5], "float64"),
    ("float | np.ndarray", [1.5], "float64"),
    ("Annotated[np.ndarray, 'of one day']", [1], "int64"),
    ("np.float64", 1, "float64"),
    ("np.int32", -(2**31), "int32"),
    ("np.integer", 7, "int64"),
]


@pytest.mark.parametrize(("annotation", "value", "dtype"), ARRAYS)
def test_numbers_arrive_as_what_numpy_calls_them(
    tmp_path: Path, annotation: str, value: Any, dtype: str
) -> None:
    found = hold(tmp_path, annotation, value)
    assert isinstance(found, numpy.ndarray if isinstance(value, list) else numpy.generic)
    assert found.dtype == dtype
    assert numpy.array_equal(found, value, equal_nan=dtype == "float64")


def test_arrays_in_lists_and_records_arrive_as_such(tmp_path: Path) -> None:
    found = hold(tmp_path, "tuple[list[np.ndarray], Series, np.int8 | None]", [[[1], [2]], {"x": [1]}, None])
    assert [type(one) for one in found[0]] == [numpy.ndarray, numpy.ndarray]
    assert (found[1]["x"].dtype, found[2]) == ("float64", None)


NO_ARRAYS: list[tuple[str, Any, str]] = [
    ("np.ndarray", 1.5, "expected a list, found 1.5"),
    ("np.ndarray", "a.npy", 'expected a list, found "a.npy"'),
    ("np.ndarray", [1, None], "expected what numpy.ndarray holds exactly, found [1, null]"),
    ("np.ndarray", [1, True], "expected what numpy.ndarray holds exactly, found [1, true]"),
    ("np.ndarray", [1, "a"], 'expected what numpy.ndarray holds exactly, found [1, "a"]'),
    ("np.ndarray", [[1], [2, 3]], "expected what numpy.ndarray holds exactly"),
    ("np.ndarray", [2**53 + 1, 0.5], "expected what numpy.ndarray holds exactly"),
    ("NDArray[np.float32]", [0.1], "expected what numpy.float32 holds exactly, found [0.1]"),
    ("NDArray[np.int64]", [1.0], "expected what numpy.int64 holds exactly, found [1.0]"),
    ("NDArray[np.float64]", ["1.5"], 'expected what numpy.float64 holds exactly, found ["1.5"]'),
    ("later.ndarray", "a", 'expected a list, found "a"'),
    ("np.float64", "1.5", 'expected a number, found "1.5"'),
    ("np.float64", True, "expected a number, found true"),
    ("np.int32", 1.5, "expected a whole number, found 1.5"),
    ("np.int32", 2**40, "expected what numpy.int32 holds exactly, found 1099511627776"),
    ("np.datetime64", "2020-01-01", "expected an instance of datetime64"),
]


@pytest.mark.parametrize(("annotation", "value", "told"), MISFITS + NO_ARRAYS)
def test_what_does_not_fit_is_told(tmp_path: Path, annotation: str, value: Any, told: str) -> None:
    with pytest.raises(ModuleError) as error:
        hold(tmp_path, annotation, value)
    assert str(error.value).startswith(f"parameter 'x' of 'f': {told}")


def test_what_only_the_run_shows_is_held_to_its_type_and_passed_on_as_it_is(tmp_path: Path) -> None:
    project = Project(tmp_path).module(
        "m",
        """
        from typing import Annotated
        from pydantic import Field
        def make() -> dict:
            return {"eight": "8", "many": 101, "whole": 3, "pair": [1, 2]}
        def use(size: Annotated[int, Field(ge=1, le=100)]) -> dict:
            return {"size": 2 * size}
        def show(x: float, t: tuple[int, int]) -> dict:
            return {"kinds": f"{type(x).__name__} {type(t).__name__}"}
        """,
    )
    project.workflow("""
        stages:
          make: {module: "m:make"}
          text: {module: "m:use", inputs: {size: make.eight}}
          large: {module: "m:use", inputs: {size: make.many}}
          right: {module: "m:show", inputs: {x: make.whole, t: make.pair}}
        """)
    said = project.diel("run", "flow.yaml", code=1)
    assert "text/0  app: parameter 'size' of 'use': expected a whole number, found \"8\"" in said
    assert "large/0  app: parameter 'size' of 'use': expected at most 100, found 101" in said
    assert "int list" in project.diel("results", "last", "right")


def test_gathered_numbers_arrive_as_an_array_and_typed_mappings_are_held(tmp_path: Path) -> None:
    project = Project(tmp_path).module(
        "g",
        """
        import numpy as np
        from typing import TypedDict
        class Cell(TypedDict):
            a: float
            n: int
        def make(x: int) -> dict:
            return {"e": x * 1.5, "cell": {"a": str(x), "n": x}}
        def fit(e: np.ndarray) -> dict:
            return {"largest": float(np.max(2 * e)), "type": type(e).__name__}
        def cell(cell: Cell) -> dict:
            return {"v": cell["a"] * cell["n"]}
        def f64(e: np.float64) -> dict:
            return {"v": e * 2}
        """,
    )
    flow = """
        axes:
          x: {values: [1, 2, 3]}
        stages:
          a: {over: [x], module: "g:make"}
          fit: {module: "g:fit", inputs: {e: a.e}}
          cell: {over: [x], module: "g:cell", inputs: {cell: a.cell}}
          f64: {module: "g:f64", params: {e: "1.5"}}
        """
    project.workflow(flow)
    said = project.diel("validate", "flow.yaml", code=2)
    assert 'stages.f64.params.e: expected a number, found "1.5"' in said
    project.workflow(flow.replace('"1.5"', "2"))
    said = project.diel("run", "flow.yaml", code=1)
    assert "app: parameter 'cell' of 'cell': expected a number, found \"1\"" in said
    run = project.newest()
    assert (run.value("fit", "largest"), run.value("fit", "type"), run.value("f64", "v")) == (
        9.0,
        "ndarray",
        4,
    )
