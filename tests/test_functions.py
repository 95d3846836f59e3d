"""Any function is a module: of a library, of Python itself, of a file beside the workflow, undecorated."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.throwaway import Project

FLOW = """
axes:
  x: {values: [4, 9]}
stages:
  root: {module: "math:sqrt", over: [x]}
  mean: {module: "statistics:mean", inputs: {data: root.result}, outputs: {middle: {}}}
  length: {module: "math:hypot", params: {a: 3, b: "${{ mean.middle * 1.6 }}"}}
  grid: {module: "numpy:linspace", params: {start: 0, stop: 1, num: 5}}
  noise: {module: "own:line", inputs: {xs: grid.result}, params: {offset: 1}}
  fit: {module: "scipy.stats:linregress", inputs: {x: grid.result, y: noise.ys}}
  counted: {module: "numpy:histogram", inputs: {a: noise.ys}, params: {bins: 2}, outputs: {counts: {}, edges: {}}}
  joined: {module: "os.path:join", params: {a: "${{ str(fit.slope) }}", p: [b, c]}}
  bare: {module: plain, inputs: {counts: counted.counts}, kind: simulation}
  best: {module: "own:best", outputs: {x: {}, fun: {finite: true}}}
"""
OWN = """
from __future__ import annotations

import helper

def line(xs, offset=0):
    return {"ys": helper.double(xs) + offset}

def best() -> dict:
    return {"x": [1.0], "fun": 0.5, "solver": object()}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path).workflow(FLOW)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "plain.py").write_text(
        "def _inner(x): ...\n\ndef plain(counts):\n    return int(counts.sum())\n"
    )
    return project


def test_functions_of_libraries_and_of_a_file_run_without_glue(project: Project) -> None:
    run = project.run()
    assert run.values("root", "result") == [2.0, 3.0]
    assert run.value("mean", "middle") == 2.5
    assert run.value("length", "result") == 5.0
    assert run.value("fit", "slope") == pytest.approx(2)
    assert run.value("fit", "intercept_stderr") == pytest.approx(0)
    assert run.value("joined", "result").endswith("/b/c")
    assert run.value("bare", "result") == 5
    assert run.artifact("counted", "edges").name == "edges.npy"
    assert run.value("best", "fun") == 0.5
    # another directory, and nothing in PYTHONPATH: the file is found beside the workflow again
    elsewhere = Project(project.folder / "elsewhere")
    said = elsewhere.diel("run", "../flow.yaml", "--quiet")
    assert "succeeded" in said


def test_a_file_beside_the_workflow_is_found_by_resume_and_does_not_hide_pythons_own(tmp_path: Path) -> None:
    mine, project = tmp_path / "mine.py", Project(tmp_path / "elsewhere")
    (tmp_path / "flow.yaml").write_text(
        "diel: 1\nname: flow\nstages:\n"
        "  a: {module: 'mine:go', params: {limit: 2}}\n"
        "  b: {module: 'kit:fit', params: {x: 1}}\n"
    )
    (tmp_path / "random.py").write_text("raise SystemExit('hidden')\n")
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "__init__.py").write_text("from .core import fit\n")
    (tmp_path / "kit" / "core.py").write_text("def fit(x):\n    return [x]\n")
    mine.write_text("import random\ndef go(limit):\n    raise ValueError('not yet')\n")
    assert "not yet" in project.diel("run", "../flow.yaml", code=1)
    mine.write_text("import random\ndef go(limit):\n    return random.Random(1).random() < limit\n")
    assert "/mine.py: its content is another (read by a)" in project.diel("resume", "last", code=2)
    project.diel("resume", "last", "--update")
    assert (project.newest().value("a", "result"), project.newest().value("b", "result")) == (True, [1])


def test_a_file_of_the_user_that_hides_a_package_is_named_where_a_part_of_that_is_missing(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path).workflow(
        """
        stages:
          a: {module: "top:go"}
          b: {module: "inside:go"}
          c: {module: "inside:attribute"}
          d: {module: "inside:caught"}
          e: {module: "inside:other"}
        """
    )
    (tmp_path / "sklearn.py").write_text("from sklearn.base import clone\n")
    (tmp_path / "scipy.py").write_text("import math\n")
    (tmp_path / "top.py").write_text("import sklearn\ndef go(): ...\n")
    (tmp_path / "inside.py").write_text(
        "import scipy\n"
        "def go():\n    import scipy.optimize\n"
        "def attribute():\n    return scipy.optimize\n"
        "def other():\n    return scipy.math.none\n"
        "def caught():\n"
        "    try:\n        from scipy import optimize\n"
        "    except ImportError:\n        raise RuntimeError('no minimizer')\n"
    )
    run = project.run(code=1)
    messages = {record["stage"]: record["message"] for record in run.records("fail")}
    for stage, hidden in {"a": "sklearn", "b": "scipy", "c": "scipy", "d": "scipy"}.items():
        assert f"{tmp_path}/{hidden}.py hides the package " in messages[stage]
        assert f"/site-packages/{hidden}/__init__.py: give it another name" in messages[stage]
        assert "; install" not in messages[stage]
    assert "hides" not in messages["e"]


def test_what_lies_in_a_zip_is_imported_as_python_does_and_counts_for_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `sys.path` of a function's file, or PYTHONPATH; also a part of a package in two places."""

    def pack(number: int) -> None:
        with ZipFile(tmp_path / "parts.zip", "w") as file:
            file.writestr("plain.py", f"size = {number}\n")
            file.writestr("apart/", "")  # a folder that a zip does not list is no part of a package
            file.writestr("apart/second.py", f"from apart.first import size\nsecond = size + {number}\n")
            file.writestr("whole/__init__.py", "")
            file.writestr("whole/inner.py", f"def go():\n    return {number}\n")

    pack(1)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "parts.zip"))
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart/first.py").write_text("size = 10\n")
    (tmp_path / "mine.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        "sys.path.append(str(Path(__file__).parent / 'parts.zip'))\n"
        "import plain\nfrom apart.second import second\n"
        "def go():\n    from whole import inner\n    return [plain.size, second, inner.go()]\n"
    )
    project = Project(tmp_path).workflow(
        """
        stages:
          a: {module: "mine:go"}
          b: {module: "whole.inner:go"}
        """
    )

    def results() -> tuple[object, object]:
        run = project.run()
        return run.value("a", "result"), run.value("b", "result")

    assert results() == ([1, 11, 1], 1)
    assert results() == ([1, 11, 1], 1)
    assert project.newest().counts("a") == project.newest().counts("b") == {"cached": 1}
    pack(2)
    assert results() == ([2, 12, 2], 2)


def test_what_is_wrong_is_told_at_its_place_before_anything_runs(project: Project) -> None:
    project.workflow(
        """
        stages:
          a: {module: "scipy.stats:linregres", params: {x: [1], y: [1]}}
          b: {module: "statistics:mean", params: {dat: [1]}}
          c: {module: "own:line", params: {xs: 1}}
          d: {module: "own:_private"}
          e: {command: [echo, "${{ c.result }}", "${{ f.other }}"]}
          f: {module: "own:typed"}
          g: {module: "no_such_package:go"}
        """
    )
    (project.folder / "own.py").write_text(OWN + "\ndef typed() -> float: ...\n")
    said = project.diel("validate", "flow.yaml", code=2)
    assert (
        "5:15: stages.a.module: module 'scipy.stats:linregres': 'scipy.stats' has no function 'linregres'"
        in said
    )
    assert "did you mean 'linregress'?" in said
    assert "'mean' has no parameter 'dat'" in said
    assert "'_private' is private" in said
    assert "'f' makes no output 'other'" in said
    assert "is it installed, or on PYTHONPATH?" in said
    assert "stages.c" not in said


def test_objects_of_the_modules_own_classes_end_as_plain_values(tmp_path: Path) -> None:
    """Also in the message of an error: whoever reads them has no such class."""
    project = Project(tmp_path).workflow("""
        axes: {x: {range: 2}}
        stages:
          phase: {over: [x], module: "own:phase"}
          error: {over: [x], module: "own:error"}
          after: {over: [x], module: "own:after", inputs: {v: phase.v, level: phase.level}}
        """)
    (tmp_path / "own.py").write_text("""
import enum

class Phase(enum.StrEnum):
    SOLID = "solid"

class Level(enum.IntEnum):
    LOW = 1

class Name(str):
    def __str__(self):
        return self

class Wrong(Exception):
    def __str__(self):
        return Name("it is wrong")

def phase(x):
    return {"level": Level.LOW, "v": Phase.SOLID}

def error(x):
    raise Wrong()

def after(v: str, level: int):
    return {"v": v + "s" * level}
""")
    run = project.run(code=1)
    assert run.values("phase", "level") == [1, 1]
    assert run.values("after", "v") == ["solids", "solids"]
    assert run.failure("error")["message"] == "Wrong: it is wrong"
