"""What a run did not find when it began, it does not find later: files that appear mix no two versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

FLOW = """
    axes: {n: {range: 3}}
    stages:
      edit: {command: 'sh $DIEL_RUN_DIR/../../edit.sh'}
      work: {over: [n], module: MODULE, after: [edit], params: {n: "${{ n }}"}}
"""
OPTIONAL = """
try:
    FAST
except ImportError:
    V = 1
from pathlib import Path


def run(n: int) -> dict:
    if n == 1 and not Path(__file__).parents[DEPTH].joinpath("go").exists():
        raise ValueError("not yet")
    return {"v": V}
"""
WITHIN = """
import importlib
from pathlib import Path


def run(n: int) -> dict:
    try:
        V = FAST
    except ImportError:
        V = 1
    if n == 1 and not Path(__file__).parents[DEPTH].joinpath("go").exists():
        raise ValueError("not yet")
    return {"v": V}
"""
IMPORTS = "from fast import V"
APPEARING = {
    "before another": ("heat.lab:run", OPTIONAL, IMPORTS, {"modules/fast.py": "V = 1\n"}, "modules/heat/fast.py"),
    "a package": ("heat.lab:run", OPTIONAL, IMPORTS, {"modules/fast.py": "V = 1\n"}, "modules/heat/fast/__init__.py"),
    "optional": ("heat.lab:run", OPTIONAL, IMPORTS, {}, "modules/fast.py"),
    "optional beside": ("lab:run", OPTIONAL, IMPORTS, {}, "fast.py"),
    "of a helper": ("lab:run", OPTIONAL, "from slow import V", {"slow.py": "from fast import V\n"}, "fast.py"),
    "of a package": ("pk.lab:run", OPTIONAL, "from .fast import V", {"pk/__init__.py": ""}, "pk/fast.py"),
    "by a name": ("lab:run", WITHIN, 'importlib.import_module("fa" + "st").V', {}, "fast.py"),
    "by another name": (
        "lab:run",
        "from importlib import import_module as load\n" + WITHIN,
        'load("fa" + "st").V',
        {},
        "fast.py",
    ),
    "by code": ("lab:run", WITHIN, '(exec("import fast") or __import__("sys").modules["fast"].V)', {}, "fast.py"),
}  # fmt: skip


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def laid_out(folder: Path, case: str) -> tuple[Project, Path]:
    reference, text, imports, files, name = APPEARING[case]
    project = Project(folder).workflow(FLOW.replace("MODULE", f'"{reference}"'))
    below = "lab.py" if reference == "lab:run" else f"{reference.partition(':')[0].replace('.', '/')}.py"
    path = folder / "modules" / below if reference.startswith("heat") else folder / below
    depth = len(path.relative_to(folder).parts) - 1
    write(path, text.replace("FAST", imports).replace("DEPTH", str(depth)))
    for other, content in files.items():
        write(folder / other, content)
    write(folder / "edit.sh", "true\n")
    return project, folder / name


@pytest.mark.parametrize("case", APPEARING)
def test_a_file_that_appears_in_mid_run_is_not_found(tmp_path: Path, case: str) -> None:
    project, path = laid_out(tmp_path, case)
    write(tmp_path / "go", "")
    write(tmp_path / "edit.sh", f"mkdir -p {path.parent}; echo 'V = 2' > {path}\n")
    run = project.run("--no-cache")
    assert run.values("work", "v") == [1, 1, 1]
    assert project.run().values("work", "v") == [2, 2, 2]


@pytest.mark.parametrize("case", APPEARING)
def test_a_file_that_appeared_is_named_by_resume(tmp_path: Path, case: str) -> None:
    project, path = laid_out(tmp_path, case)
    run = project.run(code=1)
    write(path, "V = 2\n")
    write(tmp_path / "go", "")
    said = project.diel("resume", run.id, code=2)
    assert f"{path}: it is new (read by work)" in said
    assert "computes again work/0,2 (2 finished tasks" in said
    project.diel("resume", run.id, "--update")
    newest = {record["index"]: record["values"]["v"] for record in run.records("done", "work")}
    assert newest == {0: 2, 1: 2, 2: 2}


LIBRARY = {
    "modules": ("lab:run", {"modules/lab.py": "import power\ndef run(n: int): return {'v': power.of(n)}\n"}),
    "beside": ("lab:run", {"lab.py": "from power import of\ndef run(n: int): return {'v': of(n)}\n"}),
    "found by it": ("power:run", {"lib/power.py": "def of(n): return n**2\ndef run(n: int): return {'v': of(n)}\n"}),
}  # fmt: skip
SWEEP = """
    axes: {n: {range: 4}}
    stages:
      edit: {command: 'sh $DIEL_RUN_DIR/../../edit.sh'}
      work: {over: [n], module: "MODULE", after: [edit], params: {n: "${{ n }}"}}
      last: {after: [work], module: "MODULE", params: {n: 3}}
"""


@pytest.mark.parametrize("case", LIBRARY)
def test_a_helper_below_the_folder_counts_however_it_is_found(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, files = LIBRARY[case]
    project = Project(tmp_path).workflow(SWEEP.replace("MODULE", reference))
    write(tmp_path / "edit.sh", "true\n")
    for name, text in {"lib/power.py": "def of(n): return n**2\n", **files}.items():
        write(tmp_path / name, text)
    write(tmp_path / "other/power.py", (tmp_path / "lib/power.py").read_text().replace("**2", "**4"))
    monkeypatch.setenv("PYTHONPATH", "lib")
    assert project.run().values("work", "v") == [0, 1, 4, 9]
    write(tmp_path / "edit.sh", f"sed -i 's/[*][*]2/**3/' {tmp_path}/lib/power.py; test -e {tmp_path}/go\n")
    run = project.run("--no-cache", code=1)
    write(tmp_path / "go", "")
    assert f"{tmp_path}/lib/power.py" in project.diel("resume", run.id, code=2)
    assert project.run().values("work", "v") == [0, 1, 8, 27]
    (tmp_path / "go").unlink()
    run = project.run("--no-cache", code=1)
    monkeypatch.setenv("PYTHONPATH", "other")
    write(tmp_path / "go", "")
    said = project.diel("resume", run.id, code=2)
    assert f"PYTHONPATH is '{tmp_path}/other', and was '{tmp_path}/lib'" in said
    monkeypatch.setenv("PYTHONPATH", "lib")
    project.diel("resume", run.id)
    assert run.values("work", "v") == [0, 1, 8, 27]


def test_explain_names_the_helper_that_changed(tmp_path: Path) -> None:
    project, _ = laid_out(tmp_path, "of a helper")
    write(tmp_path / "go", "")
    write(tmp_path / "slow.py", "V = 3\n")
    project.run()
    write(tmp_path / "slow.py", "V = 4\n")
    project.run()
    assert f"the source of module 'lab:run' changed ({tmp_path}/slow.py)" in project.diel("explain", "work")
