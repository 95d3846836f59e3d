"""What a function executes from where it lies is of one version in a run, or its task fails as `changed`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

FLOW = """
    axes: {n: {range: 2}}
    stages:
      first: {over: [n], module: "lab:run", params: {n: "${{ n }}"}}
      edit: {after: [first], command: 'sh $DIEL_RUN_DIR/../../edit.sh'}
      again: {over: [n], after: [edit], module: "lab:run", isolation: ISOLATION, params: {n: "${{ n }}"}}
"""
LAB = """
import importlib.machinery, importlib.util, runpy, subprocess, sys
from pathlib import Path
FILE = str(Path(__file__).with_name("NAME"))


def run(n: int) -> dict:
    WAY
    return {"v": V}
"""
MODULE = "m = importlib.util.module_from_spec(s); s.loader.exec_module(m); V = m.V"
LOADER = (
    f's = importlib.util.spec_from_loader("p", importlib.machinery.SourceFileLoader("p", FILE)); {MODULE}'
)
WAYS = {
    "runpy": ("part.py", 'V = runpy.run_path(FILE)["V"]'),
    "exec": ("part.py", 'names = {}; exec(Path(FILE).read_text(), names); V = names["V"]'),
    "location": ("part.py", f's = importlib.util.spec_from_file_location("p", FILE); {MODULE}'),
    "loader": ("part.py", LOADER),
    "no suffix": ("part.conf", LOADER),
    "process": (
        "part.py",
        "V = int(subprocess.run([sys.executable, FILE], capture_output=True, check=True).stdout)",
    ),
}


def laid_out(folder: Path, way: str, isolation: str) -> tuple[Project, Path]:
    name, text = WAYS[way]
    project = Project(folder).workflow(FLOW.replace("isolation: ISOLATION, ", isolation))
    (folder / "lab.py").write_text(LAB.replace("NAME", name).replace("WAY", text))
    (folder / name).write_text("V = 1\nprint(V)\n")
    (folder / "edit.sh").write_text("true\n")
    return project, folder / name


@pytest.mark.parametrize("isolation", ["", "isolation: process, "])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_executed_in_place_is_one_version_or_fails(tmp_path: Path, way: str, isolation: str) -> None:
    project, path = laid_out(tmp_path, way, isolation)
    (tmp_path / "edit.sh").write_text(f"printf 'V = 22\\nprint(V)\\n' > {path}\n")
    run = project.run("--no-cache", code=1)
    assert run.values("first", "v") == [1, 1]
    assert run.failure("again")["class"] == "changed"
    assert str(path) in run.failure("again")["message"]
    assert str(path) in project.diel("resume", run.id, code=2)
    (tmp_path / "edit.sh").write_text("true\n")
    assert project.run().values("again", "v") == [22, 22]
    path.write_text("V = 333\nprint(V)\n")
    assert project.run().values("again", "v") == [333, 333]
