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


NAMED = """
import os, subprocess, sys
from pathlib import Path
HERE = Path(__file__).parent


def run() -> dict:
    FIRST
    return {"v": int(subprocess.run(WORDS, capture_output=True, check=True).stdout)}
"""
BY_NAME = {
    "perl": ("part.pl", "print 1", '["perl", str(HERE / "part.pl")]'),
    "awk": ("part.awk", "BEGIN { print 1 }", '["awk", "-f", str(HERE / "part.awk")]'),
    "make": ("Rules", "all:\n\t@echo 1\n", '["make", "-s", f"--file={HERE}/Rules"]'),
    "input": ("in.melt", "1\n", '["cat", os.path.relpath(HERE / "in.melt")]'),
    "relative": ("part", "#!/bin/sh\necho 1\n", '[os.path.relpath(HERE / "part")]'),
    "relative of Python": ("part.py", "print(1)\n", '[sys.executable, os.path.relpath(HERE / "part.py")]'),
    "link": ("part", "#!/bin/sh\necho 1\n", '["./it"]'),
    "link to a folder": ("part.py", "print(1)\n", '[sys.executable, "here/part.py"]'),
}


@pytest.mark.parametrize("way", BY_NAME)
def test_what_a_process_is_told_to_read_belongs_to_the_result(tmp_path: Path, way: str) -> None:
    name, text, words = BY_NAME[way]
    links = f'os.symlink(HERE / "{name}", "it"); os.symlink(HERE, "here")'
    project = Project(tmp_path).workflow('stages: {only: {module: "lab:run"}}')
    (tmp_path / "lab.py").write_text(NAMED.replace("FIRST", links).replace("WORDS", words))
    for value, state in [(1, "done"), (1, "cached"), (2, "done"), (2, "cached")]:
        (tmp_path / name).write_text(text.replace("1", str(value)))
        (tmp_path / name).chmod(0o755 if text[0] == "#" else 0o644)
        run = project.run()
        assert (run.counts("only"), run.values("only", "v")) == ({state: 1}, [value])


def test_what_a_process_writes_is_no_source(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow('stages: {only: {module: "lab:run"}}')
    words = '["sh", "-c", f"date +%N >> {HERE}/log; date > {HERE}/x; cp {HERE}/x {HERE}/copy; echo 1"]'
    (tmp_path / "lab.py").write_text(NAMED.replace("FIRST", "pass").replace("WORDS", words))
    for _ in range(3):
        assert project.run("--no-cache").values("only", "v") == [1]


SERVICE = """
import os, runpy, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
import diel
MODEL = str(Path(__file__).with_name("model.py"))


def model() -> str:
    WAY


KEPT = model()


@diel.module(kind="inference")
def serve(context: diel.Context) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write((ANSWER).encode())

        def log_message(self, *words):
            pass

    HTTPServer((context.service_host, context.service_port), Handler).serve_forever()

"""
ASKING = """
from pathlib import Path
import diel


@diel.module(kind="inference")
def ask(context: diel.Context) -> dict:
    if (Path(__file__).parent / "broken").exists():
        raise ValueError("broken")
    return {"v": int(context.service("pot").get("/"))}
"""
ASK = """
    stages:
      pot: {module: "lab:serve", service: {shared_cores: true}}
      first: {services: [pot], module: "asking:ask"}
      edit: {after: [first], command: 'sh $DIEL_RUN_DIR/../../edit.sh'}
      again: {services: [pot], after: [edit], module: "asking:ask"}
      command:
        services: [pot]
        after: [edit]
        command: printf '{"v":%s}' "$(curl -s $DIEL_SERVICE_POT_URL)" > "$DIEL_RESULT"
        outputs: {v: {value: int}}
"""
BY_RUNPY = 'return str(runpy.run_path(MODEL)["V"])'
BY_PROCESS = "return subprocess.check_output([sys.executable, MODEL], text=True).strip()"


def service(folder: Path, way: str, answer: str) -> Project:
    (folder / "lab.py").write_text(SERVICE.replace("WAY", way).replace("ANSWER", answer))
    (folder / "asking.py").write_text(ASKING)
    (folder / "model.py").write_text(source("model.py", 1))
    (folder / "edit.sh").write_text("true\n")
    return Project(folder).workflow(ASK)


@pytest.mark.parametrize(("way", "answer"), [(BY_RUNPY, "KEPT"), (BY_PROCESS, "KEPT"), (BY_RUNPY, "model()")])
def test_what_a_service_executes_in_place_belongs_to_its_answers(
    tmp_path: Path, way: str, answer: str
) -> None:
    project = service(tmp_path, way, answer)
    for value, state in [(1, "done"), (1, "cached"), (2, "done"), (2, "cached")]:
        (tmp_path / "model.py").write_text(source("model.py", value))
        run = project.run()
        for stage in ("first", "again", "command"):
            assert (run.counts(stage), run.values(stage, "v")) == ({state: 1}, [value])
    (tmp_path / "edit.sh").write_text(f"echo V = 33 > {tmp_path}/model.py\n")
    run = project.run("--no-cache", code=1)
    assert run.values("first", "v") == [2]
    for stage in ("again", "command"):
        assert run.failure(stage)["class"] == "changed"
        assert f"{tmp_path}/model.py was changed" in run.failure(stage)["message"]


def test_an_edit_of_what_a_service_executed_is_told_at_resume(tmp_path: Path) -> None:
    project = service(tmp_path, BY_RUNPY, "KEPT")
    (tmp_path / "edit.sh").write_text(f"touch {tmp_path}/broken\n")
    run = project.run(code=1)
    (tmp_path / "broken").unlink()
    (tmp_path / "edit.sh").write_text("true\n")
    (tmp_path / "model.py").write_text(source("model.py", 2))
    assert f"{tmp_path}/model.py" in project.diel("resume", run.id, code=2)
    project.diel("resume", run.id, "--update")
    for stage in ("first", "again", "command"):
        assert run.records("done", stage)[-1]["values"]["v"] == 2


NEIGHBOURS = """
import multiprocessing, subprocess, sys
from pathlib import Path
HERE = Path(__file__).parent


def tool() -> dict:
    return {"v": int(subprocess.check_output([sys.executable, str(HERE / "part.py")]))}


def spawn() -> dict:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return {"v": pool.apply(int, ["1"])}


def calm() -> dict:
    return {"v": 1}
"""


def test_what_a_task_executes_is_not_put_down_to_others_of_its_worker(tmp_path: Path) -> None:
    project = (
        Project(tmp_path)
        .machine("one", 1)
        .workflow("""
        axes: {n: {range: 2}}
        stages:
          first: {module: "lab:tool"}
          spawn: {module: "lab:spawn"}
          edit: {after: [first, spawn], command: 'sh $DIEL_RUN_DIR/../../edit.sh'}
          again: {over: [n], after: [edit], module: "lab:tool"}
          beside: {over: [n], after: [edit], module: "lab:calm"}
          calm: {over: [n], after: [edit], module: "calm:calm"}
    """)
    )
    (tmp_path / "lab.py").write_text(NEIGHBOURS)
    (tmp_path / "calm.py").write_text(NEIGHBOURS)
    (tmp_path / "part.py").write_text(source("part.py", 1))
    (tmp_path / "edit.sh").write_text(f"cd {tmp_path}; echo 'print(22)' > part.py; echo '#' >> calm.py\n")
    run = project.run("--site", "one", code=1)
    assert run.counts("again") == {"failed": 2}
    assert run.values("beside", "v") == run.values("calm", "v") == [1, 1]
