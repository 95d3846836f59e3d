"""`diel explain`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.allocation import block
from tests.cli.call import call
from tests.handmade import Handmade

Capture = pytest.CaptureFixture[str]
FLOW = """
axes: {t: {values: [1, 2]}}
stages:
  sim: {over: [t], command: [echo, "${{ t }}"]}
  end: {command: [x], after: [sim]}
"""


@pytest.fixture
def failed(workspace: Path) -> Handmade:
    Handmade(workspace, FLOW, "w-1").stage("sim", 2).end("succeeded")
    run = Handmade(workspace, FLOW, "w-2").stage("sim", 2).stage("end", 1)
    return run.done("sim", 0).failed("sim", 1).skipped("end", 0, cause="sim").end("failed")


@pytest.mark.parametrize("words", [[], ["last"], ["w-2"], ["w"], ["runs/w-2"]])
def test_the_last_run_is_explained_by_default(failed: Handmade, capsys: Capture, words: list[str]) -> None:
    said = call(capsys, "explain", *words)
    assert said.code == 0
    assert said.out.startswith("w-2 failed: 1 done, 1 failed, 1 skipped\n")
    assert "sim: 1 task failed (app): exit code 3" in said.out


@pytest.mark.parametrize("words", [["sim/1"], ["last", "sim/1"], ["w-2", "sim/1"]])
def test_a_task_alone_is_one_of_the_last_run(failed: Handmade, capsys: Capture, words: list[str]) -> None:
    assert call(capsys, "explain", *words).out.startswith("w-2 sim/1 (t=2) failed\n")


def test_only_of_what_reads_a_stage_it_is_said_that_it_does(failed: Handmade, capsys: Capture) -> None:
    text = """
    stages:
      make: {command: [x], outputs: {n: {value: int}}}
      read: {command: [y, "${{ make.n }}"], after: [make]}
    """
    run = Handmade(failed.folder, text, "v-1").stage("make", 1).stage("read", 1)
    run.failed("make", 0).skipped("read", 0, cause="make").end("failed")
    assert "read: 1 task skipped: 'make', which they read, has" in call(capsys, "explain", "v-1").out
    assert "end: 1 task skipped: 'sim', after which they run, has" in call(capsys, "explain", "w-2").out


def test_a_stage_alone_leaves_the_others_out(failed: Handmade, capsys: Capture) -> None:
    said = call(capsys, "explain", "end").out
    assert "1 task skipped: 'sim'" in said
    assert "failed (app)" not in said


def test_json_is_one_document_with_stable_keys(failed: Handmade, capsys: Capture) -> None:
    run = json.loads(call(capsys, "explain", "--json").out)
    assert set(run) == {
        *("run", "workflow", "state", "controller", "stages", "failures", "skipped"),
        *("waiting", "running", "lost", "computed", "blocks", "trouble", "axes", "left_out"),
    }
    task = json.loads(call(capsys, "explain", "sim/1", "--json").out)
    assert (task["task"], task["state"], task["class"]) == ("sim/1", "failed", "app")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["w-3"], "no run 'w-3'"),
        (["last", "sin"], "no stage 'sin'; did you mean 'sim'"),
        (["sin/1"], "no stage 'sin'; did you mean 'sim'"),
        (["sim/2"], "no task 'sim/2'; 'sim' has 2 tasks, sim/0 to sim/1"),
        (["sim/x"], "expected STAGE/INDEX, such as sim/0"),
        (["last", "sim", "end"], "also found 'end'"),
        (["--runs", "elsewhere"], "no runs in elsewhere"),
    ],
)
def test_what_is_not_there_is_told(failed: Handmade, capsys: Capture, words: list[str], message: str) -> None:
    said = call(capsys, "explain", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_a_block_is_told_by_its_name_or_its_job(failed: Handmade, capsys: Capture) -> None:
    block(failed, "1-0", "oom")
    for words in (["--block", "1-0"], ["w-2", "--block", "100"]):
        said = call(capsys, "explain", *words)
        assert (said.code, said.out.splitlines()[0]) == (0, "w-2 block 1-0 oom")
    assert json.loads(call(capsys, "explain", "--block", "1-0", "--json").out)["job"] == "100"


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--block", "1-7"], "no block '1-7'"), (["sim", "--block", "1-0"], "give one or the other")],
)
def test_a_wrong_block_is_refused(failed: Handmade, capsys: Capture, words: list[str], message: str) -> None:
    block(failed, "1-0", "oom")
    said = call(capsys, "explain", *words)
    assert said.code == 2
    assert message in said.err
