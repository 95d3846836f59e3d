"""`diel status`."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.call import call
from tests.entered import entered
from tests.screen import Terminal
from tests.throwaway import Project, wait_for
from tests.written import Written

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def runs(workspace: Path) -> Path:
    return workspace / "runs"


def test_a_row_a_stage_and_the_failures(runs: Path, capsys: Capture) -> None:
    run = Written(runs).done(0).done(1).failed(2, "exit code 3", stderr_tail="first\nlast words\n")
    run.write("skipped", stage="b", tasks=[[0, 0]]).end("failed")
    said = call(capsys, "status")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("w-1 failed · 2 of")
    assert any(line.split()[:2] == ["a", "simulation"] and "2/4" in line for line in lines)
    assert "a/2  app: exit code 3" in said.out
    assert "last words" in said.out
    assert "first" not in said.out
    assert "diel resume w-1" in said.out


def test_five_failures_are_shown_and_all_when_asked(runs: Path, capsys: Capture) -> None:
    run = Written(runs)
    run.write("stage", stage="a", kind="analysis", total=9, parts={"module": "m"})
    for index in range(8):
        run.failed(index, f"reason {index}")
    run.end("failed")
    short, long = call(capsys, "status").out, call(capsys, "status", "--all").out
    assert "reason 4" in short
    assert "reason 5" not in short
    assert "3 more failed" in short
    assert "reason 7" in long
    assert "more failed" not in long


@pytest.mark.parametrize(
    ("state", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 3), ("interrupted", 130), (None, 4)]
)
def test_the_exit_code_tells_the_state_when_asked(
    runs: Path, capsys: Capture, state: str | None, code: int
) -> None:
    run = Written(runs, alive=state is None)
    if state:
        run.end(state)
    assert call(capsys, "status").code == 0
    assert call(capsys, "status", "--exit-code").code == code


def test_json_is_one_document(runs: Path, capsys: Capture) -> None:
    Written(runs).done(0).end("succeeded")
    said = call(capsys, "status", "w-1", "--json")
    assert json.loads(said.out)["stages"]["a"]["done"] == 1
    assert said.err == ""


def test_a_stage_is_told_task_by_task(runs: Path, capsys: Capture) -> None:
    Written(runs).done(0).done(1).failed(3).end("failed")
    said = call(capsys, "status", "w-1", "a").out
    assert [line.split() for line in said.splitlines()[1:4]] == [
        ["waiting", "1", "2"],
        ["done", "2", "0-1"],
        ["failed", "1", "3"],
    ]
    only = call(capsys, "status", "a", "--state", "failed", "--json")  # of the last run
    assert json.loads(only.out)["tasks"] == {"failed": [[3, 3]]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope-1"], "no run 'nope-1'"),
        (["w-1", "bb"], "did you mean 'b'"),
        (["w-1", "a", "b"], "expected a run and a stage"),
        (["w-1", "--state", "failed"], "--state needs a stage"),
        (["--watch", "--interval", "3"], "without a unit"),
        (["--state", "broken"], "broken"),
    ],
)
def test_what_makes_no_sense_is_refused(runs: Path, capsys: Capture, words: list[str], said: str) -> None:
    Written(runs).end("succeeded")
    result = call(capsys, "status", *words)
    assert result.code == 2
    assert said in result.err


def test_without_runs_it_says_how_to_start_one(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "status")
    assert said.code == 2
    assert "diel run FILE" in said.err


def test_the_runs_directory_is_an_option_and_a_variable(
    tmp_path: Path, workspace: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Written(tmp_path / "elsewhere").end("succeeded")
    assert "w-1 succeeded" in call(capsys, "status", "--runs", str(tmp_path / "elsewhere")).out
    monkeypatch.setenv("DIEL_RUNS", str(tmp_path / "elsewhere"))
    assert "w-1 succeeded" in call(capsys, "status").out


def test_watching_shows_what_changes_until_the_run_ends(
    runs: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(runs, alive=True).done(0)

    def go_on(_seconds: float) -> None:
        run.done(1).done(2).done(3)
        run.end("succeeded")

    monkeypatch.setattr("diel.cli.commands.status.time", SimpleNamespace(sleep=go_on))
    said = call(capsys, "status", "--watch", "--interval", "100ms", "--exit-code")
    assert said.code == 0
    assert "w-1 running" in said.out
    assert "w-1 succeeded · 4 of" in said.out
    assert "\033[" not in said.out  # no terminal, nothing to redraw


def test_control_characters_of_a_task_do_not_reach_the_terminal(runs: Path, capsys: Capture) -> None:
    Written(runs).failed(0, "bad \033[2J\rthing", stderr_tail="\033]0;title\007x").end("failed")
    said = call(capsys, "status").out
    assert "\033" not in said
    assert "\r" not in said
    assert "\007" not in said


def test_watching_on_a_terminal_draws_in_place_and_leaves_out_what_does_not_fit(tmp_path: Path) -> None:
    run = Written(tmp_path / "runs", stages=False)
    for number in range(40):
        run.write("stage", stage=f"s{number}", kind="analysis", total=2, parts={"module": "m"})
    for number in range(30):
        run.write("cached", stage=f"s{number}", index=0, run="w-0")
        run.write("cached", stage=f"s{number}", index=1, run="w-0")
    run.write("cached", stage="s30", index=0, run="w-0").end("cancelled")
    terminal = Terminal(Project(tmp_path), "status", "--watch")
    assert terminal.end() == 0
    lines = terminal.text.splitlines()
    assert len(lines) < 24
    assert any(line.split()[0] == "s30" for line in lines if line)  # half done: shown before the others
    assert "stages more" in terminal.text


def test_a_run_that_was_killed_took_as_long_as_its_controller_was_heard_of(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("stages: {wait: {command: 'touch ${{ run.dir }}/begun; sleep 600'}}")
    process = project.start("run", "flow.yaml")
    wait_for((tmp_path / "runs/flow-1/begun").exists)
    run = project.newest()
    (begin,) = run.records("controller")

    def heard() -> float:
        return (run.root / "lease.json").stat().st_mtime - float(begin["time"])

    wait_for(lambda: heard() > 1.2)
    process.kill()
    project.end(process, -signal.SIGKILL)
    took = pytest.approx(heard(), abs=0.25)
    wait_for(lambda: time.time() - begin["time"] > heard() + 0.5)  # it must not count on
    assert json.loads(project.diel("status", "--json"))["elapsed_s"] == took
    head = project.diel("status").splitlines()[0]
    assert head.startswith("flow-1 interrupted · 0 of 1 task · ")
    for line in (head, project.diel("list").splitlines()[-1]):
        assert float(line.split()[-1].removesuffix("s")) == took
    project.diel("cancel")


FEATURES = {"axis", "blocks", "search", "service", "services", "staging", "stream", "streams", "surrogate"}


def test_of_a_finished_sweep_no_more_is_entered_than_a_sweep_needs(
    root: Path, workspace: Path, capsys: Capture
) -> None:
    Project(workspace).diel("run", str(root / "workflows" / "sweep.yaml"), "--set", "hp.steps=100")
    files = entered(lambda: call(capsys, "status"))
    assert "cli/commands/status.py" in files
    assert len(files) <= 21, sorted(files)
    assert not {file for file in files if FEATURES & set(Path(file).with_suffix("").parts)}
