"""Workers of each pool look for imports until one of them has answered."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest

from diel.attempt.bundle import Bundle, Work
from diel.blocks.imports import Imports
from diel.check import check
from diel.plan import make_plan
from diel.site import Site

POOL = {"cores": 4, "nodes": 1}
SITE = Site.model_validate({"name": "here", "scheduler": "slurm", "pools": {"cpu": POOL, "fast": POOL}})
MODULE = (
    "import diel, {name}\n\n@diel.module(kind='analysis')\ndef work() -> dict[str, int]:\n    return {{}}\n"
)


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    """Two pools, each with a module of its own, and a stage in an environment."""
    folder = tmp_path / "modules"
    folder.mkdir()
    for name in ("one", "two", "three"):
        (folder / f"{name}.py").write_text(MODULE.format(name=f"needs_{name}"), encoding="utf-8")
    text = """
environments: {own: {variables: {A: b}}}
stages:
  simulate: {command: [x], resources: {pool: cpu}}
  one: {module: "one:work", resources: {pool: cpu}}
  two: {module: "two:work", resources: {pool: fast}}
  three: {module: "three:work", environment: own, resources: {pool: fast}}
"""
    return Imports(make_plan(check(tmp_path / "w.yaml", text=f"diel: 1\nname: w\n{text}"), SITE))


def asked(imports: Imports, pool: str) -> tuple[str, ...]:
    work = Work("simulate", None, {}, None, (), 1)
    return imports.ask(pool, Bundle(1, "", 1, work, (), 1.0)).imports


def test_a_pool_is_asked_for_what_all_of_its_stages_import_until_a_worker_has_answered(
    imports: Imports,
) -> None:
    assert asked(imports, "cpu") == ("diel", "needs_one")
    lost, answered = Future[bytes](), Future[bytes]()
    for future in (lost, answered):
        imports.note("cpu", future)
    lost.set_exception(OSError("its block is gone"))
    assert asked(imports, "cpu") == ("diel", "needs_one")
    answered.set_result(b"")
    assert asked(imports, "cpu") == ()
    assert asked(imports, "fast") == ("diel", "needs_two")  # another environment has packages of its own
