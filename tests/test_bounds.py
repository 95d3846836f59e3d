"""Whatever is large, endless or no file is refused at once, with exit code 2 and its true reason."""

from __future__ import annotations

import os
import resource
import shutil
import time
from pathlib import Path

import pytest

from diel.cli import main
from tests.throwaway import Project, wait_for

HEAD = "diel: 1\nname: w\n"
READ = "  b: {command: [echo, '${{ a.v }}']}\n"


def stages(given: str) -> str:
    """A workflow of 10,000 stages; in `given`, `I` is the number of each, and `J` that of the next one."""
    each = (given.replace("I", str(i)).replace("J", str((i + 1) % 10_000)) for i in range(10_000))
    return HEAD + "stages:\n" + "".join(f"  s{i}: {{command: [x], {keys}}}\n" for i, keys in enumerate(each))


def axes(count: int, given: str, end: str = "stages: {s: {command: [x]}}\n") -> str:
    listed = "".join(f"  a{i}: {{{given}}}\n" for i in range(count))
    return f"{HEAD}hyperparameters: {{n: {{type: int, default: 3}}}}\naxes:\n{listed}{end}"


MANY = {
    "wrong names": (stages("params: {p: '${{ nosuch }}'}"), "no name 'nosuch' here"),
    "stages that are not there": (stages("after: [tI]"), "no stage 't0'"),
    "inputs of no stage": (stages("inputs: {x: tI.v}"), "no stage 't0'"),
    "outputs that nobody makes": (stages("inputs: {x: sJ.v}"), "makes no output 'v'"),
    "neighbours that are not there": (stages("beside: [tI]"), "no stage 't0'"),
    "axes that are not there": (stages("over: [aI]"), "no axis 'a0'"),
    "unknown keys": (stages("colourI: 1"), "unknown key"),
    "a cycle": (stages("after: [sJ]"), "the stages wait for each other: s0 -> s9999"),
    "wrong forms": (axes(100_000, "rang: 3"), "did you mean 'range'?"),
    "wrong sizes": (axes(10_000, "range: '${{ hp.m }}'"), "no hyperparameter 'm'"),
    "right sizes": (axes(10_000, "range: '${{ hp.n }}'", "stages: {s: {command: ['${{ x }}']}}\n"), "no name 'x'"),
}  # fmt: skip
LARGE = {
    "a word": (HEAD + f"stages:\n  a: {{command: [echo, {'x' * 60_000}]}}\n{READ}", "makes no output 'v'"),
    "dots": (HEAD + f"stages:\n  a: {{command: [echo, {'x.' * 50_000}]}}\n{READ}", "makes no output 'v'"),
    "a quote": (HEAD + f"stages:\n  a: {{command: \"echo '{'x' * 100_000}'\"}}\n{READ}", "makes no output 'v'"),
    "a text": (HEAD + f"stages: {{a: {{command: 'echo {'x y ' * 250_000}'}}}}\n", "131,071 bytes"),
    "words": (HEAD + f"stages: {{a: {{command: [x, {'é' * 70_000}]}}}}\n", "stages.a.command.1: longer than"),
    "keys": (HEAD + "stages: {a: {command: [x]}}\n" + "".join(f"k{i}: 1\n" for i in range(20_000)), "k0: unknown key"),
    "flaws": (HEAD + f"stages: {{a: {{command: [{'[],' * 20_000}]}}}}\n", "expected a word"),
    "a long file": (HEAD + f"stages: {{a: {{command: [x], files: {{f: {'x' * 300}}}}}}}\n", "file name too long"),
}  # fmt: skip


def validate(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    started = time.process_time()
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(folder / "w.yaml"), *words])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "Traceback" not in said
    assert time.process_time() - started < 15  # a second or two, of this process alone
    return said


def refuse(folder: Path, text: str) -> str:
    """What `validate` says of a bad file, in a few seconds of processor time: a busy machine takes no part."""
    (folder / "w.yaml").write_text(text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = Project(folder).diel("validate", "w.yaml", code=2, seconds=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Traceback" not in said
    assert after.ru_utime - before.ru_utime < 8  # one or two; what grows with the square takes more than ten
    return said


@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_is_told_soon(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    text, expected = LARGE[name]
    (tmp_path / "w.yaml").write_text(text)
    assert expected in validate(tmp_path, capsys)


@pytest.mark.parametrize("name", MANY)
def test_what_is_wrong_in_thousands_of_places_is_told_soon_and_not_in_all(tmp_path: Path, name: str) -> None:
    text, expected = MANY[name]
    said = refuse(tmp_path, text)
    assert expected in said
    assert said.count("w.yaml:") <= 101


def test_a_chain_of_thousands_of_stages_is_followed_once(tmp_path: Path) -> None:
    chain = stages("after: [sJ]").replace("after: [s0]", "after: [t]")
    assert "no name 'nosuch' here" in refuse(tmp_path, chain + "  t: {command: ['${{ nosuch }}']}\n")


@pytest.mark.parametrize("form", ["axes: {a: {file: PATH}}\nstages: {s: {over: [a], command: [x]}}", "stages: {s: {command: [x], files: {f: PATH}}}"])  # fmt: skip
@pytest.mark.parametrize("path", ["pipe", "/dev/zero", "/proc/kmsg", "loop", "x" * 300])
def test_what_is_no_file_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, path: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "w.yaml").write_text(HEAD + form.replace("PATH", path) + "\n")
    said = validate(tmp_path, capsys)
    assert any(
        one in said for one in ("ordinary file", "too long", "symbolic links", "special file", "permitted")
    ), said


@pytest.mark.parametrize("word", ["status", "resume", "run"])
def test_a_name_of_300_letters_is_a_mistake_of_the_user(
    workspace: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    (workspace / "w.yaml").write_text(HEAD + "stages: {s: {command: [x]}}\n")
    words = ["run", "w.yaml", "--runs", "x" * 300] if word == "run" else [word, "x" * 300]
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr().err
    assert (ended.value.code, len(said) < 400) == (2, True)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ended")
    Project(folder).workflow("stages: {s: {command: ['true']}}").run()
    return folder


@pytest.mark.parametrize("word", ["status", "explain", "resume"])
def test_a_segment_that_is_a_directory_is_named(ended: Path, tmp_path: Path, word: str) -> None:
    shutil.copytree(ended, tmp_path, dirs_exist_ok=True)
    segment = next((tmp_path / "runs/flow-1/journal").glob("worker*"))
    segment.unlink()
    segment.mkdir()
    assert f"{segment.name}: the journal needs a file here; put it back" in Project(tmp_path).diel(
        word, code=2
    )


@pytest.mark.parametrize("word", ["explain", "resume"])
def test_an_empty_workflow_of_a_run_is_told_as_such(ended: Path, tmp_path: Path, word: str) -> None:
    shutil.copytree(ended, tmp_path, dirs_exist_ok=True)
    (tmp_path / "runs/flow-1/workflow.yaml").write_text("")
    assert "flow-1/workflow.yaml is empty" in Project(tmp_path).diel(word, code=2)


def test_a_runs_directory_that_vanishes_ends_its_run(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(
        "axes: {n: {range: 30}}\nstages: {s: {over: [n], command: [sleep, '0.2']}}"
    )
    process = project.start("run", "flow.yaml")
    wait_for(lambda: list((tmp_path / "runs").glob("flow-1/journal/worker*")))
    shutil.rmtree(tmp_path / "runs", ignore_errors=True)
    assert "was removed while the run was under way" in project.end(process, code=1)
