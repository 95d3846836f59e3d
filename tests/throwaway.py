"""A project that a test makes in an empty directory and runs as a user would: `diel` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from diel.base.paths import RunPaths
from diel.store.journal.history import History
from diel.store.journal.snapshot import read_run

Record = dict[str, Any]


class Project:
    """A directory with a workflow file, modules and data, in which `diel` is called."""

    def __init__(self, folder: Path, name: str = "flow") -> None:
        self.folder = folder
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)

    def workflow(self, text: str) -> Self:
        """Writes the workflow file; `diel:` and `name:` are put in front."""
        head = f"diel: 1\nname: {self.name}\n"
        (self.folder / f"{self.name}.yaml").write_text(head + textwrap.dedent(text), encoding="utf-8")
        return self

    def module(self, name: str, text: str) -> Self:
        """Writes a file of modules."""
        path = self.folder / "modules" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import diel\n{textwrap.dedent(text)}", encoding="utf-8")
        return self

    def machine(self, name: str, cores: int, *more: str) -> Self:
        """Writes a site: this machine with so many cores."""
        path = self.folder / "schedulers" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        lines = [f"name: {name}", "scheduler: local", *more, f"pools: {{local: {{cores: {cores}}}}}"]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self

    def environment(self) -> dict[str, str]:
        return {k: v for k, v in os.environ.items() if not k.startswith("DIEL_")}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts `diel` and leaves it alone."""
        return subprocess.Popen(
            [sys.executable, "-m", "diel", *words],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def diel(self, *words: str, code: int | None = 0, seconds: float = 60) -> str:
        """Calls `diel` and returns all that it said; its exit code must be as expected."""
        return self.end(self.start(*words), code, seconds)

    def end(self, process: subprocess.Popen[str], code: int | None = 0, seconds: float = 60) -> str:
        """Waits for a `diel` that was started; a hang fails the test and leaves no process behind."""
        try:
            out, err = process.communicate("keystrokes that no task may read\n", timeout=seconds)
        except subprocess.TimeoutExpired:
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"not done after {seconds} s:\n{out}{err}") from None
        said = out + err
        if code is not None:
            assert process.returncode == code, f"exit code {process.returncode}:\n{said}"
        assert "Traceback" not in said, said
        return said

    def run(self, *words: str, code: int | None = 0) -> Run:
        """`diel run`; returns the newest run."""
        self.diel("run", f"{self.name}.yaml", *words, code=code)
        return self.newest()

    def newest(self) -> Run:
        numbers = [int(p.name.rpartition("-")[2]) for p in (self.folder / "runs").glob(f"{self.name}-*")]
        return Run(self.folder / "runs" / f"{self.name}-{max(numbers)}")

    def runs(self) -> int:
        return len(list((self.folder / "runs").glob("*")))


class Run:
    """What a run left behind."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.id = root.name

    def records(self, event: str = "", stage: str = "") -> list[Record]:
        """The journal's whole lines."""
        lines: list[Record] = []
        for segment in sorted((self.root / "journal").glob("*.jsonl")):
            whole = segment.read_bytes().rpartition(b"\n")[0]
            lines += [json.loads(line.decode("utf-8", "surrogateescape")) for line in whole.splitlines()]
        return [
            line
            for line in lines
            if (not event or line["event"] == event) and (not stage or line.get("stage") == stage)
        ]

    def history(self) -> History:
        """The folded journal, which must be the same with the snapshot and without."""
        fast = read_run(RunPaths(self.root)).history
        slow = read_run(RunPaths(self.root), snapshot=False).history
        for name, stage in slow.stages.items():
            assert fast.stages[name].counts() == stage.counts()
        assert fast.state == slow.state
        return slow

    def counts(self, stage: str) -> dict[str, int]:
        """How many tasks of a stage are in each state; states without a task are left out."""
        return {state: n for state, n in self.history().stages[stage].counts().items() if n}

    def results(self, stage: str) -> dict[int, Record]:
        """The committed result of each task."""
        done = [r for r in self.records(stage=stage) if r["event"] in ("done", "cached")]
        assert len({r["index"] for r in done}) == len(done), "a task has two results"
        return {r["index"]: r for r in sorted(done, key=lambda r: int(r["index"]))}

    def values(self, stage: str, name: str) -> list[Any]:
        """One value of all tasks of a stage that have a result, in order."""
        return [r["values"][name] for r in self.results(stage).values()]

    def value(self, stage: str, name: str) -> Any:
        """A value of a stage with one task."""
        values = self.values(stage, name)
        assert len(values) == 1, self.records("fail", stage)
        return values[0]

    def failure(self, stage: str, index: int = 0) -> Record:
        """Why a task failed."""
        return dict(self.history().failures[(stage, index)])

    def attempts(self, stage: str, index: int = 0) -> list[int]:
        """The attempts that began, in order."""
        begun = [r for r in self.records("start", stage) if r["index"] == index]
        return [r["attempt"] for r in sorted(begun, key=lambda r: float(r["time"]))]

    def task_dir(self, stage: str, index: int = 0, attempt: int = 1) -> Path:
        return self.root / "tasks" / stage / (str(index) if attempt == 1 else f"{index}.{attempt}")

    def stdout(self, stage: str, index: int = 0, attempt: int = 1) -> str:
        path = self.task_dir(stage, index, attempt) / "stdout"
        return path.read_bytes().decode("utf-8", "surrogateescape")

    def stderr(self, stage: str, index: int = 0, attempt: int = 1) -> str:
        return (self.task_dir(stage, index, attempt) / "stderr").read_text(encoding="utf-8")

    def artifact(self, stage: str, name: str, index: int = 0) -> Path:
        record = self.results(stage)[index]
        home = self.root.parent / record.get("run", self.id)
        path: Path = home / record["artifacts"][name]["path"]
        return path

    def workers(self) -> int:
        """How many worker processes began."""
        return len(self.records("worker"))

    def processes(self) -> list[psutil.Process]:
        """Every living process that belongs to the run, wherever it hides; the controller apart."""
        return [p for p in psutil.process_iter() if _environment(p).get("DIEL_RUN_DIR") == str(self.root)]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return {}
        return dict(process.environ())
    except (psutil.Error, OSError):
        return {}


def wait_for(
    condition: Callable[[], object],
    seconds: float = 60,
    words: Callable[[], str] = lambda: "it took too long",
) -> None:
    """Waits until a condition holds; so long only where a machine is busy."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, words()
        time.sleep(0.02)
