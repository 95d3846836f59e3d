"""The page of a run of a million tasks, whose journal is written by hand: running it would take hours."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from diel.store.journal.snapshot import read_run
from tests.handmade import Handmade

TASKS, WORKERS, NODES = 1_000_000, 32, 4
FLOW = """
axes: {t: {linspace: [1, 3, 1000]}, d: {linspace: [0.1, 0.9, 1000]}}
stages:
  sim: {kind: simulation, over: [t, d], command: [x], outputs: {energy: {value: float}, steps: {value: int}}}
  all: {kind: analysis, command: "x ${{ mean(sim.energy) }}"}
"""
FIRST = "killed before its controller kept a timeline"
SITE = {"name": "local", "scheduler": "local", "pools": {"local": {"cores": WORKERS}}}


def million(folder: Path) -> Handmade:
    """A run: a task takes a second, one in 10,000 fails."""
    run = Handmade(folder, FLOW).stage("sim", TASKS, "simulation", module="m")
    run.paths.site.write_text(json.dumps(SITE), encoding="utf-8")
    began = run.clock
    for worker in range(WORKERS):
        node = f"node{worker % NODES}"
        with open(
            run.paths.journal / f"worker-0001-{node}-{worker}-abc.jsonl", "w", encoding="utf-8"
        ) as file:
            first = {"event": "worker", "host": node, "pid": worker + 1, "started": 1.0, "node": node}
            file.write(json.dumps({**first, "time": began}, separators=(",", ":")) + "\n")
            for place, index in enumerate(range(worker, TASKS, WORKERS)):
                file.write(_lines(index, began + place, 0.5 + 0.5 * (index * 7919 % 1000) / 1000))
    failed = [[index, index] for index in range(0, TASKS, 10_000)]
    told = {"class": "app", "message": "exit code 3", "exit_code": 3, "stderr_tail": "boom\n"}
    run.clock = began + TASKS / WORKERS
    run.write("failed", stage="sim", tasks=failed, attempt=1, **told).end("failed")
    reader = read_run(run.paths)
    run.paths.snapshot.write_text(reader.history.packed(reader.offsets))  # as its controller left it
    return run


def _lines(index: int, began: float, seconds: float) -> str:
    head = f'"stage":"sim","index":{index},"attempt":1,'
    start = f'{{"event":"start",{head}"time":{began:.6f},"bundle":{index // 100}}}\n'
    end = f'{head}"time":{began + seconds:.6f},"seconds":{seconds:.6f},'
    if index % 10_000 == 0:
        more = '"class":"app","message":"exit code 3","exit_code":3,"stderr_tail":"boom\\n"'
        return f'{start}{{"event":"fail",{end}{more}}}\n'
    used = {"cpu_seconds": 0.41, "system_seconds": 0.02, "memory_bytes": 5 << 20}
    used |= {"read_bytes": 4096, "written_bytes": 8192}
    values = f'"values":{{"energy":{-1.5 + 1e-6 * index:.6f},"steps":{1000 + index % 7}}}'
    key = f'"key":"{index:032x}","parts":["p","{index:016x}"]'
    counted = json.dumps(used, separators=(",", ":"))
    return f'{start}{{"event":"done",{end}{key},{values},"usage":{counted}}}\n'


def page_of_a_million(runs: int, show: Callable[[str, str, str], None]) -> None:
    """Seconds and bytes of the page, the first time and later."""
    with tempfile.TemporaryDirectory(prefix="diel-benchmark-") as made:
        folder = Path(made)
        run = million(folder)
        words = [sys.executable, "-m", "diel", "report", "w", "--runs", str(folder / "runs"), "-o", "p.html"]
        for when in (FIRST, "as its controller leaves it"):
            found = []
            for _ in range(runs):
                if when == FIRST:
                    (run.paths.root / "timeline.json.gz").unlink(missing_ok=True)
                began = time.perf_counter()
                process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode:
                    raise RuntimeError(f"{words} ended with {process.returncode}")
                cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
                found.append((time.perf_counter() - began, cpu, memory))
            wall, cpu, memory = (statistics.median(column) for column in zip(*found, strict=True))
            size = (folder / "p.html").stat().st_size / 1e6
            figure = (
                f"{wall:.1f} s, {cpu:.1f} s of processors, {memory:.0f} MB of memory; a page of {size:.2f} MB"
            )
            show(f"the page of a run of {TASKS:,} tasks, {when}", "<= 5 s, <= 5 MB", figure)
