"""What a function is called with: by name and by place, files as what its annotations ask for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.base.errors import ModuleError
from diel.base.units import Conversion
from diel.store.artifacts import Artifact
from diel.worker.attempt.arguments import arguments
from diel.worker.context import Context
from diel.workflow.modules.catalogue import find, load_function
from tests.worker.bench import request

HEAD = "from __future__ import annotations\nfrom pathlib import Path\nimport functools\nimport numpy as np\n"


def called(
    tmp_path: Path, reference: str, conversions: Any = None, **given: Any
) -> tuple[list[Any], dict[str, Any]]:
    module = find(reference, [tmp_path / "modules"])
    told = request(0, **given)
    context = Context(tmp_path, run_dir=tmp_path, params=told.params, inputs=told.inputs)
    return arguments(load_function(module), module, told, context, None, conversions)


def own(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.py").write_text(HEAD + text)


@pytest.mark.parametrize(
    ("reference", "params", "expected"),
    [
        ("statistics:mean", {"data": [1]}, ([], {"data": [1]})),
        ("math:sqrt", {"x": 4}, ([4], {})),
        ("math:hypot", {"a": 3, "b": 4}, ([3, 4], {})),
        ("os.path:join", {"a": "x", "p": ["y", "z"]}, (["x", "y", "z"], {})),
        ("own:wrapped", {"x": 1}, ([], {"x": 1})),
        ("own:others", {"a": 1, "more": 2}, ([], {"a": 1, "more": 2})),
        ("own:Made", {"depth": 2}, ([], {"depth": 2})),
    ],
)
def test_each_parameter_is_passed_as_the_function_takes_it(
    tmp_path: Path, reference: str, params: dict[str, Any], expected: Any
) -> None:
    own(
        tmp_path,
        "def keep(f):\n    return functools.wraps(f)(lambda *a, **k: f(*a, **k))\n"
        "@keep\ndef wrapped(x): ...\ndef others(a, **rest): ...\n"
        "class Made:\n    def __init__(self, depth): ...\n",
    )
    assert called(tmp_path, reference, params=params) == expected


def test_what_a_decorator_hid_is_checked_when_it_is_called(tmp_path: Path) -> None:
    own(
        tmp_path,
        "def keep(f):\n    return functools.wraps(f)(lambda *a, **k: f(*a, **k))\n@keep\ndef wrapped(x): ...\n",
    )
    with pytest.raises(ModuleError, match="'own:wrapped' has no parameter 'y'; it takes: x"):
        called(tmp_path, "own:wrapped", params={"y": 1})


FUNCTIONS = """
def typed(x: np.ndarray, p: Path, t: pandas.DataFrame = None): ...
def bare(x, filename, y: str): ...
def several(xs: list[np.ndarray]): ...
import pandas
"""


def test_files_arrive_as_annotated_and_else_as_what_was_returned(tmp_path: Path) -> None:
    own(tmp_path, FUNCTIONS)
    numpy.save(tmp_path / "a.npy", numpy.arange(3))
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    array, table = Artifact(str(tmp_path / "a.npy"), "d"), Artifact(str(tmp_path / "t.csv"), "d")
    _, found = called(tmp_path, "own:typed", inputs={"x": array, "p": array, "t": table})
    assert (found["x"].tolist(), found["p"], found["t"]["b"].tolist()) == ([0, 1, 2], Path(array), [2])
    _, found = called(tmp_path, "own:bare", inputs={"x": array, "filename": array, "y": array})
    assert (found["x"].tolist(), found["filename"], found["y"]) == ([0, 1, 2], str(array), str(array))
    _, found = called(tmp_path, "own:bare", inputs={"x": table})
    assert found["x"] == str(table)
    _, found = called(tmp_path, "own:several", inputs={"xs": [array, array]})
    assert [one.sum() for one in found["xs"]] == [3, 3]
    _, found = called(tmp_path, "own:several", inputs={"xs": [None, array]})
    assert found["xs"][0] is None
    assert found["xs"][1].sum() == 3


def test_an_array_is_converted_and_a_path_cannot_be(tmp_path: Path) -> None:
    own(tmp_path, FUNCTIONS)
    numpy.save(tmp_path / "a.npy", numpy.arange(3.0))
    array, rule = Artifact(str(tmp_path / "a.npy"), "d"), Conversion(Fraction(10), Fraction(1))
    _, found = called(tmp_path, "own:typed", {"x": rule}, inputs={"x": array})
    assert found["x"].tolist() == [1.0, 11.0, 21.0]
    with pytest.raises(
        ModuleError, match="input 'p' is a file in other units, and the function takes its path"
    ):
        called(tmp_path, "own:typed", {"p": rule}, inputs={"p": array})


def test_all_frames_of_files_are_one_list_unless_each_file_has_a_place(tmp_path: Path) -> None:
    pytest.importorskip("ase")
    own(tmp_path, "import ase\ndef f(s: list[ase.Atoms | None], x: list = None, m: dict = None): ...\n")
    for count in (1, 2):
        (tmp_path / f"{count}.extxyz").write_text("1\n\nH 0 0 0\n" * count)
    one, two = (Artifact(str(tmp_path / f"{count}.extxyz"), "d") for count in (1, 2))

    def frames(**given: Any) -> list[int | None]:
        (found,) = (called(tmp_path, "own:f", inputs=given)[1]["s"],)
        return [None if atoms is None else len(atoms) for atoms in found]

    assert frames(s=[one, two]) == frames(s=[one, two], x=[1]) == [1, 1, 1]
    assert frames(s=[one, None, one], x=[1, 2, 3]) == [1, None, 1]
    for given in ({"s": [one, two], "x": [1, 2]}, {"s": [one, two], "m": {"x": [1, 2]}}, {"s": [None, two]}):
        with pytest.raises(ModuleError, match=r"2.extxyz has 2 frames, and each file needs one place"):
            frames(**given)


@pytest.mark.parametrize("annotation", ["bool", "float", "int", "dict", "list[float]", "float | None"])
def test_a_file_is_no_number_and_no_mapping(tmp_path: Path, annotation: str) -> None:
    own(tmp_path, f"def report(made: {annotation}): ...\n")
    file = Artifact(str(tmp_path / "made.npy"), "digest")
    several = annotation.startswith("list")
    found = "a list of files" if several else "a file \\(made.npy\\)"
    with pytest.raises(
        ModuleError, match=f"parameter 'made' of 'report': expected .*, found {found}; annotate"
    ):
        called(tmp_path, "own:report", inputs={"made": [file] if several else file})
