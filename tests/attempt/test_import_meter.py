"""What a function takes of memory does not depend on what other functions left in its worker."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from tests.throwaway import Project

MIB = 1 << 20
HEAVY = """
import ballast

def heavy(i: int) -> dict:
    return {"v": len(ballast.DATA)}
"""
LIGHT = """
def light(i: int) -> dict:
    return {"v": i}
"""
OWN = """
def lazy(i: int) -> dict:
    import ballast
    return {"v": len(ballast.DATA)}

"""
OTHER = """
kept = []

def keeps(i: int) -> dict:
    kept.append(bytes([1]) * (20 << 20))
    return {"v": len(kept)}
"""
FLOW = """
axes: {i: {range: 2}}
stages:
  before: {module: "light:light", over: [i]}
  heavy: {module: heavy, over: [i], after: [before]}
  after: {module: "light:light", over: [i], after: [heavy], resources: {memory: 80MiB}}
  lazy: {module: "own:lazy", over: [i], after: [heavy]}
  keeps: {module: "other:keeps", after: [lazy], params: {i: 5}}
  last: {module: "light:light", after: [keeps], params: {i: 6}}
"""


def test_a_functions_memory_is_that_of_a_python_with_its_own_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "ballast.py").write_text("DATA = bytes([1]) * (100 << 20)\n")
    project = Project(tmp_path).machine("one", 1).workflow(FLOW)
    for name, text in {"heavy": HEAVY, "light": LIGHT, "own": OWN, "other": OTHER}.items():
        project.module(name, text)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    run = project.run("--site", "one", "--no-cache")
    taken = {
        stage: [record["usage"]["memory_bytes"] / MIB for record in run.records("done", stage)]
        for stage in ("before", "heavy", "after", "lazy", "keeps", "last")
    }
    assert max(taken["before"] + taken["after"] + taken["last"]) < 40, "whatever else is in the worker"
    assert min(taken["heavy"] + taken["lazy"]) > 100, "also where it was there already"
    assert 20 < taken["keeps"][0] < 60


SHY = """
import types


class Shy:
    @property
    def __class__(self):
        raise SystemExit("asked for its class")


class Lazy(types.ModuleType):
    def __getattribute__(self, name):
        raise SystemExit(f"asked for {name}")


class Meta(type):
    def __getattribute__(self, name):
        raise SystemExit(f"asked for {name}")


class Odd(metaclass=Meta):
    pass


shy, lazy = Shy(), Lazy("lazy")


def f() -> dict:
    return {"v": 1}
"""


def test_nothing_that_a_module_holds_is_asked_what_it_is(tmp_path: Path) -> None:
    from diel.worker.attempt.import_meter import _needed

    path = tmp_path / "shy.py"
    path.write_text(SHY)
    module = types.ModuleType("shy_of_a_test")
    module.__file__ = str(path)
    exec(SHY, vars(module))  # noqa: S102 - the file above
    sys.modules[module.__name__] = module
    try:
        assert {"types", "shy_of_a_test"} <= _needed(path, -1)
    finally:
        del sys.modules[module.__name__]
