"""A result depends neither on where diel is called, nor on files that happen to be named as libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.throwaway import Project

NAMES = ("json", "pickle", "queue", "types", "psutil", "random", "numbers", "xxhash", "helper")
FLOW = """
stages:
  mean: {module: "statistics:mean", params: {data: [1, 3]}}
  apart:
    module: "statistics:mean"
    environment: own
    params: {data: [1, 3]}
    files:
      json: {template: bad.py, path: json.py}
      pickle: {template: bad.py, path: pickle.py}
      statistics: {template: bad.py, path: statistics.py}
  word: {command: [echo, good]}
environments: {own: {variables: {OWN: 1}}}
"""


@pytest.mark.parametrize(("place", "variable"), [("", ""), ("elsewhere", ""), ("elsewhere", ":")])
def test_files_named_as_libraries_stop_and_replace_nothing(tmp_path: Path, place: str, variable: str) -> None:
    """Not where diel is called, not beside the workflow, not in a task's directory."""
    project = Project(tmp_path).workflow(FLOW)
    (tmp_path / "bad.py").write_text("raise SystemExit('not a library')\n")
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not a library')\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "statistics.py").write_text("def mean(data):\n    return 1000\n")
    program = Path(sys.executable).parent / "diel"
    words = [str(one) for one in (program, "run", tmp_path / "flow.yaml", "--runs", tmp_path / "runs")]
    env = {**os.environ, "PYTHONPATH": variable}  # an empty entry means the current directory
    done = subprocess.run(words, cwd=tmp_path / place, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = project.newest()
    assert run.value("mean", "result") == run.value("apart", "result") == 2


def test_variables_that_nobody_declares_are_said_and_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path).workflow(
        """
        stages:
          steps: {command: 'echo ${SIM_STEPS:-10} ${TZ} ${LC_ALL:-none} ${OTHER_OF_MINE:-unset}'}
          own: {command: "echo $SIM_STEPS", env: {SIM_STEPS: 7}}
          hidden: {command: "env | grep ^SIM_STEPS=", retries: 0}
        """
    )
    said = []
    for steps in ("500", "600", "500"):
        monkeypatch.setenv("SIM_STEPS", steps)
        monkeypatch.setenv("TZ", "Europe/Berlin")
        monkeypatch.setenv("LC_ALL", "C")
        assert "$SIM_STEPS" in project.diel("validate", "flow.yaml")
        told = project.diel("run", "flow.yaml", code=1)
        assert told.count("the command reads $SIM_STEPS, which nothing declares") == 1
        assert f'env: {{SIM_STEPS: "{steps}"}}' in told
        run = project.newest()
        said.append(project.diel("logs", run.id, "steps").split()[-4:])
        assert run.counts("hidden") == {"failed": 1}, "what no text names is not there"
    assert said == [[steps, "UTC", "none", "unset"] for steps in ("500", "600", "500")]
    assert run.counts("steps") == {"cached": 1}
    monkeypatch.setenv("SIM_STEPS", "900")
    project.diel("resume", run.id, code=1)
    assert run.counts("steps") == {"cached": 1}, "a run keeps what it began with"


def test_a_users_quantity_that_is_called_like_a_machines_variable_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path).workflow(
        """
        stages:
          flux: {command: 'for n in a b; do x=$n; echo $x; done; echo "{\\"v\\": ${FLUX:-1}}" > $DIEL_RESULT'}
          script: {command: "sh run.sh", files: {s: {template: run.sh}}}
        """
    )
    (tmp_path / "run.sh").write_text('echo "{\\"v\\": ${TEMP:-1}}" > $DIEL_RESULT\n')
    assert "$x" not in project.diel("validate", "flow.yaml")
    for value in (2, 3):
        monkeypatch.setenv("FLUX", str(value))
        monkeypatch.setenv("TEMP", str(10 * value))
        assert "the command reads $FLUX, which nothing declares: it is that" in project.diel(
            "run", "flow.yaml"
        )
        run = project.newest()
        assert (run.value("flux", "v"), run.value("script", "v")) == (value, 10 * value)


def test_another_path_at_resume_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path).workflow("stages: {s: {command: 'test -e ../../../../../go'}}")
    run = project.run(code=1)
    assert "changed since" not in project.diel("resume", run.id, code=1)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    said = project.diel("resume", run.id, code=1)
    told = "tasks that are left find programs as in this shell, and what is recorded holds"
    assert f"PATH changed since {run.id} began: {told}" in said


def test_variables_that_nobody_declares_reach_every_environment_unless_it_sets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path).workflow(
        """
        environments:
          v: {variables: {Q: 1}}
          s: {setup: ["export Q=1"]}
          c: {conda: conda}
          own: {setup: ["export SIM_STEPS=7"]}
          hidden: {setup: [". ./hidden.sh"]}
          reads: {setup: ["export TWICE=$(( SIM_STEPS * 2 ))"]}
        templates: {any: {command: 'echo ${SIM_STEPS:-10} ${TWICE:-none}'}}
        stages:
          v: {extends: any, environment: v}
          s: {extends: any, environment: s}
          c: {extends: any, environment: c}
          own: {extends: any, environment: own}
          hidden: {extends: any, environment: hidden}
          chosen: {extends: any, environment: "${{ 's' if task.index == 0 else 'c' }}"}
          reads: {command: 'echo 0 $TWICE', environment: reads}
        """
    )
    (tmp_path / "conda" / "conda-meta").mkdir(parents=True)
    (tmp_path / "hidden.sh").write_text("export SIM_STEPS=8\n")
    for steps in ("500", "600"):
        monkeypatch.setenv("SIM_STEPS", steps)
        said = project.diel("run", "flow.yaml")
        run = project.newest()
        found = {stage: (run.root / f"tasks/{stage}/0/stdout").read_text().split() for stage in "vsc"}
        assert found == {stage: [steps, "none"] for stage in "vsc"}
        printed = [project.diel("logs", run.id, stage).split()[-2:] for stage in ("own", "hidden", "chosen")]
        assert printed == [["7", "none"], ["8", "none"], [steps, "none"]]
        assert project.diel("logs", run.id, "reads").split()[-1] == str(2 * int(steps))
        warned = "the command reads $SIM_STEPS, which nothing declares: it is that of this shell"
        assert said.count(warned) == 6, said
        assert said.count(f"{warned} unless its environment sets another") == 5
    assert run.counts("own") == {"cached": 1}
