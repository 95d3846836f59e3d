"""Results of earlier runs are used exactly where nothing that they depend on has changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.throwaway import Project, Run

WORKFLOW = """
    hyperparameters:
      rate: {type: float, default: 0.5, low: 0, high: 1}
      other: {type: int, default: 1, low: 0, high: 9}
    axes:
      n: {values: NUMBERS}
      part: {from: split.parts}
    stages:
      table: {command: 'sort ${{ files.data }} > sorted.txt', files: {data: data.txt}, outputs: {sorted: sorted.txt}}
      square: {over: [n], module: "steps:square", params: {power: 2}}
      scaled: {over: [n], module: "steps:scaled", params: {rate: "${{ hp.rate }}"}, inputs: {value: square.value}}
      reads: {command: 'wc -l < ${{ table.sorted }}; echo "{\\"x\\": 1}" > "$DIEL_RESULT"', outputs: {x: {value: int}}}
      named: {command: [sh, -c, 'echo "$NAME" > name.txt'], env: {NAME: "first"}, outputs: {name: name.txt}}
      total: {module: "others:total", inputs: {values: scaled.value, sorted: table.sorted}}
      split: {module: "others:split", inputs: {count: square.value}}
      parts: {over: [part], module: "others:part", params: {part: "${{ part }}"}}
"""
STEPS = """
    @diel.module(kind="simulation")
    def square(n: int, power: int) -> dict:
        return {"value": n ** power}

    @diel.module(kind="simulation")
    def scaled(value: int, rate: float) -> dict:
        return {"value": value * rate}
"""
OTHERS = """
    from pathlib import Path

    @diel.module(kind="analysis")
    def total(values: list[float], sorted: Path) -> dict:
        Path("t").write_text(str(sum(values)))
        return {"total": sum(values), "lines": len(sorted.read_text().splitlines()), "file": Path("t")}

    @diel.module(kind="analysis")
    def split(count: list[int]) -> dict:
        return {"parts": list(range(len(count)))}

    @diel.module(kind="analysis")
    def part(part: int) -> dict:
        return {"part": part}
"""
ALL = {"table", "square", "scaled", "reads", "named", "total", "split", "parts"}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that has run once; tests copy it."""
    project = Project(tmp_path_factory.mktemp("first"))
    project.workflow(WORKFLOW.replace("NUMBERS", "[1, 2]"))
    project.module("steps", STEPS).module("others", OTHERS)
    (project.folder / "data.txt").write_text("b\na\n")
    project.run()
    return project


@pytest.fixture
def project(first: Project, tmp_path: Path) -> Project:
    folder = tmp_path / "copy"
    shutil.copytree(first.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return Project(folder)


def computed(run: Run) -> dict[str, int]:
    """How many tasks of each stage were really run."""
    counts = {stage: run.counts(stage).get("done", 0) for stage in ALL}
    return {stage: count for stage, count in counts.items() if count}


def edit(project: Project, path: str, old: str, new: str) -> None:
    file = project.folder / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_same_again_starts_no_worker(project: Project) -> None:
    run = project.run()
    assert computed(run) == {}
    assert run.workers() == 0
    assert run.counts("square") == {"cached": 2}
    assert run.value("total", "total") == 2.5
    assert run.artifact("total", "file").read_text() == "2.5"
    third = project.run()
    assert computed(third) == {}
    assert third.artifact("total", "file").read_text() == "2.5"


def test_a_larger_axis_computes_only_its_new_points(project: Project) -> None:
    edit(project, "flow.yaml", "[1, 2]", "[5, 1, 2]")
    run = project.run()
    assert computed(run) == {"square": 1, "scaled": 1, "total": 1, "split": 1, "parts": 1}
    assert run.values("square", "value") == [25, 1, 4]
    assert run.value("total", "total") == 15.0
    assert run.values("parts", "part") == [0, 1, 2]


DATA, STEPS_FILE, OTHERS_FILE = "data.txt", "modules/steps.py", "modules/others.py"
NAME, TITLE = 'NAME: "first"', "name: name.txt"
CHANGES: dict[str, tuple[list[tuple[str, str, str]], dict[str, int]]] = {
    "a parameter": (
        [("flow.yaml", "power: 2", "power: 3")],
        {"square": 2, "scaled": 1, "total": 1, "split": 1},
    ),
    "a variable's value; a file's content": (
        [("flow.yaml", NAME, "NAME: second"), (DATA, "b\na", "b\na\nc")],
        {"named": 1, "table": 1, "reads": 1, "total": 1},
    ),
    "one more variable; a command": (
        [("flow.yaml", NAME, f"{NAME}, ALSO: 1"), ("flow.yaml", "wc -l <", "wc -c <")],
        {"named": 1, "reads": 1},
    ),
    "an output's name; a hyperparameter": (
        [("flow.yaml", TITLE, "title: name.txt"), ("flow.yaml", "default: 0.5", "default: 0.25")],
        {"named": 1, "scaled": 2, "total": 1},
    ),
    "a file's content, with the same outcome": ([(DATA, "b\na", "a\nb")], {"table": 1}),
    "a module's source, with the same outcome": (
        [(STEPS_FILE, "n ** power", "n ** power + 0")],
        {"square": 2, "scaled": 2},
    ),
    "a module's source": (
        [(OTHERS_FILE, "sum(values),", "sum(values) * 2,")],
        {"total": 1, "split": 1, "parts": 2},
    ),
    "what no result depends on": (
        [
            ("flow.yaml", "default: 1,", "default: 2,"),
            ("flow.yaml", "outputs: {name:", "retries: 3, timeout: 1h, outputs: {name:"),
            ("flow.yaml", "stages:", "# a remark\nstages:"),
        ],
        {},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_computes_what_depends_on_it(project: Project, change: str) -> None:
    edits, expected = CHANGES[change]
    for path in (DATA, STEPS_FILE, OTHERS_FILE):
        os.utime(project.folder / path, (1, 1))
    for path, old, new in edits:
        edit(project, path, old, new)
    assert computed(project.run()) == expected


def test_a_hyperparameter_from_the_command_line_counts(project: Project) -> None:
    assert computed(project.run("--set", "hp.rate=0.75")) == {"scaled": 2, "total": 1}
    assert computed(project.run("--set", "hp.rate=0.5", "--set", "hp.other=3")) == {}


def test_no_cache_computes_everything(project: Project) -> None:
    assert set(computed(project.run("--no-cache"))) == ALL


def test_from_computes_a_stage_and_all_after_it(project: Project) -> None:
    assert computed(project.run("--from", "table")) == {"table": 1, "reads": 1, "total": 1}
