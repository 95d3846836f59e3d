"""`diel modules`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.call import call

Capture = pytest.CaptureFixture[str]
FIT = '''
from __future__ import annotations
from pathlib import Path
from typing import Annotated, Literal, TypedDict
from pydantic import Field
import diel

class Fit(TypedDict):
    loss: float
    model: Path

@diel.module(kind="training")
def fit(
    data: list[float],
    context: diel.Context,
    hidden: Annotated[int, Field(ge=1, lt=99)] = 3,
    solver: Literal["adam", "sgd"] = "adam",
) -> Fit:
    """Fits a line. With care.

    data: what to fit,
        in any order
    hidden: units

    See the book: it says how.
    """
    return {}
'''


@pytest.fixture
def fit(workspace: Path) -> Path:
    path = workspace / "modules" / "fit.py"
    path.parent.mkdir()
    path.write_text(FIT)
    return path


def test_the_list_has_own_and_shipped_modules_with_what_they_do(fit: Path, capsys: Capture) -> None:
    said = call(capsys, "modules")
    rows = {line.split()[0]: line for line in said.out.splitlines() if line}
    assert rows["fit"].split() == ["fit", "training", "modules/", "here", "Fits", "a", "line."]
    assert rows["simulation.ising"].split()[1:3] == ["simulation", "diel"]


def test_one_module_tells_its_parameters_with_bounds_defaults_and_meaning(fit: Path, capsys: Capture) -> None:
    lines = call(capsys, "modules", "fit").out.splitlines()
    assert lines[:2] == ["fit  (training, from modules/ here)", "modules/fit.py:13"]
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "data list[float] required\nwhat to fit, in any order" in text
    assert "hidden int, ≥ 1, < 99 default 3\nunits" in text
    assert "solver 'adam' | 'sgd' default \"adam\"" in text
    assert "See the book: it says how." in text
    assert "context" not in text
    assert "returns\nloss float\nmodel Path a file" in text


def test_json_has_the_signature(fit: Path, capsys: Capture) -> None:
    document = json.loads(call(capsys, "modules", "fit", "--json").out)
    assert (document["name"], document["kind"], document["origin"]) == ("fit", "training", "workflow")
    assert document["parameters"][0] == {
        "name": "data",
        "type": "list[float]",
        "required": True,
        "default": None,
        "doc": "what to fit, in any order",
    }
    assert document["returns"] == {"loss": "float", "model": "Path"}
    assert document["artifacts"] == ["model"]
    listed = json.loads(call(capsys, "modules", "--json").out)["modules"]
    assert listed[0]["name"] == "fit"


def test_modules_beside_a_workflow_elsewhere_are_found(workspace: Path, capsys: Capture) -> None:
    place = workspace / "there" / "modules"
    place.mkdir(parents=True)
    (place / "fit.py").write_text(FIT)
    assert call(capsys, "modules", "fit").code == 2
    assert call(capsys, "modules", "fit", "--workflow", "there/w.yaml").code == 0


def test_a_file_that_cannot_be_read_is_told_beside_the_others(fit: Path, capsys: Capture) -> None:
    (fit.parent / "broken.py").write_text("def (")
    said = call(capsys, "modules")
    assert said.code == 0
    assert "fit" in said.out.split()
    assert "broken.py:1:1" in said.err


def test_an_unknown_module_is_told_with_the_nearest(fit: Path, capsys: Capture) -> None:
    said = call(capsys, "modules", "ising")
    assert said.code == 2
    assert "did you mean 'simulation.ising'?" in said.err
