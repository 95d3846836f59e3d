"""A tied process ends with its parent."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.descendants import Living, alive
from tests.throwaway import wait_for

MODULE = "import sys, time\nprint(*sys.argv[1:], flush=True)\ntime.sleep(600)\n"
PARENT = (
    "import os, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-m', 'diel.executors.script', 'tied', str(os.getpid()), 'tied', 'a', '--b'])\n"
    "print(child.pid, flush=True)\ntime.sleep(600)"
)


def test_a_tied_module_runs_with_its_arguments_and_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "tied.py").write_text(MODULE)
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as said:
        child = psutil.Process(int(said.readline()))
        assert said.readline() == "a --b\n"
        parent.kill()
        parent.wait()
        wait_for(lambda: not alive(child))


def test_nothing_outlives_a_parent_that_is_killed_while_a_tied_module_starts(
    tmp_path: Path, living: Living
) -> None:
    """At many moments: it used to look for its parent only after slow imports."""
    (tmp_path / "tied.py").write_text(MODULE)
    for moment in range(12):
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout is not None
        with parent.stdout as said:
            said.readline()
            time.sleep(moment * 0.03)
            parent.kill()
            parent.wait()
    wait_for(lambda: not living())
