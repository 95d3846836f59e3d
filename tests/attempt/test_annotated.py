"""What a function is called with is of the types that its annotations say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.attempt.annotated import hold_arguments
from diel.errors import ModuleError
from diel.modules.catalogue import find, load_function
from tests.throwaway import Project

HEAD = """
import enum
from typing import Annotated, Literal, Optional
import numpy
from pydantic import Field
from kinds import Size
class Mode(enum.Enum):
    FAST = "fast"
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
    ("dict[str, float]", {"a": 1}),
    ("Literal['fast', 2]", 2),
    ("Literal[True, 2]", True),
    ("list[Literal['fast', 2, None]]", ["fast", 2, None]),
    ("Mode", "fast"),
    ("Size", 8),
    ("Optional[Size]", None),
    ("list[Size]", [8, 100]),
    ("numpy.ndarray", [1]),
    ("NoSuchName", 5),
    ("complex | str", "1"),
    ("'Size'", 99),
]
MISFITS: list[tuple[str, Any, str]] = [
    ("int", "9", 'expected a whole number, found "9"'),
    ("int", 8.5, "expected a whole number, found 8.5"),
    ("int", 8.0, "expected a whole number, found 8.0"),
    ("int", True, "expected a whole number, found true"),
    ("int", None, "expected a whole number, found null"),
    ("float", "1e3", 'expected a number, found "1e3"'),
    ("float", False, "expected a number, found false"),
    ("bool", 1, "expected true or false, found 1"),
    ("str", 7, "expected a text, found 7"),
    ("int | None", "", 'expected a whole number or null, found ""'),
    ("list[int]", [1, 2.5], "expected a whole number, found 2.5 in [1, 2.5]"),
    ("list[float]", 1.5, "expected a list, found 1.5"),
    ("dict[str, list[int]]", {"a": ["1"]}, 'expected a whole number, found "1"'),
    ("tuple[int, int]", [1], "expected more items"),
    ("Size", 200, "expected at most 100, found 200"),
    ("Size", "16", 'expected a whole number, found "16"'),
    ("list[Size]", [8, 7], "expected at least 8, found 7 in [8, 7]"),
    ("Literal['fast', 2]", "slow", "expected 'fast' or 2, found \"slow\""),
    ("Literal['fast', 1]", True, "expected 'fast' or 1, found true"),
    ("Literal['fast', 1]", 1.0, "expected 'fast' or 1, found 1.0"),
    ("dict[str, Literal[1] | None]", {"a": True}, 'expected 1, found true in {"a": true}'),
    ("Mode", "slow", "expected 'fast', found \"slow\""),
]


def hold(folder: Path, annotation: str, value: Any) -> None:
    modules = folder / "modules"
    modules.mkdir()
    (modules / "kinds.py").write_text(OTHER)
    (modules / "one.py").write_text(f"{HEAD}\ndef f(x: {annotation}) -> dict:\n    return {{}}\n")
    if "NoSuchName" in annotation:  # only a type checker sees it
        (modules / "one.py").write_text(
            f"from __future__ import annotations\n{(modules / 'one.py').read_text()}"
        )
    module = find("one:f", (modules,))
    hold_arguments(load_function(module), module.signature, {"x": value})


@pytest.mark.parametrize(("annotation", "value"), FITS)
def test_what_fits_is_let_through(tmp_path: Path, annotation: str, value: Any) -> None:
    hold(tmp_path, annotation, value)


@pytest.mark.parametrize(("annotation", "value", "told"), MISFITS)
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
