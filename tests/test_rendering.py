"""Templates in whole runs: what a task gets, what is computed again, and mistakes at the template's own lines."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.throwaway import Project

FLOW = """
hyperparameters: {tol: {type: float, default: 1e-10}}
axes: {material: {values: [si, ge]}}
stages:
  mesh:
    over: [material]
    command: 'echo ${{ material }} | tee mesh.txt; echo n = 7'
    outputs: {mesh: mesh.txt, n: {value: int, match: 'n = (.*)'}}
  solve:
    over: [material]
    inputs: {mesh: mesh.mesh}
    files: {pot: pot.dat, deck: {template: deck.in, path: "in/${{ material }}.in"}, go: {template: go.sh}}
    command: 'cat ${{ files.deck }}; ${{ files.go }}'
"""
DECK = """&control prefix = ${{ fortran(material) }}, tol = ${{ fortran(hp.tol) }} /
mesh ${{ inputs.mesh }} n ${{ mesh.n }} bytes ${{ size(inputs.mesh) }} ${{ size(files.pot) }} task ${{ task.id }} ${HOME} $((1+2)) $${{ x }}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "deck.in").write_text(DECK)
    (tmp_path / "pot.dat").write_text("12345")
    (tmp_path / "go.sh").write_text("#!/bin/sh\necho go ${{ run.id }}\n")
    os.chmod(tmp_path / "go.sh", 0o755)
    return Project(tmp_path).workflow(FLOW)


def test_a_template_is_filled_in_for_each_task_and_a_script_can_be_run(project: Project) -> None:
    run = project.run()
    mesh = run.artifact("mesh", "mesh", 1)
    assert run.stdout("solve", 1).splitlines() == [
        "&control prefix = 'ge', tol = 1.0d-10 /",
        f"mesh {mesh} n 7 bytes 3 5 task solve/1 ${{HOME}} $((1+2)) ${{{{ x }}}}",
        "go flow-1",
    ]
    assert (run.task_dir("solve", 0) / "in" / "si.in").is_file()


def test_what_is_filled_in_is_the_key_and_not_where_it_lies(project: Project) -> None:
    project.run()
    assert "4 cached" in project.diel("run", "flow.yaml")
    (project.folder / "other.in").write_text(DECK.replace("hp.tol", "1e-10"))
    project.workflow(FLOW.replace("deck.in", "other.in").replace("| tee", "| cat | tee"))
    assert "4 tasks done (2 cached)" in project.diel("run", "flow.yaml")  # another mesh of the same content
    (project.folder / "other.in").write_text(DECK.replace("tol =", "conv ="))
    assert "4 tasks done (2 cached)" in project.diel("run", "flow.yaml")
    told = project.diel("explain", "solve/0")
    assert re.search(r"files\.deck changed: .*tol = .* → .*conv = ", told)


def test_a_run_keeps_its_templates_as_it_keeps_its_workflow(project: Project) -> None:
    gate = project.folder / "now"
    (project.folder / "go.sh").write_text(f"#!/bin/sh\ntest -e {gate} && echo ${{{{ task.index }}}}\n")
    run = project.run(code=1)
    gate.touch()
    (project.folder / "go.sh").unlink()
    before = (project.folder / "deck.in").read_text()
    (project.folder / "deck.in").write_text("${{ nothing }}")
    assert "deck.in: its content is another (read by solve)" in project.diel("resume", code=2)
    assert "no name 'nothing'" in project.diel("resume", "--update", code=2)
    (project.folder / "deck.in").write_text(before)
    project.diel("resume")
    assert run.stdout("solve", 1, 2).splitlines()[-1] == "1"


def test_mistakes_are_told_all_at_once_and_where_they_are(project: Project) -> None:
    (project.folder / "deck.in").write_text(
        "a ${{ materal }} materal ${{ hp.tl }}\n\n ${{ 1/0 }} ${{ x + }}\n"
        "é ${{ mesh.m }} ${{ fromat(1) }}\n${{ params.z }} ${{ open"
    )
    said = project.diel("validate", "flow.yaml", code=2)
    assert re.findall(r"deck.in:(\d+:\d+): stages.solve.files.deck: (\S+ \S+)", said) == [
        ("1:7", "no name"),
        ("1:30", "no 'tl'"),
        ("3:6", "division by"),
        ("3:20", "the expression"),
        ("4:7", "'mesh' makes"),
        ("4:21", "unknown function"),
        ("5:5", "no 'z'"),
        ("5:17", "the expression"),
    ]
    assert "did you mean 'material'?" in said


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a\n caf\xe9", "deck.in:2:5: stages.solve.files.deck: byte 0xe9 is not UTF-8"),
        (b"a\n\0", "deck.in:2:1: stages.solve.files.deck: a NUL character"),
        (b"a" * (1 << 20) + b"a", "stages.solve.files.deck.template: deck.in is larger than 1 MiB"),
        (None, "stages.solve.files.deck.template: no file 'deck.in' in ."),
    ],
)
def test_what_is_no_template_is_refused(project: Project, content: bytes | None, told: str) -> None:
    (project.folder / "deck.in").unlink()
    if content is not None:
        (project.folder / "deck.in").write_bytes(content)
    assert told in project.diel("validate", "flow.yaml", code=2)


def test_a_value_that_would_leave_the_directory_fails_its_task_alone(project: Project) -> None:
    project.workflow(FLOW.replace("values: [si, ge]", "values: [si, ../../x]"))
    run = project.run(code=1)
    assert run.counts("solve") == {"done": 1, "failed": 1}
    failure = run.failure("solve", 1)
    assert failure["message"] == "files.deck: a path with `..` leaves the task's directory: 'in/../../x.in'"


def test_a_module_gets_the_path_and_what_is_missing_in_a_value_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "deck.in").write_text("# ${{ i }}\nx = ${{ 1 / i }}\n")
    project = Project(tmp_path).module(
        "m",
        "@diel.module(kind='analysis')\ndef read(deck: str) -> dict:\n    return {'text': open(deck).read()}\n",
    )
    project.workflow("""
        axes: {i: {range: 2}}
        stages:
          read:
            module: "m:read"
            over: [i]
            files: {deck: {template: deck.in}}
            params: {deck: "${{ files.deck }}"}
        """)
    run = project.run(code=1)
    assert run.results("read")[1]["values"] == {"text": "# 1\nx = 1.0\n"}
    assert run.failure("read", 0)["message"].startswith("deck.in:2: division by zero")


def test_a_template_has_the_paths_of_inputs_that_are_staged(project: Project) -> None:
    disk = project.folder / "disk"
    project.machine("mine", 2, f"local: {{dir: {disk}}}")
    project.workflow(
        FLOW.replace("inputs: {mesh: mesh.mesh}", "inputs: {mesh: {from: mesh.mesh, stage: node}}")
    )
    place = project.run("--site", "mine").stdout("solve", 1).splitlines()[1].split()[1]
    assert Path(place).is_relative_to(disk)
    assert Path(place).read_text() == "ge\n"
    assert "bytes 3" in project.newest().stdout("solve", 1)
    assert "4 tasks done (4 cached)" in project.diel("run", "flow.yaml")
