"""A package outside of diel brings a scheduler or a searcher: one file, an entry point, and everything takes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

TINY = '''
"""A scheduler whose jobs are processes of this machine: a folder a job, in TINY_STATE."""

import os
import subprocess
from pathlib import Path

import psutil

from diel.site.scheduler import JobState, JobStatus, Scheduler, SchedulerBusy, SchedulerRefused


class Tiny(Scheduler):
    commands = ("tiny-run",)
    sentinel = "#TINY"
    redirects = True
    hosts = "echo here"

    def directives(self, job):
        yield f"name={job.name}"

    def submit(self, script):
        if "queue nowhere" in script.read_text():
            raise SchedulerRefused("no such queue")
        answer = self.ask("tiny-run", str(script))
        if answer.code != 0:
            raise SchedulerBusy(f"tiny-run: {answer.words}")
        return answer.out.strip()

    def query(self, ids):
        return {number: self._status(number) for number in ids if (state() / number).exists()}

    def cancel(self, ids):
        for number in ids:
            try:
                psutil.Process(int(number)).terminate()
            except psutil.NoSuchProcess:
                pass

    def find(self, prefix):
        names = {folder.name: (folder / "name").read_text() for folder in state().iterdir()}
        live = {number for number in names if not self._status(number).state.ended}
        return {name: number for number, name in names.items() if number in live and name.startswith(prefix)}

    def _status(self, number):
        code = state() / number / "code"
        if code.exists() and code.read_text():
            ended = JobState.COMPLETED if code.read_text() == "0" else JobState.FAILED
            return JobStatus(ended, "", int(code.read_text()))
        running = psutil.pid_exists(int(number)) and psutil.Process(int(number)).status() != "zombie"
        return JobStatus(JobState.RUNNING if running else JobState.CANCELLED, "", None, "here")


def state():
    return Path(os.environ["TINY_STATE"])
'''
RUN = """\
#!/bin/bash
( d="$TINY_STATE/$BASHPID"; mkdir "$d"; sed -n 's/^#TINY name=//p' "$1" | tr -d '\\n' > "$d/name"; echo $BASHPID >&3
  exec 3>&- >/dev/null 2>&1
  bash "$1" & trap 'kill $!; exit' TERM; wait $!; printf %s $? > "$d/code" ) 3>&1 >/dev/null 2>&1 </dev/null &
sleep 0.3
"""
SITE = """
name: tiny
scheduler: tiny
poll: 0.2s
pools: {cpu: {cores: 1, walltime: 5m, idle: 1s}}
"""
FLOW = """
diel: 1
name: flow
axes: {n: {range: 3}}
stages:
  square: {over: [n], command: [sh, -c, 'echo "$1" > out.txt', sh, "${{ n }}"], outputs: {out: out.txt}}
"""


class Outside:
    """A folder with packages, and diel called in a process that finds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages, state, programs = folder / "packages", folder / "state", folder / "bin"
        for made in (self.packages, state, programs, folder / "schedulers"):
            made.mkdir()
        (programs / "tiny-run").write_text(RUN, encoding="utf-8")
        (programs / "tiny-run").chmod(0o755)
        (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
        self.environ = {
            **os.environ,
            "PYTHONPATH": str(self.packages),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "TINY_STATE": str(state),
            "XDG_CONFIG_HOME": str(folder),
        }

    def package(self, name: str, text: str, group: str, **points: str) -> None:
        """A package of one file, as an installer leaves it."""
        (self.packages / f"{name}.py").write_text(text, encoding="utf-8")
        info = self.packages / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
        )
        lines = [f"[{group}]", *(f"{point} = {target}" for point, target in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def site(self, text: str = SITE) -> None:
        (self.folder / "schedulers" / "tiny.yaml").write_text(textwrap.dedent(text), encoding="utf-8")

    def diel(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "diel", *words]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def json(self, *words: str) -> Any:
        return json.loads(self.diel(*words, "--json").stdout)


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


def test_a_scheduler_of_an_outside_package_runs_a_workflow(outside: Outside) -> None:
    outside.package("tinysched", TINY, "diel.schedulers", tiny="tinysched:Tiny")
    outside.site()
    for words in (["validate", "flow.yaml", "--site", "tiny"], ["plan", "flow.yaml", "--site", "tiny"]):
        said = outside.diel(*words)
        assert said.returncode == 0, said.stderr
    scripts = outside.diel("plan", "flow.yaml", "--site", "tiny", "--scripts")
    assert "#TINY name=" in scripts.stdout
    checks = {each["name"]: each for each in outside.json("doctor", "--site", "tiny")["checks"]}
    assert checks["commands"]["found"].endswith("bin/tiny-run")
    assert checks["scheduler"]["ok"], checks["scheduler"]
    run = outside.diel("run", "flow.yaml", "--site", "tiny")
    assert run.returncode == 0, run.stderr
    status = outside.json("status")
    assert status["state"] == "succeeded"
    assert {block["nodes"] for block in status["blocks"]} <= {"here", ""}
    assert not list(outside.folder.glob("state/*/name")) or status["blocks"]


def test_an_unknown_scheduler_is_told_with_those_that_are_installed(outside: Outside) -> None:
    outside.package("tinysched", TINY, "diel.schedulers", tiny="tinysched:Tiny")
    outside.site(SITE.replace("scheduler: tiny", "scheduler: tinny"))
    said = outside.diel("validate", "flow.yaml", "--site", "tiny")
    assert said.returncode == 2
    assert "tiny.yaml:3:12" in said.stderr
    assert "expected one of local, flux, lsf, pbs, slurm, tiny, torque; found 'tinny'" in said.stderr
    assert "did you mean 'tiny'?" in said.stderr


@pytest.mark.parametrize(
    ("text", "target", "told"),
    [
        ("import nothing_of_that_name", "tinysched:Tiny", "No module named 'nothing_of_that_name'"),
        ("raise RuntimeError('odd')", "tinysched:Tiny", "RuntimeError: odd"),
        ("x = 1", "tinysched:Tiny", "has no attribute 'Tiny'"),
        ("x = 1", "tinysched:x", "is not a class derived from diel.site.scheduler.Scheduler"),
        (
            TINY.replace("def query", "def ask_for").replace("def find", "def seek"),
            "tinysched:Tiny",
            "lacks find, query",
        ),
    ],
)
def test_a_scheduler_that_cannot_be_used_is_told_and_disturbs_no_other(
    outside: Outside, text: str, target: str, told: str
) -> None:
    outside.package("tinysched", text, "diel.schedulers", tiny=target)
    outside.site()
    said = outside.diel("submit", "flow.yaml", "--site", "tiny")
    assert said.returncode == 2, said
    assert f"'tiny' in diel.schedulers ({target}, of tinysched)" in said.stderr
    assert told in said.stderr
    assert "Traceback" not in said.stderr
    assert not (outside.folder / "runs").exists()
    assert outside.diel("plan", "flow.yaml", "--site", "slurm", "--scripts").returncode == 0


def test_two_packages_with_one_name_are_told(outside: Outside) -> None:
    outside.package("tinysched", TINY, "diel.schedulers", slurm="tinysched:Tiny")
    said = outside.diel("validate", "flow.yaml", "--site", "slurm")
    assert said.returncode == 2
    assert "two installed packages have a 'slurm' in diel.schedulers" in said.stderr
    assert "tinysched:Tiny of tinysched" in said.stderr


# --- a searcher -----------------------------------------------------------------------------------

HALVING = '''
"""Halves the interval around the best value so far."""

from diel.controller.search import Searcher, TrialState


class Halving(Searcher):
    def __init__(self, search, space, seed):
        super().__init__(search, space, seed)
        self.asked, self.told = [], {}

    @classmethod
    def refusal(cls, search, parameters):
        return "" if len(parameters) == 1 else "it varies one hyperparameter"

    def ask(self):
        ((name, given),) = self.space.parameters.items()
        best = min(self.told, key=self.told.get, default=None)
        middle = (given.low + given.high) / 2 if best is None else self.asked[best]
        step = (given.high - given.low) / 2 ** (len(self.asked) + 1) * (-1) ** len(self.asked)
        self.asked.append(middle + step)
        return {name: self.asked[-1]}

    def tell(self, number, state, values):
        if state is TrialState.COMPLETE:
            self.told[number] = values[0]
'''
SEARCH = """
diel: 1
name: flow
hyperparameters: {x: {type: float, low: 0.0, high: 8.0}}
axes: {t: {search: {sampler: halving, trials: 4, minimize: far.value, parameters: [x]}}}
stages:
  far:
    over: [t]
    env: {X: "${{ hp.x }}"}
    command: |
      python3 -c 'import json, os; json.dump({"value": abs(float(os.environ["X"]) - 3)}, open(os.environ["DIEL_RESULT"], "w"))'
    outputs: {value: {value: float}}
"""


def test_a_searcher_of_an_outside_package_makes_the_trials_of_a_search(outside: Outside) -> None:
    outside.package("halvingsearch", HALVING, "diel.searchers", halving="halvingsearch:Halving")
    (outside.folder / "flow.yaml").write_text(SEARCH, encoding="utf-8")
    assert "halving" in outside.diel("schema").stdout
    run = outside.diel("run", "flow.yaml")
    assert run.returncode == 0, run.stderr
    search = outside.json("status")["axes"]["t"]
    assert search["sampler"] == "halving"
    assert search["trials"]["complete"] == 4
    assert search["best"]["hp"] == {"x": 5.5}
    two = SEARCH.replace("parameters: [x]", "parameters: [x, y]").replace(
        "high: 8.0}}", "high: 8.0}, y: {type: float, low: 0.0, high: 1.0}}"
    )
    (outside.folder / "flow.yaml").write_text(
        two.replace("env: {", 'env: {Y: "${{ hp.y }}", '), encoding="utf-8"
    )
    said = outside.diel("run", "flow.yaml")
    assert said.returncode == 2
    assert "axis 't' searches with halving: it varies one hyperparameter" in said.stderr


def test_an_unknown_sampler_is_told_with_those_that_are_installed(outside: Outside) -> None:
    outside.package("halvingsearch", HALVING, "diel.searchers", halving="halvingsearch:Halving")
    (outside.folder / "flow.yaml").write_text(SEARCH.replace("halving", "halvin"), encoding="utf-8")
    said = outside.diel("validate", "flow.yaml")
    assert said.returncode == 2
    assert (
        "expected one of random, grid, tpe, cmaes, nsga2, gp, qmc, pbt, halving; found 'halvin'"
        in said.stderr
    )
    assert "did you mean 'halving'?" in said.stderr


def test_a_searcher_that_cannot_be_loaded_is_told_before_anything_is_made(outside: Outside) -> None:
    outside.package(
        "halvingsearch",
        HALVING.replace("def tell", "def told"),
        "diel.searchers",
        halving="halvingsearch:Halving",
    )
    (outside.folder / "flow.yaml").write_text(SEARCH, encoding="utf-8")
    said = outside.diel("run", "flow.yaml")
    assert said.returncode == 2
    assert "'halving' in diel.searchers (halvingsearch:Halving, of halvingsearch) lacks tell" in said.stderr
    assert not (outside.folder / "runs").exists()
