"""`diel path`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.throwaway import Project

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Two runs: the second took all but what failed from the first."""
    made = Project(tmp_path_factory.mktemp("path")).workflow("""
        axes: {i: {range: 2}}
        stages:
          train:
            over: [i]
            command: 'echo "model ${{ i }}" > model.txt; echo "{\\"loss\\": 1.5}" > "$DIEL_RESULT"; touch a.log b.log'
            outputs: {model: model.txt, loss: {value: float}, logs: {glob: "*.log"}}
          weak: {command: "echo $DIEL_ATTEMPT; exit 1", retries: {limit: 1, backoff: 10ms}}
          silent: {command: "true"}
        """)
    made.run(code=1)
    made.run(code=1)
    shutil.rmtree(
        made.folder / "runs/flow-1/tasks/silent", ignore_errors=True
    )  # another task may have got it
    return made


@pytest.fixture(autouse=True)
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project.folder)
    return project.folder / "runs"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["flow-1", "train/1"], "flow-1/tasks/train/1"),
        (["train", "i=1"], "flow-1/tasks/train/1"),  # from the cache: where its result is
        (["train/0", "model"], "flow-1/tasks/train/0/model.txt"),
        (["train", "i=0", "--output", "model"], "flow-1/tasks/train/0/model.txt"),
        (["weak"], "flow-2/tasks/weak/0.2"),
        (["weak", "--attempt", "1"], "flow-2/tasks/weak/0"),
    ],
)
def test_a_path_is_one_line(here: Path, capsys: Capture, words: list[str], path: str) -> None:
    told = call(capsys, "path", *words)
    assert (told.code, told.out, told.err) == (0, f"{here}/{path}\n", "")
    assert Path(told.out.strip()).exists()


def test_each_of_several_files_is_a_line(here: Path, capsys: Capture) -> None:
    said = call(capsys, "path", "train/0", "logs").out.splitlines()
    assert said == [f"{here}/flow-1/tasks/train/0/{name}.log" for name in "ab"]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["train"], 2, "'train' has 2 tasks, train/0 to train/1"),
        (["train/0", "modle"], 2, "made no 'modle'; did you mean 'model'?"),
        (["train/0", "loss"], 2, "'loss' is a value, not a file: `diel results train.loss` prints it"),
        (["weak", "model"], 2, "weak/0 has no result; `diel explain flow-2 weak/0` says why"),
        (["weak", "--attempt", "9"], 2, "2 attempts, but no attempt 9"),
        (["train/0", "model", "--attempt", "1"], 2, "give --attempt or an output"),
        (["silent"], 1, "silent/0 wrote nothing and printed nothing, so it has no directory"),
    ],
)
def test_what_has_no_path_is_told_with_nothing_on_standard_output(
    capsys: Capture, words: list[str], code: int, why: str
) -> None:
    told = call(capsys, "path", *words)
    assert (told.code, told.out) == (code, "")
    assert why in told.err


def test_a_shell_can_go_there(project: Project) -> None:
    script = f'cd "$({sys.executable} -m diel path train i=1)" && cat model.txt'
    assert subprocess.check_output(["bash", "-c", script], cwd=project.folder, text=True) == "model 1\n"
