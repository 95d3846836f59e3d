"""`diel validate`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.entered import entered

Capture = pytest.CaptureFixture[str]
GOOD = """\
diel: 1
name: good
hyperparameters: {n: {type: int, default: 3, high: 9}}
axes: {i: {range: 1000}, j: {values: [a, b]}, made: {from: one.list}}
stages:
  many: {over: [i, j], command: [echo, "${{ i }}", "${{ hp.n }}"]}
  one: {command: [x], outputs: {list: {value: list}}}
"""
BAD = GOOD.replace("hp.n", "hp.m").replace("over: [i, j]", "over: [i, k]")


@pytest.fixture
def good(workspace: Path) -> Path:
    path = workspace / "good.yaml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(workspace: Path) -> Path:
    path = workspace / "bad.yaml"
    path.write_text(BAD)
    return path


def test_a_good_file_is_told_with_its_size(good: Path, capsys: Capture) -> None:
    said = call(capsys, "validate", "good.yaml")
    assert (said.code, said.out, said.err) == (0, "good.yaml: good: 2 stages, 2,001 tasks\n", "")


def test_tasks_that_only_a_run_will_tell_are_left_open(good: Path, capsys: Capture) -> None:
    good.write_text(GOOD + "  later: {over: [made], command: [x]}\n")
    assert call(capsys, "validate", "good.yaml").out == "good.yaml: good: 3 stages, 2,001+… tasks\n"


def test_everything_that_is_wrong_is_told_at_its_place(bad: Path, capsys: Capture) -> None:
    said = call(capsys, "validate", "bad.yaml")
    assert (said.code, said.out) == (2, "")
    assert "bad.yaml:6:20: stages.many.over.1: no axis 'k'" in said.err
    assert "no 'm' in 'hp'" in said.err


def test_json_tells_each_problem_by_place_and_key(bad: Path, capsys: Capture) -> None:
    said = call(capsys, "validate", "bad.yaml", "--json")
    document = json.loads(said.out)
    assert (said.code, said.err, document["valid"]) == (2, "", False)
    first = document["problems"][0]
    assert set(first) == {"file", "line", "column", "key", "message", "hint"}
    assert (first["line"], first["column"], first["key"]) == (6, 20, "stages.many.over.1")


def test_json_of_a_good_file_has_its_size_and_no_problems(good: Path, capsys: Capture) -> None:
    document = json.loads(call(capsys, "validate", "good.yaml", "--json").out)
    assert (document["valid"], document["problems"]) == (True, [])
    assert (document["workflow"], document["stages"], document["tasks"]) == ("good", 2, 2001)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "hp.n=10"], "expected at most 9"),
        (["--set", "hp.k=1"], "no hyperparameter 'k'"),
        (["--params", "none.yaml"], "no such file"),
        (["--site", "moon"], "no site 'moon'"),
    ],
)
def test_settings_and_site_are_checked_too(
    good: Path, capsys: Capture, words: list[str], message: str
) -> None:
    said = call(capsys, "validate", "good.yaml", *words)
    assert said.code == 2
    assert message in said.err
    document = json.loads(call(capsys, "validate", "good.yaml", "--json", *words).out)
    assert not document["valid"]
    assert message in document["problems"][0]["message"]


def test_nothing_heavy_is_imported(good: Path, root: Path) -> None:
    code = (
        "import sys; from diel.cli.main import cli\n"
        "cli.main(['COMMAND', 'good.yaml'], standalone_mode=False)\n"
        "print(sorted(set(sys.modules) & {'parsl', 'numpy', 'scipy', 'pandas', 'rich', 'sklearn', 'pyarrow', 'torch', 'optuna', 'mpi4py'}))"
    )
    for command in ("validate", "plan", "graph"):
        words = [sys.executable, "-c", code.replace("COMMAND", command)]
        out = subprocess.run(words, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True)
        assert out.stdout.splitlines()[-1] == "[]"


def test_the_sweep_is_validated_without_entering_what_it_does_not_use(capsys: Capture, root: Path) -> None:
    files = entered(lambda: call(capsys, "validate", str(root / "workflows" / "sweep.yaml")))
    assert "planning/check/workflow.py" in files
    assert len(files) <= 48, sorted(files)
