"""`diel run`: what it enters of diel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

MOST = 88
"""Files of diel that the controller's process of a plain sweep enters; it may only fall.

Two of them are entered only where the machine is slow: what users ask, and why workers are silent.
"""
UNUSED = {"gang", "gangs", "keeping", "publishing", "search", "service", "services", "stream", "streams"}

CODE = """
import json, sys
from tests.entered import entered
from diel.cli import main
def run():
    try:
        main(["run", "workflows/sweep.yaml"])
    except SystemExit as end:
        assert end.code == 0, end.code
json.dump(sorted(entered(run)), open("entered.json", "w"))
"""


def test_a_sweep_is_run_without_entering_what_it_does_not_use(workspace: Path, root: Path) -> None:
    for folder in ("workflows", "modules"):
        shutil.copytree(root / folder, workspace / folder)
    environ = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], check=False, env=environ, cwd=workspace, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    files = json.loads((workspace / "entered.json").read_text())
    assert "controller/controller.py" in files
    assert len(files) <= MOST, files
    assert not [file for file in files if UNUSED & set(Path(file).with_suffix("").parts)]
