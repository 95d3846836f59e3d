"""Packages that modules import are looked for before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

MODULE = """
    {line}
    import helper
    from simulation import heat
    try:
        import perhaps
    except ImportError:
        perhaps = None

    @diel.module(kind="training")
    def fit(x: float = 1.0) -> dict[str, float]:
        import within
        return {{"y": x}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path).module("helper", "").module("simulation", "heat = 1")
    return project.workflow("""
        stages:
          simulate: {command: [echo, hello]}
          fit: {module: "train:fit", after: [simulate]}
    """)


@pytest.mark.parametrize(
    ("line", "package", "hint"),
    [
        ("import no_such_package.inner as one", "no_such_package", "pip install 'no_such_package'"),
        ("from no_such_package.inner import one", "no_such_package", "pip install 'no_such_package'"),
    ],
)
def test_a_package_that_is_not_here_is_told_before_anything_runs(
    project: Project, line: str, package: str, hint: str
) -> None:
    project.module("train", MODULE.format(line=line))
    for command in ("plan", "run"):
        said = project.diel(command, "flow.yaml", code=2)
        assert f"stages.fit.module: train.py imports '{package}', which is not installed here" in said
        assert hint in said
    assert not (project.folder / "runs").exists()
    project.diel("validate", "flow.yaml")  # it may run elsewhere


def test_a_file_that_imports_a_package_of_its_own_name_means_the_package(project: Project) -> None:
    project.module("no_such_code", "import no_such_code\ndef run() -> int:\n    return 1\n")
    project.workflow('stages: {fit: {module: "no_such_code:run"}}')
    assert "imports 'no_such_code', which is not installed" in project.diel("plan", "flow.yaml", code=2)


@pytest.mark.parametrize(
    "line", ["import json", "import xml.dom", "import sys; sys.path.append('x'); import no_such"]
)
def test_what_is_here_beside_it_tried_or_on_a_path_of_its_own_is_no_mistake(
    project: Project, line: str
) -> None:
    project.module("train", MODULE.format(line=line))
    project.diel("plan", "flow.yaml")


def test_another_python_has_packages_of_its_own(project: Project) -> None:
    project.module("train", MODULE.format(line="import no_such_package"))
    text = (
        (project.folder / "flow.yaml")
        .read_text()
        .replace('"train:fit"', '"train:fit", env: {PYTHONPATH: /x}')
    )
    (project.folder / "flow.yaml").write_text(text)
    project.diel("plan", "flow.yaml")
