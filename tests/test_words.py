"""What newcomers type, which is right or refused with what to do instead."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.throwaway import Project
from tests.written import Written

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def runs(workspace: Path) -> Path:
    Written(workspace / "runs").done(0).end("succeeded")
    return workspace / "runs"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["status", "a/2"], "status is of a run or a stage; `diel explain w-1 a/2`"),
        (["status", "a", "i=2"], "`diel explain w-1 a i=2` tells the state of a task"),
        (["graph", "-o", "g.jpg"], "g.jpg: no format ends in .jpg; there are .svg"),
        (["graph", "--format", "png"], "png is no text: name a file, -o graph.png"),
        (["report", "-o", "r.png"], "a report is a page or Markdown, and not .png: -o run.html makes a page"),
        (["logs", "a", "5"], "write a/5, with a slash"),
        (["logs", "a"], "choose one, or its point: a NAME=VALUE"),
        (["help"], "`diel COMMAND --help` explains one"),
        (["version"], "`diel --version` says which this is"),
        (["stop"], "`diel cancel [RUN]` stops a run"),
        (["check"], "`diel validate FILE` checks a workflow"),
        (["stats"], "did you mean 'status'?"),
    ],
)
def test_what_cannot_be_done_says_what_can(runs: Path, capsys: Capture, words: list[str], told: str) -> None:
    said = call(capsys, *words)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert not [*runs.parent.glob("[gr].*")], "nothing is written"


def test_ls_is_list(runs: Path, capsys: Capture) -> None:
    assert call(capsys, "ls").out == call(capsys, "list").out != ""


@pytest.mark.parametrize(
    "words", [["-h"], ["params", "-h"], ["params", "set", "-h"], ["stream", "space", "-h"], ["run", "-h"]]
)
def test_help_is_there_in_groups_too(capsys: Capture, words: list[str]) -> None:
    said = call(capsys, *words)
    assert (said.code, said.out[:6]) == (0, "Usage:")


@pytest.mark.parametrize(("command", "option"), [("run", "-n"), ("run", "--dry-run"), ("submit", "-n")])
def test_a_dry_run_is_the_plan(
    workspace: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str, option: str
) -> None:
    monkeypatch.setenv("DIEL_SITE", "local")
    Project(workspace).workflow('stages: {a: {command: "touch made"}}')
    dry = call(capsys, command, option, "flow.yaml")
    assert (dry.code, dry.out) == (0, call(capsys, "plan", "flow.yaml").out)
    assert not (workspace / "runs").exists()


def test_the_ending_of_a_workflow_is_told(workspace: Path, capsys: Capture) -> None:
    Project(workspace).workflow('stages: {a: {command: "true"}}')
    assert "did you mean 'flow.yaml'?" in call(capsys, "run", "flow").err


@pytest.mark.parametrize("command", ["run", "validate", "plan", "submit"])
def test_a_program_is_no_workflow(workspace: Path, capsys: Capture, command: str) -> None:
    (workspace / "study.py").write_text("import math\n")
    said = call(capsys, command, "study.py")
    assert said.code == 2
    assert "this is a .py file, and the workflow is a YAML file" in said.err
    assert "`command: [python, FILE.py]`" in said.err


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz's dot is not installed")
@pytest.mark.parametrize(("name", "begin"), [("g.png", b"\x89PNG"), ("g.PDF", b"%PDF"), ("g.svg", b"<?xml")])
def test_a_picture_is_one(workspace: Path, capsys: Capture, name: str, begin: bytes) -> None:
    Project(workspace).workflow('stages: {a: {command: "true"}}')
    assert call(capsys, "graph", "flow.yaml", "-o", name).code == 0
    assert (workspace / name).read_bytes().startswith(begin)


def test_without_graphviz_a_picture_is_refused(
    workspace: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Project(workspace).workflow('stages: {a: {command: "true"}}')
    monkeypatch.setenv("PATH", str(workspace))
    said = call(capsys, "graph", "flow.yaml", "-o", "g.png")
    assert said.code == 1
    assert "PNG needs graphviz's program `dot`" in said.err
    assert not (workspace / "g.png").exists()


@pytest.mark.parametrize(
    ("command", "output", "warned"),
    [
        ("awk -f fit.awk > resutls.csv", "results.csv", "it names 'resutls.csv'"),
        ("./solve --out result.csv", "results.csv", "it names 'result.csv'"),
        ("awk -f fit.awk > results.csv", "results.csv", ""),
        ("./solve ${{ outputs.table }}", "results.csv", ""),
        ("./solve input.csv", "results.csv", ""),  # it may write to a place of its own
        ("./join part1.csv", "part2.csv", ""),
        ("./solve train.csv", "trace.csv", ""),
    ],
)
def test_an_output_that_is_called_nearly_as_a_file_of_the_command_is_warned_of(
    workspace: Path, capsys: Capture, command: str, output: str, warned: str
) -> None:
    Project(workspace).workflow(f"stages: {{a: {{command: '{command}', outputs: {{table: {output}}}}}}}")
    said = call(capsys, "validate", "flow.yaml")
    assert said.code == 0
    assert (warned in said.err) if warned else said.err == ""
    assert len(json.loads(call(capsys, "validate", "flow.yaml", "--json").out)["warnings"]) == bool(warned)


def test_the_directory_of_an_output_is_there_before_the_command(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        stages:
          a:
            files: {src: src}
            command: "test ! -e case/sub/log.txt; cp -r ${{ files.src }} case; cp -r ${{ files.src }}/. case; touch case/sub/log.txt; ls case"
            outputs: {log: case/sub/log.txt}
        """)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "in.txt").touch()
    assert project.run().stdout("a").split() == ["in.txt", "src", "sub"]
