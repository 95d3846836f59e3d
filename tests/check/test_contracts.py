"""The two ends of an edge agree; what disagrees is in tests/broken, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, problems, the_problem

MODULES = """
from pathlib import Path
from typing import Any, Optional, Sequence, TypedDict, Union

import numpy
import numpy as np
import numpy.typing as npt
from numpy import ndarray
from numpy.typing import NDArray

import diel

Image = NDArray[np.uint8]


class Made(TypedDict):
    x: np.ndarray
    file: Path
    loss: float
    odd: Any


@diel.module(kind="simulation")
def make() -> Made:
    return {}


@diel.module(kind="simulation")
def untold() -> dict:
    return {}


@diel.module(kind="analysis")
def one(given: TYPE) -> dict:
    return {}
"""


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "modules").mkdir()
    return workspace


def reading(folder: Path, annotation: str, output: str, over: str = "") -> str:
    """A function of one parameter that reads an output: of a command, or `make.X` of a module."""
    (folder / "modules" / "m.py").write_text(MODULES.replace("TYPE", annotation))
    module, _, name = output.partition(".")
    if module in ("make", "untold"):
        up, name = f"module: 'm:{module}'", name
    else:
        up, name = f"command: [./make.sh], outputs: {{a: {output}}}", "a"
    axis = "axes: {i: {range: 3}}\n" if over else ""
    return f"{axis}stages:\n  up: {{{up}{over}}}\n  s: {{module: 'm:one', inputs: {{given: up.{name}}}}}\n"


ARRAYS = ["np.ndarray", "numpy.ndarray", "ndarray", "NDArray[np.float32]", "npt.NDArray[Any]", "Image"]
ARRAYS += ["'np.ndarray'", "np.ndarray | None", "Optional[ndarray]", "Union[Path, np.ndarray]"]


@pytest.mark.parametrize("annotation", ARRAYS)
def test_an_array_in_any_spelling_takes_an_npy_file_and_no_number(folder: Path, annotation: str) -> None:
    checked(folder, reading(folder, annotation, "x.npy"))
    checked(folder, reading(folder, annotation, "make.x"))
    checked(folder, reading(folder, f"list[{annotation}]", "x.npy", ", over: [i]"))
    checked(folder, reading(folder, f"Sequence[{annotation}]", "{glob: '*.npy'}"))
    assert "is a number" in the_problem(folder, reading(folder, annotation, "make.loss")).message
    if "Path" not in annotation:
        assert "x.csv" in the_problem(folder, reading(folder, annotation, "x.csv")).message


@pytest.mark.parametrize(
    ("annotation", "output"),
    [
        ("Path", "x.csv"),
        ("str", "x.csv"),
        ("list", "{glob: '*.csv'}"),
        ("list[Path]", "{glob: '*.csv'}"),
        ("float", "{value: int}"),
        ("Path", "{value: str}"),
        ("dict[str, float]", "{value: dict}"),
        ("list[float]", "{value: list}"),
        ("float", "make.odd"),
        ("float", "untold.x"),
        ("Any", "x.csv"),
        ("'Unknown'", "x.csv"),
        ("np.ndarray", "'${{ hp.name }}'"),
    ],
)
def test_what_fits_or_cannot_be_known_is_let_through(folder: Path, annotation: str, output: str) -> None:
    head = "hyperparameters: {name: {type: str, default: x.npy}}\n"
    checked(folder, head + reading(folder, annotation, output))


@pytest.mark.parametrize(
    ("annotation", "good"),
    [("list[int]", False), ("list[int | None]", True), ("list", True), ("list[Optional[int]]", True)],
)
def test_what_may_be_missing_is_null_to_the_function(folder: Path, annotation: str, good: bool) -> None:
    text = reading(folder, annotation, "{value: int}", ", over: [i]")
    text = text.replace("up.a}", "{from: up.a, missing: null}}")
    if good:
        checked(folder, text)
    else:
        assert "annotated list[int]" in the_problem(folder, text).message


def test_a_parameter_without_annotation_takes_anything(folder: Path) -> None:
    text = reading(folder, "Any", "x.csv")
    path = folder / "modules" / "m.py"
    path.write_text(path.read_text().replace("given: Any", "given"))
    checked(folder, text)


@pytest.mark.parametrize(
    ("annotation", "output"),
    [
        ("int", "{value: float}"),
        ("bool", "{value: int}"),
        ("float", "{glob: '*.csv'}"),
        ("dict", "make.file"),
    ],
)
def test_what_does_not_fit_is_told_at_the_input(folder: Path, annotation: str, output: str) -> None:
    problem = the_problem(folder, reading(folder, annotation, output))
    assert problem.key == "stages.s.inputs.given"
    assert problem.hint


ENDS = """
stages:
  make: {{command: [./make.sh], outputs: {{a: {{path: {path}, {made}}}}}}}
  use: {{command: [./use.sh], inputs: {{a: {{from: make.a, {wanted}}}}}}}
"""


@pytest.mark.parametrize(
    ("path", "made", "wanted"),
    [
        ("a.csv", "columns: {t: float, n: int}, units: K", "columns: {n: float}, units: ' K '"),
        ("a.npy", "dtype: float32, shape: [n, 3]", "dtype: float32, shape: ['*', 3]"),
        ("a.npy", "shape: [100, 3]", "shape: [n, k]"),
        ("a.npy", "shape: ['*', 3]", "shape: [100, 3]"),
        ("'${{ run.id }}'", "columns: {t: float}", "columns: {t: float}"),
    ],
)
def test_ends_that_agree_are_let_through(folder: Path, path: str, made: str, wanted: str) -> None:
    checked(folder, ENDS.format(path=path, made=made, wanted=wanted))


def test_every_disagreement_of_an_edge_is_told(folder: Path) -> None:
    found = problems(
        folder,
        ENDS.format(
            path="a.npy",
            made="dtype: float32, shape: [4], units: K",
            wanted="dtype: int8, shape: [4, 1], units: eV",
        ),
    )
    assert [p.key.rpartition(".")[2] for p in found] == ["dtype", "shape", "units"]


def test_a_module_may_promise_what_its_annotation_does_not_tell(folder: Path) -> None:
    (folder / "modules" / "m.py").write_text(MODULES.replace("TYPE", "np.ndarray"))
    contracts = "{x: {dtype: float32, keep: false}, odd: {json: {n: int}}, file: {columns: {t: float}}, loss: {finite: true}}"
    text = f"stages:\n  up: {{module: 'm:make', outputs: {contracts}}}\n  s: {{module: 'm:one', inputs: {{given: up.x}}}}\n"
    checked(folder, text)
    checked(folder, text.replace("m:make", "m:untold"))
