"""Runs on the virtual cluster whose results are known, and what is done to them.

Nothing here waits a fixed time to pass; the moments of faults are drawn at random from a seed that is printed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from diel.base.paths import RunPaths
from diel.observe.status.run import read_status
from diel.store.journal.history import History
from diel.store.journal.snapshot import read_run
from diel.store.project.submission import job_prefix
from tests.cluster.cluster import Cluster, Job
from tests.descendants import alive
from tests.throwaway import Project, Record, Run, wait_for

SUM = """
    axes:
      i: {{range: {tasks}}}
    stages:
      work:
        over: [i]
        command: "sleep {seconds}; echo \\"{{\\\\\\"square\\\\\\": ${{{{ i * i }}}}}}\\" > \\"$DIEL_RESULT\\""
        outputs: {{square: {{value: int}}}}
        resources: {{pool: small{more}}}
        retries: 0
      total:
        params: {{values: "${{{{ work.square }}}}"}}
        module: total
        resources: {{pool: small}}
"""
TOTAL = """
    @diel.module(kind="analysis")
    def total(values: list[int]) -> dict:
        return {"count": len(values), "sum": sum(values)}
"""
UNCHARGED = {"node", "preempted", "walltime", "interrupted"}
"""Classes of failure for which a task is not to blame, and that are counted apart from its `retries`."""
QUICK: Mapping[str, Any] = {"poll": "1s", "silence": "5s", "grace": "5s"}
"""A site that notices sooner than most: tests wait for that."""


class OnCluster(Project):
    """A project that is run where the cluster's commands are, with a site file of its own, `mine`."""

    def __init__(self, folder: Path, cluster: Cluster, base: str = "virtual") -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.site(base)

    def environment(self) -> dict[str, str]:
        return self.cluster.environment

    def site(
        self, base: str = "virtual", pools: Mapping[str, Mapping[str, Any]] | None = None, **keys: Any
    ) -> OnCluster:
        """Writes `mine`: one of the cluster's sites, a quick one, with some keys changed."""
        site = yaml.safe_load(self.cluster.site(base).read_text(encoding="utf-8"))
        site.update({"name": "mine", **QUICK, **keys})
        for name, changed in (pools or {}).items():
            site["pools"][name].update(changed)
        path = self.folder / "schedulers" / "mine.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(site), encoding="utf-8")
        return self

    def sum(self, tasks: int, seconds: float = 0.5, **resources: str) -> OnCluster:
        """A workflow of so many tasks that take so many seconds, whose results are added up."""
        more = "".join(f", {key}: {value}" for key, value in resources.items())
        self.workflow(SUM.format(tasks=tasks, seconds=seconds, more=more)).module("total", TOTAL)
        return self

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """`diel run`, left alone; returns when the run is there."""
        before = self.runs()
        process = self.start("run", f"{self.name}.yaml", "--site", "mine", "--quiet", "--no-cache", *words)
        wait_for(lambda: self.runs() > before or process.poll() is not None, 30)
        return process

    def submit(self, *words: str) -> Run:
        """`diel submit` from a shell that exits at once; returns when the run is there."""
        before, log = self.runs(), self.folder / "submit.log"
        command = [sys.executable, "-m", "diel", "submit", f"{self.name}.yaml", "--site", "mine", *words]
        with open(log, "wb") as file:
            subprocess.run(
                ["sh", "-c", '"$@" & exit', "sh", *command],
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=60,
                check=True,
            )

        def made() -> bool:
            said = log.read_text(encoding="utf-8")
            assert "error" not in said.lower(), said
            return self.runs() > before and "submitted" in said

        wait_for(made, 60)
        return self.newest()

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.diel("status", "--json"))
        return document

    def state(self) -> str:
        return str(read_status(RunPaths(self.newest().root)).state)

    def wait_for_end(self, seconds: float = 90) -> None:
        """Waits until the run that was submitted has succeeded."""
        run = self.newest()
        wait_for(lambda: self.state() in ("succeeded", "failed", "cancelled", "interrupted"), seconds)
        assert self.state() == "succeeded", (run.root / "logs" / "controller.log").read_text()

    def jobs(self, *states: str) -> list[Job]:
        """The jobs of the newest run that have not ended; those that are about to are left out."""
        prefix = job_prefix(RunPaths(self.newest().root))
        found = [job for job in self.cluster.squeue() if job.name.startswith(prefix)]
        return [job for job in found if (job.state in states if states else job.state != "COMPLETING")]

    def blocks(self) -> list[Job]:
        """The jobs of its blocks that run."""
        return [job for job in self.jobs("RUNNING") if "-c" not in job.name]

    def assert_nothing_is_left(self, seconds: float = 60) -> None:
        """No job, and no process of the newest run on any node: controllers too."""
        run = self.newest()
        wait_for(lambda: not self.jobs(), seconds)
        wait_for(lambda: not self.cluster.processes() and not processes_of(run), seconds)


def kill_controller(project: OnCluster) -> None:
    """kill -9, wherever it is."""
    process = psutil.Process(project.status()["controller"]["pid"])
    process.kill()
    psutil.wait_procs([process], timeout=20)


def fold(run: Run) -> History:
    """What the journal says so far."""
    return read_run(RunPaths(run.root)).history


def processes_of(run: Run) -> list[psutil.Process]:
    """Every living process of a run: marked by its environment, or named on its command line."""
    found = {process.pid: process for process in run.processes()}
    for process in psutil.process_iter():
        try:
            named = any(word == str(run.root) for word in process.cmdline())
        except psutil.Error:
            continue
        if named and alive(process):
            found[process.pid] = process
    return list(found.values())


def commands_of(run: Run) -> list[psutil.Process]:
    """The commands that run as tasks: what a worker started, not what that started in its turn."""
    found = []
    for process in run.processes():
        try:
            task = process.environ().get("DIEL_TASK_DIR")
            parent = process.parent()
            if task and parent is not None and parent.environ().get("DIEL_TASK_DIR") != task:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def wait_for_start(project: OnCluster, after: float = 0.0, seconds: float = 60) -> Record:
    """Waits until a task began later than that (seconds since the epoch); returns the record."""
    run = project.newest()
    found: list[Record] = []

    def begun() -> bool:
        found[:] = [r for r in run.records("start") if r["time"] > after]
        return bool(found)

    wait_for(begun, seconds)
    return min(found, key=lambda record: float(record["time"]))


def wait_for_done(run: Run, tasks: int, seconds: float = 60) -> None:
    """Waits until so many tasks have a result."""
    wait_for(lambda: len(run.records("done")) >= tasks, seconds)


def placed(run: Run, stage: str) -> list[Record]:
    """The starts of a stage's tasks, each with its worker's record."""
    found = []
    for segment in (run.root / "journal").glob("worker-*.jsonl"):
        lines = [json.loads(line) for line in segment.read_text(encoding="utf-8").splitlines()]
        worker = next(line for line in lines if line["event"] == "worker")
        found += [{**r, "worker": worker} for r in lines if r["event"] == "start" and r["stage"] == stage]
    return found


def dice_of(seed: int) -> random.Random:
    """A die; its seed is printed, and so shown where a test fails."""
    print(f"seed {seed}")
    return random.Random(seed)


def assert_sum(run: Run, tasks: int) -> None:
    """The result is that of an undisturbed run: each task was committed once, and none was charged."""
    done = run.records("done")
    counts = Counter((record["stage"], record["index"]) for record in done)
    assert set(counts.values()) == {1}, "a task was committed twice"
    assert sum(stage == "work" for stage, _ in counts) == tasks
    assert run.value("total", "sum") == sum(i * i for i in range(tasks))
    assert run.value("total", "count") == tasks
    committed = {(r["stage"], r["index"]): r["time"] for r in done}
    late = [r for r in run.records("start") if r["time"] > committed[r["stage"], r["index"]]]
    assert not late, "a task began again after its result was committed"
    assert {record["class"] for record in run.records("fail")} <= UNCHARGED
    assert fold(run).state == "succeeded"


def end(project: OnCluster, process: subprocess.Popen[str], tasks: int, seconds: float = 120) -> Run:
    """Waits for a `diel run` of the sum and checks all that it leaves behind."""
    project.end(process, seconds=seconds)
    run = project.newest()
    assert_sum(run, tasks)
    project.assert_nothing_is_left()
    return run


Fault = Callable[[OnCluster, random.Random], None]
