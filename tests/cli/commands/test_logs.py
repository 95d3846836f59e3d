"""`diel logs`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.call import call
from tests.handmade import WORKER
from tests.throwaway import Project
from tests.written import APP, Written

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def runs(workspace: Path) -> Path:
    return workspace / "runs"


def test_each_stream_comes_out_on_its_own(runs: Path, capsys: Capture) -> None:
    Written(runs).done(0).output(0, stdout="out\n", stderr="err\n").end("succeeded")
    said = call(capsys, "logs", "w-1", "a/0")
    assert (said.code, said.out, said.err) == (0, "out\n", "err\n")
    assert call(capsys, "logs", "a/0", "--stdout").err == ""
    assert call(capsys, "logs", "a/0", "--stderr").out == ""


def test_the_last_attempt_is_shown_and_others_when_asked(runs: Path, capsys: Capture) -> None:
    run = Written(runs).work("start", 1).work("fail", 1, message="m", **APP)
    run.work("start", 1, attempt=2).done(1, attempt=2)
    run.output(1, stdout="one\n").output(1, 2, stdout="two\n").end("succeeded")
    assert call(capsys, "logs", "a/1").out == "two\n"
    assert call(capsys, "logs", "a/1", "--attempt", "1").out == "one\n"
    refused = call(capsys, "logs", "a/1", "--attempt", "3")
    assert refused.code == 2
    assert "2 attempts" in refused.err


def test_why_a_task_failed_is_said_beside_its_output(runs: Path, capsys: Capture) -> None:
    run = Written(runs).work("start", 2).work("fail", 2, message="m", **APP)
    run.failed(2, "exit code 3").output(2, stdout="some\n").end("failed")
    said = call(capsys, "logs", "a/2")
    assert said.out == "some\n"
    assert "a/2  app: exit code 3" in said.err


def test_a_silent_task_is_said_to_be_silent(runs: Path, capsys: Capture) -> None:
    Written(runs).done(0).end("succeeded")
    said = call(capsys, "logs", "a/0")
    assert (said.code, said.out) == (0, "")
    assert "a/0 printed nothing" in said.err


def test_metrics_are_what_the_task_reported(runs: Path, capsys: Capture) -> None:
    Written(runs).done(0).output(0, stdout="x", metrics='{"loss": 1}\n').done(1).end("succeeded")
    assert call(capsys, "logs", "a/0", "--metrics").out == '{"loss": 1}\n'
    assert "no metrics" in call(capsys, "logs", "a/1", "--metrics").err


def test_a_running_tasks_output_is_where_its_worker_catches_it(runs: Path, capsys: Capture) -> None:
    run = Written(runs, alive=True).work("start", 0)
    (run.paths.captures / WORKER.replace(".jsonl", ".stdout")).write_text("so far\n")
    assert call(capsys, "logs", "a/0").out == "so far\n"


def test_following_goes_on_through_a_retry_until_the_task_has_ended(
    runs: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Written(runs, alive=True).work("start", 0)
    caught = run.paths.captures / WORKER.replace(".jsonl", ".stdout")
    caught.write_text("one\n")

    def go_on() -> None:
        with open(caught, "a") as file:
            file.write("two\n")
        run.output(0)
        caught.rename(run.paths.task_dir("a", 0, 1) / "stdout")
        run.work("fail", 0, message="m", **APP)
        run.work("start", 0, attempt=2).output(0, 2, stdout="three\n").done(0, attempt=2)

    steps = iter([go_on])
    monkeypatch.setattr("diel.cli.commands.logs.time", SimpleNamespace(sleep=lambda _: next(steps)()))
    said = call(capsys, "logs", "a/0", "--follow")
    assert said.out == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a/3"], "has not begun"),
        (["a/9"], "no task 'a/9'"),
        (["a"], "choose one"),
        (["aa/1"], "did you mean 'a'"),
        (["w-1"], "expected one task"),
        (["w-2", "a/0"], "did you mean 'w-1'"),
        (["w-1", "a/0", "a/1"], "expected one task"),
        (["a/0", "--attempt", "0"], "attempt"),
        ([], "TASK"),
    ],
)
def test_what_makes_no_sense_is_refused(runs: Path, capsys: Capture, words: list[str], said: str) -> None:
    Written(runs).done(0).end("succeeded")
    result = call(capsys, "logs", *words)
    assert result.code == 2
    assert said in result.err


def test_a_cached_tasks_output_is_read_where_it_was_made_though_its_index_changed(tmp_path: Path) -> None:
    text = """
        axes:
          i: {values: [VALUES]}
        stages:
          a: {over: [i], command: "echo made ${{ i }}"}
    """
    project = Project(tmp_path)
    project.workflow(text.replace("VALUES", "3, 4")).run()
    project.workflow(text.replace("VALUES", "1, 2, 3, 4")).run()
    assert project.diel("logs", "a/3") == "made 4\n"
    assert project.diel("logs", "a/0") == "made 1\n"
    project.diel("clean", "flow-1", "--force", "--yes")
    assert "flow-1, which no longer exists" in project.diel("logs", "a/3", code=2)


def test_a_task_that_has_not_begun_is_said_to_have_printed_nothing_for_that(
    runs: Path, capsys: Capture
) -> None:
    run = Written(runs, alive=True)
    run.write("queued", stage="a", tasks=[0, 1, 2], bundle=1)
    run.work("start", 1).work("fail", 1, message="m", **APP).output(1, stdout="one\n")
    run.write("queued", stage="a", tasks=[1], attempts=[2], bundle=2)
    run.work("start", 2)
    said = call(capsys, "logs", "a/0")
    assert (said.code, "a/0 is queued and has not begun" in said.err) == (2, True)
    assert call(capsys, "logs", "a/1").out == "one\n"
    said = call(capsys, "logs", "a/1", "--attempt", "2")
    assert (said.code, "a/1 has had 1 attempt, but no attempt 2" in said.err) == (2, True)
    assert "a/2 printed nothing to stdout or stderr so far" in call(capsys, "logs", "a/2").err


def test_what_was_only_handed_out_when_its_controller_went_has_not_begun(runs: Path, capsys: Capture) -> None:
    run = Written(runs)
    run.write("queued", stage="a", tasks=[0, 1], bundle=1)
    run.work("start", 1).write("handover")
    run.write("controller", epoch=2, host="h", pid=1, started=1.0)
    said = call(capsys, "logs", "a/0")
    assert (said.code, "a/0 is waiting and has not begun" in said.err) == (2, True)
    assert "a/1 printed nothing" in call(capsys, "logs", "a/1").err
    followed = call(capsys, "logs", "a/0", "--follow")
    assert "a/0 is waiting, and has not begun" in followed.err


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


def test_a_file_whose_run_was_removed_has_no_path(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        stages: {a: {command: "touch f g1 g2", outputs: {f: f, g: {glob: "g*"}}}}
        """)
    project.run()
    project.run()
    (tmp_path / "runs/flow-1/tasks/a/0/g2").unlink()
    assert "'g' of a/0 is gone" in project.diel("path", "a", "g", code=1)
    assert project.diel("path", "a", "f").strip().endswith("flow-1/tasks/a/0/f")
    project.diel("clean", "flow-1", "--force", "--yes")
    said = project.diel("path", "a", "f", code=1)
    assert "/tasks/a/0/f; put it back, or `diel run` makes it again" in said


def test_a_shell_can_go_there(project: Project) -> None:
    script = f'cd "$({sys.executable} -m diel path train i=1)" && cat model.txt'
    assert subprocess.check_output(["bash", "-c", script], cwd=project.folder, text=True) == "model 1\n"
