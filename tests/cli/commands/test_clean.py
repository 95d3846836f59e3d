"""`diel clean`."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from diel.store.project.runs import create_run
from tests.allocation import block
from tests.cli.call import call
from tests.written import Written

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def runs(workspace: Path) -> Path:
    """Two runs of `w`, the second of which uses the first; one that failed, one that runs."""
    runs = workspace / "runs"
    Written(runs, "w-1").done(0).end("succeeded")
    Written(runs, "w-2").write("cached", stage="a", index=0, run="w-1", key="0" * 32).end("succeeded")
    Written(runs, "bad-1").failed(0).end("failed")
    Written(runs, "live-1", alive=True)
    for age, name in enumerate(["w-1", "w-2", "bad-1", "live-1"]):
        os.utime(runs / name / "run.json", (age, age))
    return runs


def left(runs: Path) -> set[str]:
    return set(os.listdir(runs))


def test_it_says_what_it_frees_and_removes_after_a_yes(
    runs: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    said = call(capsys, "clean", "bad-1")
    assert said.code == 0
    assert "bad-1  failed" in said.out
    assert "KiB" in said.out
    assert "files" in said.out
    assert "Remove 1 run" in said.out
    assert left(runs) == {"w-1", "w-2", "live-1"}


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_nothing_is_removed_without_a_yes(
    runs: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert call(capsys, "clean", "bad-1").code != 0
    assert left(runs) == {"w-1", "w-2", "bad-1", "live-1"}


def test_a_live_run_is_refused_even_by_force(runs: Path, capsys: Capture) -> None:
    said = call(capsys, "clean", "bad-1", "live-1", "--yes", "--force")
    assert said.code == 2
    assert "live-1 is running" in said.err
    assert left(runs) == {"w-1", "w-2", "bad-1", "live-1"}


def test_results_that_another_run_uses_are_protected(runs: Path, capsys: Capture) -> None:
    said = call(capsys, "clean", "w-1", "--yes")
    assert said.code == 2
    assert "w-1 has results that w-2 uses" in said.err
    assert "w-1" in left(runs)
    assert call(capsys, "clean", "w-1", "w-2", "--yes").code == 0  # the user of it goes, too
    assert left(runs) == {"bad-1", "live-1"}


def test_force_removes_what_others_use(runs: Path, capsys: Capture) -> None:
    assert call(capsys, "clean", "w-1", "--yes", "--force").code == 0
    assert "w-1" not in left(runs)


def test_all_leaves_what_runs_and_says_so(runs: Path, capsys: Capture) -> None:
    said = call(capsys, "clean", "--all", "--yes")
    assert said.code == 0
    assert left(runs) == {"live-1"}
    assert "keeping live-1" in said.err


def test_failed_chooses_failed_runs_alone(runs: Path, capsys: Capture) -> None:
    call(capsys, "clean", "--failed", "--yes")
    assert left(runs) == {"w-1", "w-2", "live-1"}


def test_keep_counts_by_workflow_and_protection_holds(runs: Path, capsys: Capture) -> None:
    said = call(capsys, "clean", "--keep", "1", "--yes")
    assert "keeping w-1: it has results that w-2 uses" in said.err
    assert left(runs) == {"w-1", "w-2", "bad-1", "live-1"}
    call(capsys, "clean", "--keep", "1", "--yes", "--force")
    assert left(runs) == {"w-2", "bad-1", "live-1"}


def test_age_is_that_of_the_end(runs: Path, capsys: Capture) -> None:
    old = Written(runs, "old-1")
    old.clock = time.time() - 10 * 86400
    old.end("succeeded")
    call(capsys, "clean", "--older-than", "7d", "--yes")
    assert left(runs) == {"w-1", "w-2", "bad-1", "live-1"}


def test_a_directory_that_is_no_run_is_never_touched(runs: Path, capsys: Capture) -> None:
    (runs / "precious").mkdir()
    (runs / "precious" / "thesis.tex").touch()
    call(capsys, "clean", "--all", "--yes", "--force")
    assert left(runs) == {"live-1", "precious"}
    assert call(capsys, "clean", "precious", "--yes", "--force").code == 2


def test_what_an_earlier_clean_left_half_removed_goes_too(runs: Path, capsys: Capture) -> None:
    (runs / ".removed-w-0-123").mkdir()
    (runs / ".removed-w-0-123" / "x").write_text("x")
    call(capsys, "clean", "bad-1", "--yes")
    assert left(runs) == {"w-1", "w-2", "live-1"}


def test_what_a_run_left_that_was_killed_while_it_was_made_goes_too(runs: Path, capsys: Capture) -> None:
    """Not one that is made in this moment, nor one that was taken and lost its file."""
    (runs / "bare-1").mkdir()
    os.utime(runs / "bare-1", (time.time() - 60,) * 2)
    (runs / "lost-1" / "journal").mkdir(parents=True)  # all of a run but its journal was removed
    (runs / "lost-1" / "journal" / "controller-0001.jsonl").touch()
    os.utime(runs / "lost-1", (time.time() - 60,) * 2)
    for name in ("half", "young", "taken"):
        made = create_run(runs, name)
        made.workflow.touch()
        if name == "taken":
            made.controller_segment(1).touch()
        age = 0 if name == "young" else 60
        os.utime(made.root, (time.time() - age,) * 2)
    told = call(capsys, "status", "half-1")
    assert (told.code, "killed while it made it" in told.err, "`diel clean half-1`" in told.err) == (
        2,
        True,
        True,
    )
    assert "'young-1' is not a run yet: " in call(capsys, "status", "young-1").err
    assert "'young-1' is not a run yet: " in call(capsys, "clean", "young-1").err
    assert "half-1  half made" in call(capsys, "clean", "half-1", "--yes").out
    call(capsys, "clean", "bad-1", "--yes")
    assert left(runs) == {"w-1", "w-2", "live-1", "young-1", "taken-1", "lost-1"}


def test_links_out_of_a_run_are_not_followed(runs: Path, workspace: Path, capsys: Capture) -> None:
    (workspace / "data").mkdir()
    (workspace / "data" / "kept").touch()
    (runs / "bad-1" / "tasks" / "link").symlink_to(workspace / "data")
    call(capsys, "clean", "bad-1", "--yes")
    assert (workspace / "data" / "kept").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the runs"),
        (["w-1", "--all"], "give either the names"),
        (["nope"], "no run 'nope'"),
        (["--older-than", "7"], "without a unit"),
        (["--keep", "-1"], "--keep"),
    ],
)
def test_what_makes_no_sense_is_refused(runs: Path, capsys: Capture, words: list[str], said: str) -> None:
    result = call(capsys, "clean", *words)
    assert result.code == 2
    assert said in result.err
    assert left(runs) == {"w-1", "w-2", "bad-1", "live-1"}


def test_a_run_whose_jobs_may_still_run_is_kept_and_the_others_go(runs: Path, capsys: Capture) -> None:
    """Its jobs would be nobody's: no later `diel cancel` could know them."""
    left_alone = Written(runs, "cut-1")
    block(left_alone, "1-0", "completed")
    block(left_alone, "1-2", "running", job="62")
    said = call(capsys, "clean", "--all", "--yes", "--force")
    assert said.code == 0
    assert "keeping cut-1" in said.err
    assert "job 62 may still run: `diel cancel cut-1` first" in said.err
    assert left(runs) == {"cut-1", "live-1"}
    assert call(capsys, "clean", "cut-1", "--yes").code == 2
    block(left_alone, "1-2", "cancelled", job="62")
    assert call(capsys, "clean", "cut-1", "--yes").code == 0
