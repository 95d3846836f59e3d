"""Texts run by the shell that their workflow names: crashes before a pipe are failures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.throwaway import Project, Run

SHELLS = """
    axes: {v: {values: ["it's $(x) \\"y\\""]}}
    stages:
      hidden: {command: '(echo 1; exit 9) | cat > f', outputs: {f: f}}
      cut: {command: 'seq 100000 | head -1'}
      middle: {command: "false; true"}
      posix: {command: '(echo 1; exit 9) | cat > f', shell: sh, outputs: {f: f}}
      bash: {command: 'a=(1 2); [[ ${#a[@]} == 2 ]] && cat <<< ${{ v }} > f', over: [v], outputs: {f: f}}
      python: {command: 'open("f", "w").write("1")', shell: [python3, -c], outputs: {f: f}}
      gone: {command: "true", env: {PATH: /nowhere}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("shells")).workflow(SHELLS)
    project.run(code=1)
    return project


def test_a_crash_before_a_pipe_fails_its_task(project: Project) -> None:
    run = project.newest()
    states = {
        name: next(iter(run.counts(name))) for name in ("hidden", "cut", "middle", "posix", "bash", "python")
    }
    assert states == {"hidden": "failed", "cut": "failed", "middle": "failed", "posix": "done", "bash": "done", "python": "done"}  # fmt: skip


def test_a_reader_that_ends_first_is_told_as_such(project: Project) -> None:
    assert "exit code 141" in project.diel("explain", "last", "cut/0")
    assert "| head -1" in project.diel("explain", "last", "cut/0")


def test_a_shell_that_a_node_lacks_is_a_failed_launch(project: Project) -> None:
    (record,) = project.newest().records("failed", "gone")
    assert (record["class"], "no program 'bash' on PATH" in record["message"]) == ("launch", True)


def test_another_shell_computes_anew_and_the_same_does_not(tmp_path: Path) -> None:
    project = Project(tmp_path)
    text = "shell: SHELL\nstages:\n  a: {command: 'echo 1'}\n  b: {command: [echo, '1']}\n"
    for shell in ("sh", "bash", "[bash, -e, -o, pipefail, -c]"):
        project.workflow(text.replace("SHELL", shell)).run()
        project.diel("explain", "last")
    first, second, third = (Project(tmp_path).newest().root.parent / f"flow-{n}" for n in (1, 2, 3))
    assert Run(first).counts("a") == {"done": 1}
    assert (Run(second).counts("a"), Run(second).counts("b")) == ({"done": 1}, {"cached": 1})
    assert Run(third).counts("a") == {"cached": 1}
    told = project.diel("explain", "flow-2", "a/0")
    assert "shell: /bin/sh -e -c → bash -e -o pipefail -c" in told


def test_values_for_another_language_than_the_shells_are_refused(tmp_path: Path) -> None:
    text = (
        "axes: {n: {range: 2}}\nstages:\n  s: {over: [n], shell: [python3, -c], command: 'print(${{ n }})'}\n"
    )
    said = Project(tmp_path).workflow(text).diel("validate", "flow.yaml", code=2)
    assert "flow.yaml:5:60: stages.s.command: a value cannot be quoted for python3" in said


def test_a_shell_that_is_not_here_is_told_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("mkdir", "sh"):
        os.symlink(f"/bin/{name}", tmp_path / "bin" / name)
    project = Project(tmp_path).workflow("stages:\n  s: {command: 'true'}\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for word in ("validate", "run"):
        said = project.diel(word, "flow.yaml", code=2)
        assert "flow.yaml:4:16: stages.s.command: the shell 'bash' is not on this machine" in said
        assert "shell: sh" in said
    assert not (tmp_path / "runs").exists()
