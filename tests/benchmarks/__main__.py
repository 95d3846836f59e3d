"""Prints the figures of docs/performance.md: `python tests/benchmarks [NAME…] [--runs N]`.

Every figure is of a whole process, start-up included, as the operating system accounts for it. Where
two commands are compared they run in turn, and the ratio is taken pair by pair, for machines drift.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # `python tests/benchmarks`: the checkout is not on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.benchmarks.artifacts import artifacts
from tests.benchmarks.links import links
from tests.benchmarks.pages import page_of_a_million
from tests.benchmarks.pruning import pruning
from tests.benchmarks.screening import screening
from tests.benchmarks.services import services
from tests.benchmarks.streams import streams
from tests.benchmarks.usage import usage
from tests.cluster.cluster import Cluster, missing, new_folder

DIEL = [sys.executable, "-m", "diel"]
SHIPPED = Path(__file__).resolve().parents[2] / "workflows"


@dataclass(frozen=True)
class Measured:
    """One run of a command: wall and CPU seconds, peak memory of its largest process in MB."""

    began: float
    """When it was started, in seconds since the epoch."""
    wall: float
    cpu: float
    memory: float
    output: str


def measure(words: list[str], folder: Path) -> Measured:
    """Runs a command to its end. Raises RuntimeError with its output where it fails."""
    with tempfile.TemporaryFile() as caught:
        at, began = time.time(), time.perf_counter()
        process = subprocess.Popen(words, cwd=folder, stdout=caught, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        caught.seek(0)
        output = caught.read().decode()
    if process.returncode:
        raise RuntimeError(f"{words} ended with {process.returncode}:\n{output}")
    return Measured(at, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output)


def median(values: list[float]) -> float:
    return statistics.median(values)


def show(what: str, reach: str, figure: str) -> None:
    print(f"{what:58} {reach:>26}   {figure}", flush=True)


@contextmanager
def project(workflow: str, modules: dict[str, str] | None = None) -> Iterator[Path]:
    """A folder with one workflow and its modules, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="diel-benchmark-"))
    try:
        (folder / "modules").mkdir()
        for name, text in (modules or {}).items():
            (folder / "modules" / f"{name}.py").write_text(text)
        (folder / "workflow.yaml").write_text(workflow)
        yield folder
    finally:
        shutil.rmtree(folder)


def sweep(tasks: int, stage: str) -> str:
    return (
        f"diel: 1\nname: sweep\naxes:\n  i: {{range: {tasks}}}\n"
        f"stages:\n  work:\n    over: [i]\n    {stage}\n"
    )


NOOP = 'import diel\n\n\n@diel.module(kind="analysis")\ndef noop(i: int) -> dict:\n    return {}\n'


def newest(folder: Path) -> Path:
    return max((folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime)


def records(segment: Path) -> list[dict[str, Any]]:
    """The whole lines of a segment of a run's journal."""
    return [json.loads(line) for line in segment.read_bytes().rpartition(b"\n")[0].splitlines()]


WARM = """
  warm:
    over: [ready]
    command: [sleep, "3"]
"""


def warmed(text: str) -> str:
    """A sweep that begins when a stage before it has had a task on each worker of a block."""
    return (
        text.replace("axes:", "axes:\n  ready: {range: 16}", 1).replace(
            "    over:", "    after: [warm]\n    over:", 1
        )
        + WARM
    )


def first_and_last(run: Path, stage: str | None = None) -> tuple[float, float]:
    """When the first task (of a stage) began and the last result was committed, in seconds since the epoch."""
    found = [record for segment in (run / "journal").iterdir() for record in records(segment)]
    found = [record for record in found if stage is None or record.get("stage") == stage]
    starts = [record["time"] for record in found if record["event"] == "start"]
    ends = [record["time"] for record in found if record["event"] == "done"]
    return min(starts), max(ends)


def commands(runs: int) -> None:
    """10,000 `true` against xargs."""
    walls, ratios, spans, xargs = [], [], [], []
    with project(sweep(10_000, 'command: ["true"]')) as folder:
        for _ in range(runs):
            ours = measure([*DIEL, "run", "--no-cache", "workflow.yaml"], folder)
            first, last = first_and_last(newest(folder))
            theirs = measure(["sh", "-c", "seq 10000 | xargs -P2 -n1 true"], folder)
            walls.append(ours.wall)
            spans.append(first - ours.began)
            xargs.append(theirs.wall)
            ratios.append((last - first) / theirs.wall)
    figure = (
        f"{median(walls):.2f} s, of it {median(spans):.2f} s to the first task; "
        f"xargs {median(xargs):.2f} s; tasks/xargs {median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )
    show("10,000 `true`, own directory, output and code kept", "1.1 x xargs + start-up", figure)


def functions(runs: int) -> None:
    """10,000 Python modules that do nothing."""
    rates = []
    with project(sweep(10_000, "module: noop"), {"noop": NOOP}) as folder:
        for _ in range(runs):
            measure([*DIEL, "run", "--no-cache", "workflow.yaml"], folder)
            first, last = first_and_last(newest(folder))
            rates.append(10_000 / (last - first))
    show("10,000 no-op Python tasks", ">= 5,000 tasks/s", f"{median(rates):,.0f} tasks/s")


def hello(runs: int) -> None:
    """The smallest shipped workflow."""
    walls, firsts = [], []
    with project((SHIPPED / "hello.yaml").read_text()) as folder:
        for _ in range(runs):
            ours = measure([*DIEL, "run", "--no-cache", "workflow.yaml"], folder)
            walls.append(ours.wall)
            firsts.append(first_and_last(newest(folder))[0] - ours.began)
    show("hello.yaml, from command to exit", "<= 2.5 s", f"{median(walls):.2f} s")
    show("hello.yaml, first task running", "<= 1.5 s", f"{median(firsts):.2f} s")


def planning(runs: int) -> None:
    """A sweep of a million tasks, validated and planned."""
    with project(sweep(1_000_000, 'command: [echo, "${{ i }}"]')) as folder:
        for command in ("validate", "plan"):
            found = [measure([*DIEL, command, "workflow.yaml"], folder) for _ in range(runs)]
            wall, memory = median([m.wall for m in found]), median([m.memory for m in found])
            show(f"{command}, 1,000,000 tasks", "<= 1 s, <= 150 MB", f"{wall:.2f} s, {memory:.0f} MB")


def starting(runs: int) -> None:
    """Commands that must start in a blink."""
    with project((SHIPPED / "hello.yaml").read_text()) as folder:
        for words, reach in ((["--version"], "0.15 s"), (["validate", "workflow.yaml"], "0.4 s")):
            wall = median([measure([*DIEL, *words], folder).wall for _ in range(max(runs, 5))])
            show(f"diel {' '.join(words).replace('workflow', 'hello')}", f"<= {reach}", f"{wall:.2f} s")


def beside(what: str, reach: str, words: list[str], other: list[str], runs: int, folder: Path) -> None:
    """Shows how much longer a command takes than another, in wall and processor time, pair by pair."""
    pairs = [(measure(words, folder), measure(other, folder)) for _ in range(max(runs, 3))]
    wall, cpu = (median([getattr(a, of) / getattr(b, of) for a, b in pairs]) for of in ("wall", "cpu"))
    show(what, reach, f"wall {wall:.2f} x, processor {cpu:.2f} x")


def ratios(runs: int) -> None:
    """Start-up beside the import of pydantic, short commands beside xargs."""
    pydantic = [sys.executable, "-c", "import pydantic"]
    with project((SHIPPED / "hello.yaml").read_text()) as folder:
        for words, reach in ((["--version"], "1.2"), (["validate"], "4"), (["run", "--no-cache"], "7")):
            file = [] if words == ["--version"] else ["workflow.yaml"]
            beside(
                f"diel {words[0]}, hello.yaml",
                f"<= {reach} x pydantic",
                [*DIEL, *words, *file],
                pydantic,
                5 * runs,  # each takes a fraction of a second, which the machine's noise doubles
                folder,
            )
    for tasks, reach in ((10_000, "1.4"), (1_000, "3")):
        with project(sweep(tasks, 'command: [sh, -c, "true"]')) as folder:
            xargs = ["sh", "-c", f"seq {tasks} | xargs -P2 -n1 sh -c true"]
            beside(
                f"{tasks:,} `sh -c true`",
                f"<= {reach} x xargs",
                [*DIEL, "run", "--no-cache", "workflow.yaml"],
                xargs,
                runs,
                folder,
            )
    with project(sweep(1_000, 'command: [sh, -c, "true"]')) as folder:
        walls = [measure([*DIEL, "run", "workflow.yaml"], folder).wall for _ in range(runs + 1)][1:]
        show("running a finished 1,000-task workflow again", "<= 0.7 s", f"{median(walls):.2f} s")
    after = (f"    after: [s{i - 1}]\n" if i else "" for i in range(200))
    chain = "".join(f'  s{i}:\n    command: ["true"]\n{line}' for i, line in enumerate(after))
    with project(f"diel: 1\nname: chain\nstages:\n{chain}") as folder:
        walls = [measure([*DIEL, "run", "--no-cache", "workflow.yaml"], folder).wall for _ in range(runs)]
        show("a chain of 200 stages", "<= 1.3 s", f"{median(walls):.2f} s")


def large(runs: int) -> None:
    """A run of 100,000 tasks: the controller's memory, and status afterwards; the page of one of a million."""
    with project(sweep(100_000, "module: noop"), {"noop": NOOP}) as folder:
        ours = measure([*DIEL, "run", "workflow.yaml"], folder)
        show("controller memory, 100,000 tasks", "<= 300 MB", f"{ours.memory:.0f} MB")
        wall = median([measure([*DIEL, "status"], folder).wall for _ in range(max(runs, 5))])
        show("status of a finished run of 100,000 tasks", "<= 0.5 s", f"{wall:.2f} s")
    page_of_a_million(runs, show)


def cached(runs: int) -> None:
    """A finished run of 10,000 tasks, run again."""
    with project(sweep(10_000, 'command: ["true"]')) as folder:
        measure([*DIEL, "run", "workflow.yaml"], folder)
        walls = [measure([*DIEL, "run", "workflow.yaml"], folder).wall for _ in range(runs)]
    show("running a finished 10,000-task workflow again", "<= 3 s", f"{median(walls):.2f} s")


FUNCTIONS = """import json, math, os, sys

A = (10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14)
P = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def branin(x, y):
    bowl = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def hartmann(*x):
    inner = (sum(a * (b - c) ** 2 for a, b, c in zip(*row)) for row in ((A[i], x, P[i]) for i in range(4)))
    return -sum(alpha * math.exp(-one) for alpha, one in zip((1, 1.2, 3, 3.2), inner))


if __name__ == "__main__":
    value = globals()[sys.argv[1]](*map(float, sys.argv[2:]))
    with open(os.environ["DIEL_RESULT"], "w") as file:
        json.dump({"value": value}, file)
"""
"""Two functions that searches are compared on (their constants: Dixon and Szego, 1978, as given at
https://www.sfu.ca/~ssurjano/optimization.html), as a program."""
SPACES = {
    "branin": ({"x": (-5, 10), "y": (0, 15)}, 0.397887),
    "hartmann": ({f"x{place}": (0, 1) for place in range(6)}, -3.32237),
}
"""Bounds, and the least value."""
SEEDS = 10


def searching(function: str, sampler: str, trials: int, parallel: int, repeats: int) -> str:
    """As many searches as repeats, from the seeds 0, 1, …: a search runs once for each of them."""
    bounds, _ = SPACES[function]
    registry = "".join(
        f"  {name}: {{type: float, low: {low}, high: {high}}}\n" for name, (low, high) in bounds.items()
    )
    words = ", ".join(f'"${{{{ hp.{name} }}}}"' for name in bounds)
    return f"""diel: 1
name: {function}-{sampler}
hyperparameters:
{registry}axes:
  repeat: {{range: {repeats}}}
  trial:
    search: {{sampler: {sampler}, trials: {trials}, parallel: {parallel}, seed: 0, minimize: f.value,
             parameters: [{", ".join(bounds)}]}}
stages:
  f:
    over: [repeat, trial]
    command: [{sys.executable}, -S, "${{{{ files.program }}}}", {function}, {words}]
    files: {{program: functions.py}}
    outputs: {{value: {{value: float}}}}
"""


def own_loop(function: str, sampler: str, seed: int, trials: int, folder: Path, *, threads: int) -> list[Any]:
    """Optuna's own loop over the same command: its trials, in the order in which they ended."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    bounds, _ = SPACES[function]

    def objective(trial: optuna.Trial) -> float:
        drawn = [trial.suggest_float(name, low, high) for name, (low, high) in bounds.items()]
        told = folder / f"result-{trial.number}"
        words = [sys.executable, "-S", str(folder / "functions.py"), function, *map(str, drawn)]
        subprocess.run(words, env={**os.environ, "DIEL_RESULT": str(told)}, check=True)
        return float(json.loads(told.read_text())["value"])

    samplers = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
    study = optuna.create_study(sampler=samplers[sampler](seed=seed))
    study.optimize(objective, n_trials=trials, n_jobs=threads)
    return sorted(study.trials, key=lambda trial: trial.datetime_complete or trial.number)


def search(runs: int) -> None:
    """Searches of commands against Optuna's own loop over the same commands."""
    for function in SPACES:
        regrets(function)
    for trials in (200, 500):
        per_trial(trials, runs)


def regrets(function: str) -> None:
    """How far from the least value 60 trials come."""
    _, least = SPACES[function]
    told: dict[str, list[float]] = {}
    for sampler in ("tpe", "random"):
        with search_project(searching(function, sampler, 60, 1, SEEDS)) as folder:
            measure([*DIEL, "run", "--no-cache", "workflow.yaml"], folder)
            best = [math.inf] * SEEDS
            for record in run_records(newest(folder), "judged"):
                (place,) = record["context"]
                best[place] = min(best[place], *record["values"])
            told[sampler] = [value - least for value in best]
            if sampler == "tpe":
                loops = [own_loop(function, "tpe", seed, 60, folder, threads=1) for seed in range(SEEDS)]
    own = [min(trial.value for trial in loop) - least for loop in loops]
    figure = f"{median(told['tpe']):.4f}; Optuna {median(own):.4f}, random {median(told['random']):.4f}"
    same = sum(abs(a - b) < 1e-9 for a, b in zip(told["tpe"], own, strict=True))
    figure += f"; {same} of {SEEDS} seeds alike"
    show(f"{function}, 60 trials by TPE, median regret of {SEEDS} seeds", "<= Optuna, < random", figure)


def per_trial(trials: int, runs: int) -> None:
    """Milliseconds a trial, two at a time: from the first start to the last score."""
    ours, over, firsts, lasts = [], [], [], []
    with search_project(searching("branin", "tpe", trials, 2, 1)) as folder:
        for _ in range(runs):
            measure([*DIEL, "run", "--no-cache", "workflow.yaml"], folder)
            began = min(record["time"] for record in run_records(newest(folder), "start"))
            ends = sorted(record["time"] - began for record in run_records(newest(folder), "judged"))
            at = time.time()
            loop = own_loop("branin", "tpe", 0, trials, folder, threads=2)
            others = [trial.datetime_complete.timestamp() - at for trial in loop]
            ours.append(1e3 * ends[-1] / trials)
            over.append(1e3 * (ends[-1] - others[-1]) / trials)
            firsts.append(10 * (ends[99] - others[99]))
            lasts.append(10 * ((ends[-1] - ends[-101]) - (others[-1] - others[-101])))
    spread = f"({min(over):.1f} to {max(over):.1f})" if runs > 1 else ""
    figure = f"{median(over):+.1f} ms {spread} of {median(ours):.1f}"
    figure += f"; first 100 {median(firsts):+.1f}, last 100 {median(lasts):+.1f}"
    show(f"{trials} trials by TPE, 2 at a time, over Optuna's loop", "<= 5 ms a trial, linear", figure)


@contextmanager
def search_project(workflow: str) -> Iterator[Path]:
    with project(workflow) as folder:
        (folder / "functions.py").write_text(FUNCTIONS)
        yield folder


def run_records(run: Path, event: str) -> list[dict[str, Any]]:
    """The records of one kind in a run's journal."""
    found = [record for segment in (run / "journal").iterdir() for record in records(segment)]
    return [record for record in found if record["event"] == event]


def cluster(runs: int) -> None:
    """A virtual Slurm of four nodes: 1,000 `true` on one block, the first task, a block that is killed."""
    if reason := missing():
        print(f"cluster: left out, {reason}")
        return
    slurm = Cluster(new_folder())
    slurm.up()
    os.environ["SLURM_CONF"] = str(slurm.slurm_conf)
    try:
        with project(warmed(sweep(1_000, 'command: ["true"]'))) as folder:
            short_tasks(slurm, folder, runs)
        with project(sweep(64, "command: [sleep, '3']")) as folder:
            first_task_and_recovery(slurm, folder, runs)
    finally:
        slurm.down()


def short_tasks(slurm: Cluster, folder: Path, runs: int) -> None:
    """One 4-node block against this machine without a scheduler, in turn.

    The block's workers are there when the tasks begin: four nodes that start on two cores would be measured
    otherwise. Its start is in the figure below.
    """
    rates: dict[str, list[float]] = {"10,000 here": [], "1,000 here": [], "block": []}
    for name, count in (("local", 10_000), ("small", 1_000)):
        text = sweep(count, 'command: ["true"]').replace("sweep", name)
        (folder / f"{name}.yaml").write_text(text)
    for _ in range(runs):
        for label, name, count in (("10,000 here", "local", 10_000), ("1,000 here", "small", 1_000)):
            measure([*DIEL, "run", "--no-cache", "--site", "local", f"{name}.yaml"], folder)
            first, last = first_and_last(newest(folder))
            rates[label].append(count / (last - first))
        slurm.clear()
        measure([*DIEL, "run", "--no-cache", "--site", str(slurm.site()), "workflow.yaml"], folder)
        first, last = first_and_last(newest(folder), "work")
        rates["block"].append(1_000 / (last - first))
    show("1,000 `true` on one 4-node block of Slurm", "", f"{median(rates['block']):,.0f} tasks/s")
    for label in ("10,000 here", "1,000 here"):
        ratios = [there / here for there, here in zip(rates["block"], rates[label], strict=True)]
        figure = (
            f"{median(ratios):.0%} ({min(ratios):.0%} to {max(ratios):.0%}) of {median(rates[label]):,.0f}"
        )
        show(f"  against {label}, without a scheduler", ">= 80 % of the local rate", figure)


def first_task_and_recovery(slurm: Cluster, folder: Path, runs: int) -> None:
    """Submits to an idle cluster, kills the block once its tasks run, and waits for the next one."""
    firsts, recoveries = [], []
    for _ in range(runs):
        slurm.clear()
        before = time.time()
        measure([*DIEL, "submit", "--no-cache", "--site", str(slurm.site()), "workflow.yaml"], folder)
        run = newest(folder)
        firsts.append(first_start(run, "1-0") - before)
        killed = time.time()
        slurm.scancel()
        recoveries.append(first_start(run, "1-1") - killed)
        measure([*DIEL, "cancel"], folder)
    show("submit to first task, on an idle cluster", "<= 6 s", f"{median(firsts):.1f} s")
    show("from scancel of the only block to the next task", "<= 15 s", f"{median(recoveries):.1f} s")


def first_start(run: Path, block: str) -> float:
    """When the first task of a block began, in seconds since the epoch; waits for it."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        starts = []
        for segment in (run / "journal").glob("worker-*"):
            lines = records(segment)
            if lines and lines[0]["block"] == block:
                starts += [line["time"] for line in lines if line["event"] == "start"]
        if starts:
            return float(min(starts))
        time.sleep(0.05)
    raise RuntimeError(f"no task began in block {block}")


BENCHMARKS: dict[str, Callable[[int], None]] = {
    "starting": starting,
    "ratios": ratios,
    "hello": hello,
    "planning": planning,
    "cached": cached,
    "functions": functions,
    "commands": commands,
    "large": large,
    "search": search,
    "pruning": pruning,
    "links": links,
    "cluster": cluster,
    "artifacts": lambda runs: artifacts(runs, show),
    "screening": lambda runs: screening(runs, show),
    "services": lambda runs: services(runs, show),
    "usage": lambda runs: usage(runs, show),
    "streams": lambda runs: streams(runs, show),
}


def main() -> None:
    """Runs the benchmarks that were asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--runs", type=int, default=3, help="runs of each command; the median is shown")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark '{unknown[0]}'")
    print(f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"load {os.getloadavg()[0]:.1f} at the start, medians of {arguments.runs} runs\n")
    show("what", "reach", "measured")
    for name in arguments.names or BENCHMARKS:
        BENCHMARKS[name](arguments.runs)


if __name__ == "__main__":
    main()
