"""A run in somebody's process leaves that as it was: a notebook goes on after it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

WORKFLOW = """
diel: 1
name: guest
stages: {print: {command: "true"}}
"""
HOST = """
import atexit, json, logging, os, signal, sys, threading
{before}
def state():
    import multiprocessing
    log = logging.getLogger("parsl")
    return {{
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "umask": [os.umask(0o22), os.umask(0o22)][1],
        "raise": logging.raiseExceptions,
        "levels": [logging.root.level, logging.root.manager.disable, log.level, len(logging.root.handlers)],
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "hooks": [str(sys.excepthook), str(threading.excepthook), str(sys.unraisablehook), str(sys.meta_path)],
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "children": len(__import__("psutil").Process().children()),
        "start method": str(multiprocessing.get_context),
        "files": len(os.listdir("/proc/self/fd")),
    }}

def blocks():  # what a run in blocks does besides
    from diel.backends.executors.parsl import BlockEngine
    from diel.base.paths import RunPaths
    BlockEngine(RunPaths(run.dir), ["127.0.0.1"], None).stop()

import diel
import importlib
os.environ.pop("DIEL_RUN_DIR", None)
importlib.import_module("psutil")
before = state()
run = diel.run("guest.yaml")
blocks()
after = state()
assert run.state == "succeeded", run.state
print(json.dumps([before, after]))
"""


def host(folder: Path, before: str = "") -> tuple[dict[str, object], dict[str, object]]:
    """The state of a process before and after a run in it."""
    (folder / "guest.yaml").write_text(WORKFLOW)
    done = subprocess.run(
        [sys.executable, "-c", HOST.format(before=before)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, then = json.loads(done.stdout)
    return first, then


def test_a_process_is_after_a_run_as_it_was_before(tmp_path: Path) -> None:
    before, after = host(tmp_path)
    assert after == before


def test_who_listens_to_all_logs_hears_nothing_of_parsl(tmp_path: Path) -> None:
    listens = "logging.basicConfig(level=logging.DEBUG, filename='log')"
    before, after = host(tmp_path, listens)
    assert after == before
    assert "parsl" not in (tmp_path / "log").read_text()


CHILD = """
import subprocess, threading, time
from pathlib import Path
import diel

children = []

def other_work():
    while not list(Path().glob("runs/*/tasks/wait/0/begun")):
        time.sleep(0.01)
    children.append(subprocess.Popen(["sleep", "60"]))
    Path("go").touch()

thread = threading.Thread(target=other_work)
thread.start()
run = diel.run("guest.yaml")
thread.join()
print(run.state, children[0].poll())
children[0].kill()
"""


def test_what_the_host_starts_during_a_run_is_none_of_the_runs_processes(tmp_path: Path) -> None:
    command = f"touch begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    (tmp_path / "guest.yaml").write_text(
        f"diel: 1\nname: g\nstages: {{wait: {{command: {json.dumps(command)}}}}}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("succeeded None\n", "")
