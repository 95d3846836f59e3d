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
import importlib.machinery, importlib.util, os, runpy, subprocess, sys
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
PYTHON_PATH = '{**os.environ, "PYTHONPATH": os.path.dirname(FILE)}'


def started(words: str) -> str:
    """Text that runs a process and reads what that prints."""
    return f"V = int(subprocess.run({words}, capture_output=True, check=True).stdout)"


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
    "bytes": ("part.py", 'names = {}; exec(open(os.fsencode(FILE)).read(), names); V = names["V"]'),
    "any name": ("part.inc", 'names = {}; exec(open(FILE).read(), names); V = names["V"]'),
    "compiled": (
        "part.inc",
        'names = {}; exec(compile(Path(FILE).read_bytes(), "part", "exec"), names); V = names["V"]',
    ),
    "bytes in a loader": ("part.conf", LOADER.replace("FILE", "os.fsdecode(os.fsencode(FILE))")),
    "program": ("part", started("[FILE]")),
    "program in a folder": ("part", started('["./part"], cwd=os.path.dirname(FILE)')),
    "program on PATH": ("part", started('["part"], env={"PATH": f"{os.path.dirname(FILE)}:/usr/bin:/bin"}')),
    "script of bash": ("part.bash", started('["bash", FILE]')),
    "shell": ("part.sh", started('f"true; bash {FILE}", shell=True')),
    "system": ("part.sh", 'os.system(f"bash {FILE} > v"); V = int(open("v").read())'),
    "-m": ("part.py", started(f'[sys.executable, "-m", "part"], env={PYTHON_PATH}')),
    "-c": ("part.py", started(f'[sys.executable, "-c", "import part"], env={PYTHON_PATH}')),
    "imported by a process": ("part.py", started('[sys.executable, FILE.replace("part.py", "main.py")]')),
}


def laid_out(folder: Path, way: str, isolation: str) -> tuple[Project, Path]:
    name, text = WAYS[way]
    project = Project(folder).workflow(FLOW.replace("isolation: ISOLATION, ", isolation))
    (folder / "lab.py").write_text(LAB.replace("NAME", name).replace("WAY", text))
    (folder / name).write_text(source(name, 1))
    (folder / name).chmod(0o755)
    (folder / "main.py").write_text("import part\n")
    (folder / "edit.sh").write_text("true\n")
    return project, folder / name


def source(name: str, value: int) -> str:
    is_shell = name in ("part", "part.sh", "part.bash")
    return f"#!/bin/sh\necho {value}\n" if is_shell else f"V = {value}\nprint(V)\n"


@pytest.mark.parametrize("isolation", ["", "isolation: process, "])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_executed_in_place_is_one_version_or_fails(tmp_path: Path, way: str, isolation: str) -> None:
    project, path = laid_out(tmp_path, way, isolation)
    (tmp_path / "new").write_text(source(path.name, 22))
    (tmp_path / "edit.sh").write_text(f"cat {tmp_path}/new > {path}\n")
    run = project.run("--no-cache", code=1)
    assert run.values("first", "v") == [1, 1]
    assert run.failure("again")["class"] == "changed"
    assert str(path) in run.failure("again")["message"]
    assert str(path) in project.diel("resume", run.id, code=2)
    (tmp_path / "edit.sh").write_text("true\n")
    assert project.run().values("again", "v") == [22, 22]
    path.write_text(source(path.name, 333))
    assert project.run().values("again", "v") == [333, 333]
