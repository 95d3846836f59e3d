"""A service's program ends with the worker that started it, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.descendants import gone
from tests.throwaway import wait_for

PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "diel.worker.die_with_parent", str(os.getpid()), *sys.argv[2:]], process_group=0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("deaf", [False, True])
def test_it_ends_with_its_parent_also_where_it_ignores_sigterm(tmp_path: Path, deaf: bool) -> None:
    file = tmp_path / "pid"
    trap = "trap '' TERM; " if deaf else ""
    script = f"{trap}echo $$ > {file}.part; mv {file}.part {file}; while :; do sleep 1; done"
    subprocess.run([sys.executable, "-c", PARENT, str(file), "/bin/sh", "-c", script], check=False)
    pid = int(file.read_text())
    wait_for(lambda: gone(pid))


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$", 128 + 9), ("exit 0", 0)])
def test_it_ends_as_the_program_does(script: str, code: int) -> None:
    words = [sys.executable, "-m", "diel.worker.die_with_parent", str(os.getpid()), "/bin/sh", "-c", script]
    assert subprocess.run(words, check=False, process_group=0).returncode == code


def test_a_program_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "diel.worker.die_with_parent", str(os.getpid()), str(tmp_path / "none")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 127
    assert "cannot start" in done.stderr
