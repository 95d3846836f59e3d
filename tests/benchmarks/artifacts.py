"""Artifacts: an array of 1 GiB from one Python stage to the next, ten thousand of 1 KiB.

`python tests/benchmarks artifacts` prints it. What diel is compared with runs on the same file system: NumPy's own
save and memory map, in a process of its own before or after each run, and a plain loop over the same files,
inside the same tasks.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GIB = 1024**3
MANY = 10_000
LEAST = 24
"""Pairs of which the median is taken, at least."""
WARM = 5
"""GiB of memory that a process takes and gives back before either."""
Show = Callable[[str, str, str], None]

BIG = '''"""An array that goes from one stage to the next."""

import os
import time

import diel
import numpy


def memory(pid: int | str, key: str) -> float:
    """A line of /proc/PID/status in MiB."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))


def forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


@diel.module(kind="simulation")
def make(size: int) -> dict:
    array = numpy.arange(size // 4, dtype=numpy.float32)
    forget_peak()
    return {"x": array, "pid": os.getpid(), "held": memory("self", "VmRSS"), "at": time.time()}


@diel.module(kind="analysis")
def read(x: numpy.ndarray, pid: int, held: float, at: float) -> dict:
    handed = time.time() - at
    made = memory(pid, "VmHWM") - held
    before = memory("self", "RssAnon")
    total = sum(float(x[start : start + 2**22].sum()) for start in range(0, len(x), 2**22))
    held = memory("self", "RssAnon") - before
    return {
        "handed": handed, "made": made, "read": held, "total": total, "mapped": isinstance(x, numpy.memmap)
    }
'''
PLAIN = """import time

import numpy

array = numpy.arange(SIZE // 4, dtype=numpy.float32)
began = time.time()
numpy.save("x.npy", array)
numpy.load("x.npy", mmap_mode="r")
print(time.time() - began)
"""
BIG_FLOW = """diel: 1
name: big
stages:
  make: {module: "big:make", params: {size: SIZE}, resources: {cores_per_rank: CORES}CONTRACT}
  read:
    module: "big:read"
    resources: {cores_per_rank: CORES}
    inputs: {x: make.x, pid: make.pid, held: make.held, at: make.at}
"""

SMALL = '''"""Many small artifacts, and the same files in a plain loop."""

import os
import time
from pathlib import Path

import diel
import numpy

KIB = numpy.arange(256, dtype=numpy.float32)
DATA = KIB.tobytes()


def write(path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    os.write(file, DATA)
    os.close(file)
    os.stat(path)


def written(many: int) -> float:
    """Seconds in which a plain loop opens, writes, closes and stats as many files."""
    os.mkdir("plain")
    began = time.perf_counter()
    for number in range(many):
        write(f"plain/{number}")
    return time.perf_counter() - began


@diel.module(kind="simulation")
def returned(many: int) -> dict:
    began = time.time()
    plain = written(many)
    for number in range(many):
        write(f"{number}.bin")
    again = time.perf_counter()
    for number in range(many):  # what must be read to be digested is read here, too
        file = os.open(f"{number}.bin", os.O_RDONLY)
        os.read(file, 2048)
        os.close(file)
        os.stat(f"{number}.bin")
    plain_reading = time.perf_counter() - again
    made = {f"f{number}": Path(f"{number}.bin") for number in range(many)}
    return {**made, "plain": plain_reading, "own": time.time() - began}


@diel.module(kind="simulation")
def arrays(many: int) -> dict:
    began = time.time()
    plain = written(many)
    return {**{f"a{number}": KIB for number in range(many)}, "plain": plain, "own": time.time() - began}


@diel.module(kind="simulation")
def one(i: int) -> dict:
    write("one.bin")
    return {"one": Path("one.bin")}


@diel.module(kind="simulation")
def none(i: int) -> dict:
    write("one.bin")
    return {}
'''
SMALL_FLOW = """diel: 1
name: small
axes: {i: {range: MANY}}
stages:
  returned: {module: "small:returned", params: {many: MANY}}
  arrays: {module: "small:arrays", params: {many: MANY}, after: [returned]}
  glob:
    after: [arrays]
    command: [PYTHON, -S, "${{ files.program }}"]
    files: {program: write.py}
    outputs: {found: {glob: "*.bin"}, own: {value: float}, plain: {value: float}}
  none: {module: "small:none", over: [i], after: [glob]}
  one: {module: "small:one", over: [i], after: [none]}
"""
WRITE = """import json, os, time

began = time.time()
for number in range(MANY):
    with open(f"{number}.bin", "wb") as file:
        file.write(bytes(1024))
again = time.perf_counter()
for number in range(MANY):
    file = os.open(f"{number}.bin", os.O_RDONLY)
    os.read(file, 2048)
    os.close(file)
    os.stat(f"{number}.bin")
plain = time.perf_counter() - again
with open(os.environ["DIEL_RESULT"], "w") as file:
    json.dump({"own": time.time() - began, "plain": plain}, file)
"""


def run(workflow: str, files: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Runs a workflow in a folder of its own; gives the committed results by stage."""
    folder = Path(tempfile.mkdtemp(prefix="diel-benchmark-"))
    try:
        (folder / "modules").mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        (folder / "workflow.yaml").write_text(workflow)
        words = [sys.executable, "-m", "diel", "run", "--no-cache", "workflow.yaml"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        found: dict[str, list[dict[str, Any]]] = {}
        for segment in folder.glob("runs/*/journal/worker-*"):
            for line in segment.read_text().splitlines():
                record = json.loads(line)
                if record["event"] == "done":
                    found.setdefault(record["stage"], []).append(record)
        return found
    finally:
        shutil.rmtree(folder)


def artifacts(runs: int, show: Show) -> None:
    """All figures of artifacts, by `show(what, reach, figure)`."""
    for label, contract in (
        ("1 GiB array from one Python stage to the next", ""),
        ("the same, its shape, type and finite numbers promised",
         ", outputs: {x: {dtype: float32, shape: ['*'], finite: true}}"),
        ("the same, `digest: stat`", ", outputs: {x: {digest: stat}}"),
    ):  # fmt: skip
        big(label, contract, runs, show)
    small(runs, show)


def big(label: str, contract: str, runs: int, show: Show) -> None:
    """One array, from the module's return to the next one's first line, against numpy.save and numpy.load
    with a memory map, in turn, the one first here and the other there.

    A virtual machine may get its memory page by page when it is first touched, which takes longer than writing
    to it: before either, a process takes as much as both need, and gives it back. Whatever else runs only adds
    time, so that the quickest of each side come nearest to what they take by themselves.
    """
    cores = str(len(os.sched_getaffinity(0)))
    flow = BIG_FLOW.replace("SIZE", str(GIB)).replace("CONTRACT", contract).replace("CORES", cores)
    plains: list[float] = []
    found: list[dict[str, Any]] = []

    def ours() -> None:
        warm()
        found.append(run(flow, {"modules/big.py": BIG})["read"][0]["values"])

    def numpys() -> None:
        warm()
        plains.append(plain())

    for number in range(max(runs, LEAST)):
        for one in (ours, numpys) if number % 2 else (numpys, ours):
            one()
    assert all(values["mapped"] for values in found)
    handed = [values["handed"] for values in found]
    ratios = [one / other for one, other in zip(handed, plains, strict=True)]
    ours_median, plain_median = statistics.median(handed), statistics.median(plains)
    made, read = (max(values[key] for values in found) for key in ("made", "read"))
    show(
        label,
        "<= 1.1 x numpy",
        f"{ours_median / plain_median:.2f}, medians of {len(handed)}: "
        f"{ours_median:.3f} ({min(handed):.3f} to {max(handed):.3f}) "
        f"of {plain_median:.3f} s ({min(plains):.3f} to {max(plains):.3f}); pair by pair {statistics.median(ratios):.2f}; "
        f"the quickest of each {min(handed) / min(plains):.2f}; "
        f"memory beyond the array: {made:.0f} MiB to write, {read:.0f} MiB to read it all",
    )


def warm() -> None:
    """Takes memory from the machine and gives it back."""
    code = f"import numpy; numpy.ones({WARM * GIB // 8})"
    subprocess.run([sys.executable, "-c", code], check=True)


def plain() -> float:
    """Seconds in which NumPy writes an array and maps it."""
    with tempfile.TemporaryDirectory(prefix="diel-benchmark-") as folder:
        words = [sys.executable, "-c", PLAIN.replace("SIZE", str(GIB))]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout)


def small(runs: int, show: Show) -> None:
    """Ten thousand small files: of one task, by a pattern, as arrays, of a task each."""
    found: dict[str, list[float]] = {"returned": [], "arrays": [], "glob": [], "tasks": []}
    flow = SMALL_FLOW.replace("MANY", str(MANY)).replace("PYTHON", sys.executable)
    for _ in range(runs):
        files = {"modules/small.py": SMALL, "write.py": WRITE.replace("MANY", str(MANY))}
        results = run(flow, files)
        for stage in ("returned", "arrays", "glob"):
            (record,) = results[stage]
            values = record["values"]
            found[stage].append(1e3 * (record["seconds"] - values["own"] - values["plain"]) / MANY)
        each = {stage: statistics.median(r["seconds"] for r in results[stage]) for stage in ("one", "none")}
        found["tasks"].append(1e3 * (each["one"] - each["none"]))
    for stage, what in (
        ("returned", "10,000 files of 1 KiB that a module returns"),
        ("arrays", "10,000 arrays of 1 KiB that a module returns"),
        ("glob", "10,000 files of 1 KiB by a command's `glob`"),
        ("tasks", "10,000 tasks with a file of 1 KiB each"),
    ):
        values = found[stage]
        figure = f"{statistics.median(values):.3f} ms ({min(values):.3f} to {max(values):.3f})"
        show(f"{what}, each beyond the loop", "<= 0.2 ms", figure)
