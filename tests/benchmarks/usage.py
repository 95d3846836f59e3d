"""What it costs to count what each attempt uses: the same diel with and without, in turn."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
WITHOUT = """
Usage.reap = lambda self, child: (os.waitpid(child, 0)[1], settle(orphans()))[0]
Usage.begin = Usage.look = Usage.take_ranks = lambda *_: None
Usage.facts = lambda self: None
"""
SWEEP = """\
diel: 1
name: sweep
axes: {{i: {{range: 10000}}}}
stages: {{work: {{over: [i], {}}}}}
"""
MODULE = 'import diel\n\n\n@diel.module(kind="analysis")\ndef noop(i: int) -> dict:\n    return {}\n'


def once(source: Path, folder: Path) -> tuple[float, float]:
    """Wall and processor seconds of a run."""
    env = {**os.environ, "PYTHONPATH": str(source)}
    words = [sys.executable, "-m", "diel", "run", "-q", "--no-cache", "workflow.yaml"]
    began = time.perf_counter()
    process = subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words} ended with {process.returncode}")
    shutil.rmtree(folder / "runs")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def usage(runs: int, show: Callable[[str, str, str], None]) -> None:
    """10,000 tasks with and without."""
    with tempfile.TemporaryDirectory(prefix="diel-benchmark-") as made:
        place = Path(made)
        copies = [place / "with", place / "without"]
        for copy in copies:
            for part in ("diel", "schedulers"):
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(CHECKOUT / part, copy / part, ignore=ignored)
        with open(copies[1] / "diel/worker/attempt/usage.py", "a", encoding="utf-8") as file:
            file.write(WITHOUT)
        for what, stage in (("`true`", 'command: ["true"]'), ("no-op Python tasks", "module: noop")):
            folder = place / what.strip("`").replace(" ", "-")
            (folder / "modules").mkdir(parents=True)
            (folder / "modules" / "noop.py").write_text(MODULE)
            (folder / "workflow.yaml").write_text(SWEEP.format(stage))
            for copy in copies:  # compiles it
                once(copy, folder)
            pairs = []
            for number in range(runs):
                order = copies if number % 2 else copies[::-1]
                found = {copy.name: once(copy, folder) for copy in order}
                pairs.append((found["with"], found["without"]))
            wall = sorted(one[0] / two[0] for one, two in pairs)
            cpu = sorted(one[1] / two[1] for one, two in pairs)
            figure = f"wall {statistics.median(wall):.3f} ({wall[0]:.3f} to {wall[-1]:.3f}), "
            figure += f"processor {statistics.median(cpu):.3f} ({cpu[0]:.3f} to {cpu[-1]:.3f})"
            show(f"10,000 {what}, counted against not counted", "1.03 x" if "true" in what else "", figure)
