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
import asyncio, functools, importlib.machinery, importlib.util, multiprocessing, os, runpy, subprocess, sys
from pathlib import Path
FILE = str(Path(__file__).with_name("NAME"))


def read_from(end: int) -> bytes:
    os.close(end)
    return os.read(end - 1, 9)


def fork_to_call(program, *words):
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(program, words)


@functools.cache
def pool():
    return multiprocessing.get_context("fork").Pool(1)


def fork_to_execute() -> bytes:
    _, end = os.pipe()
    if not (child := os.fork()):
        os.dup2(end, 1)
        os.execv("/bin/sh", ["sh", FILE])
    os.waitpid(child, 0)
    return read_from(end)


async def ask_shell() -> bytes:
    process = await asyncio.create_subprocess_shell(f"bash {FILE}", stdout=subprocess.PIPE)
    return (await process.communicate())[0]


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
    "-m in a folder": ("part.py", started('[sys.executable, "-m", "part"], cwd=os.path.dirname(FILE)')),
    "executable": ("part", started('["it"], executable=FILE')),
    "-c": ("part.py", started(f'[sys.executable, "-c", "import part"], env={PYTHON_PATH}')),
    "bytes of a folder": ("part.sh", started('[b"bash", b"part.sh"], cwd=os.path.dirname(FILE)')),
    "asyncio": ("part.sh", "V = int(asyncio.run(ask_shell()))"),
    "posix_spawn": (
        "part",
        "_, end = os.pipe(); to = [(os.POSIX_SPAWN_DUP2, end, 1)]; "
        "os.waitpid(os.posix_spawn(FILE, ['it'], os.environ, file_actions=to), 0); V = int(read_from(end))",
    ),
    "spawnlp": (
        "part.sh",
        'os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"sh {FILE} > v"); V = int(open("v").read())',
    ),
    "a fork's program": ("part.sh", "V = int(fork_to_execute())"),
    "a pool's process": ("part.sh", 'V = int(fork_to_call(subprocess.check_output, ["bash", FILE]))'),
    "a kept pool's process": ("part.sh", 'V = int(pool().apply(subprocess.check_output, [["bash", FILE]]))'),
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


ELSEWHERE = """
import pickle, subprocess
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from mpi4py import MPI
FILE = str(Path(__file__).with_name("part.sh"))


def execute(_) -> int:
    return 10 * pickle.loads(b"cpart\\nV\\n.") + int(subprocess.check_output(["bash", FILE]))


def in_pool() -> dict:
    with get_context("fork").Pool(1) as pool:
        return {"v": pool.map(execute, [1])[0]}


def on_ranks(comm: "MPI.Comm") -> dict:
    return {"v": max(comm.allgather(execute(1) if comm.Get_rank() == 1 else 0))}
"""


def test_what_forks_and_other_ranks_execute_belongs_to_the_result(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        stages:
          pool: {module: "lab:in_pool"}
          apart: {module: "lab:in_pool", isolation: process}
          ranks: {module: "lab:on_ranks", resources: {ranks: 2}}
    """)
    (tmp_path / "lab.py").write_text(ELSEWHERE)
    for imported, script, state in [
        (1, 1, "done"),
        (1, 1, "cached"),
        (2, 1, "done"),
        (2, 3, "done"),
        (2, 3, "cached"),
    ]:
        (tmp_path / "part.py").write_text(source("part.py", imported))
        (tmp_path / "part.sh").write_text(source("part.sh", script))
        run = project.run()
        for stage in ("pool", "apart", "ranks"):
            assert run.counts(stage) == {state: 1}
            assert run.values(stage, "v") == [10 * imported + script]
        assert not [*run.root.glob("tasks/*/*/.*"), *run.root.glob("sources/.*")]
