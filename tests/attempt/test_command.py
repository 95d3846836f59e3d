"""One attempt of a command: how it ends, and what it made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from diel.base.paths import RunPaths
from diel.base.states import FailureClass
from diel.worker.attempt.bundle import Failure, Work
from diel.worker.attempt.command import meaning, run_command
from diel.worker.attempt.surroundings import Surroundings
from diel.worker.attempt.watchdog import RunningAttempt, Watchdog
from tests.descendants import alive
from tests.throwaway import wait_for
from tests.worker.bench import request

WORK = Work("s", None, {"v": "int"}, None, (), 1)


def run(folder: Path, work: Work, *words: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    paths = RunPaths(folder / "w-1")
    task_dir = paths.tasks / "s/0"
    for path in (paths.requests, paths.captures, task_dir):
        path.mkdir(parents=True, exist_ok=True)
    os.chdir(task_dir)
    attempt = RunningAttempt(work, request(0, *words, **more), str(task_dir))
    env = {"PATH": os.environ["PATH"], **Surroundings(paths).variables(attempt)}
    dog = Watchdog(paths, lambda: None, lambda _: None)
    dog.begin(attempt)
    values, artifacts = run_command(attempt, str(paths.root), env, dog)
    return dict(values), dict(artifacts)


@pytest.fixture(autouse=True)
def _back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_command_reads_what_it_is_given_and_its_outputs_are_collected(tmp_path: Path) -> None:
    script = 'mkdir -p deep; cp "$DIEL_PARAMS" deep/out; echo \'{"v": 3}\' > "$DIEL_RESULT"'
    values, artifacts = run(
        tmp_path, WORK, "sh", "-ec", script, params={"a": [1, 2]}, outputs={"out": "deep/out"}
    )
    assert values == {"v": 3}
    assert json.loads((tmp_path / "w-1" / artifacts["out"]["path"]).read_text()) == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("work", "words", "kind", "message"),
    [
        (WORK, ("no-such-program",), FailureClass.LAUNCH, "no program 'no-such-program' on PATH"),
        (WORK, ("sh", "-c", "exit 3"), FailureClass.APP, "exit code 3"),
        (WORK, ("sh", "-c", "kill -9 $$"), FailureClass.APP, "killed by SIGKILL"),
        (
            WORK,
            ("sh", "-c", "exit 75"),
            FailureClass.APP,
            "exit code 75 (EX_TEMPFAIL) asks to continue later",
        ),
        (WORK._replace(checkpoint=True), ("sh", "-c", "exit 75"), FailureClass.INTERRUPTED, "it saved"),
        (
            WORK,
            ("sh", "-c", "x" * 3_000_000),
            FailureClass.LAUNCH,
            "the command line is 3000004 bytes in 3 words",
        ),
        (WORK, ("true",), FailureClass.APP, "the command did not"),
    ],
)
def test_how_a_command_fails(
    tmp_path: Path, work: Work, words: tuple[str, ...], kind: FailureClass, message: str
) -> None:
    with pytest.raises(Failure) as caught:
        run(tmp_path, work, *words)
    assert (caught.value.kind, caught.value.message[: len(message)]) == (kind, message)


def test_a_program_that_was_not_there_may_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory may have been on a file system that did not answer."""
    work = WORK._replace(values={})
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(Failure, match="no program 'late' on PATH"):
        run(tmp_path, work, "late")
    (tmp_path / "late").symlink_to("/bin/true")
    assert run(tmp_path, work, "late") == ({}, {})


def test_what_a_command_leaves_running_in_its_group_is_ended(tmp_path: Path) -> None:
    run(tmp_path, WORK._replace(values={}), "sh", "-c", "sleep 600 & echo $! > pid")
    left = psutil.Process(int((tmp_path / "w-1/tasks/s/0/pid").read_text()))
    wait_for(lambda: not alive(left))


@pytest.mark.parametrize(
    ("code", "told"),
    [(1, ""), (127, ": command not found"), (137, ": killed by SIGKILL"), (141, ": killed by SIGPIPE")],
)
def test_what_an_exit_code_says(code: int, told: str) -> None:
    assert meaning(code).startswith(told)
    assert bool(meaning(code)) == bool(told)
