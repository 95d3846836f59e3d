"""Runs: numbered without a gap or a clash, and found by the names that users give."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diel.base.errors import UsageError
from diel.base.paths import RunPaths, runs_dir
from diel.controller.start import keep_site
from diel.site.find import read_kept_site
from diel.store.project.runs import all_runs, create_run, find_run
from tests.throwaway import Project


def begun(runs: Path, name: str, when: float) -> RunPaths:
    """A run whose `run.json` was written at a time."""
    paths = RunPaths((runs / name).absolute())
    paths.root.mkdir(parents=True)
    paths.run_file.write_text("{}")
    os.utime(paths.run_file, (when, when))
    return paths


# --- made ---------------------------------------------------------------------------------------


def test_runs_of_a_workflow_count_up(tmp_path: Path) -> None:
    made = [create_run(tmp_path / "runs", name).run_id for name in ("w", "w", "other", "w")]
    assert made == ["w-1", "w-2", "other-1", "w-3"]


def test_a_new_run_has_its_folders_and_only_its_user_may_look(tmp_path: Path) -> None:
    paths = create_run(tmp_path / "runs", "w")
    for folder in (paths.journal, paths.requests, paths.tasks, paths.captures):
        assert folder.is_dir()
    assert paths.root.stat().st_mode & 0o777 == 0o700
    assert paths.root.is_absolute()


def test_numbers_go_on_behind_the_highest_whatever_else_lies_there(tmp_path: Path) -> None:
    for name in ("w-2", "w-10", "w-x", "w", "w-b-77", "xw-99", "w-3.old"):
        (tmp_path / name).mkdir()
    (tmp_path / "w-11").write_text("a file")
    assert create_run(tmp_path, "w").run_id == "w-12"
    assert create_run(tmp_path, "w-b").run_id == "w-b-78"


CREATE = """
import os, sys
from pathlib import Path
from diel.store.project.runs import create_run

gate, start = os.pipe()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        os.close(start)
        os.read(gate, 1)
        for _ in range(10):
            create_run(Path(sys.argv[1]), "w")
        os._exit(0)
    children.append(child)
os.close(start)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


def test_runs_that_are_made_at_once_have_numbers_of_their_own(tmp_path: Path, root: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", CREATE, str(tmp_path / "runs")],
        env={**os.environ, "PYTHONPATH": str(root)},
        check=True,
        timeout=60,
    )
    assert sorted(os.listdir(tmp_path / "runs")) == sorted(f"w-{n}" for n in range(1, 81))


def test_where_no_run_can_be_made_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(UsageError, match=r"cannot make a run in .*runs: File exists"):
        create_run(tmp_path / "runs", "w")
    with pytest.raises(UsageError, match="Not a directory"):
        create_run(tmp_path / "runs" / "below", "w")


# --- found --------------------------------------------------------------------------------------


def test_the_newest_run_is_the_last(tmp_path: Path) -> None:
    begun(tmp_path, "a-1", 100)
    begun(tmp_path, "b-1", 300)
    begun(tmp_path, "a-2", 200)
    (tmp_path / "a-3").mkdir()  # never begun
    assert [paths.run_id for paths in all_runs(tmp_path)] == ["a-1", "a-2", "b-1"]
    assert find_run(tmp_path).run_id == find_run(tmp_path, "last").run_id == "b-1"


def test_of_runs_made_at_the_same_time_the_higher_number_is_the_newer(tmp_path: Path) -> None:
    for number in (10, 9, 2):
        begun(tmp_path, f"a-{number}", 100)
    assert [paths.run_id for paths in all_runs(tmp_path)] == ["a-2", "a-9", "a-10"]


def test_a_run_made_after_the_clock_was_set_back_is_the_last(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("stages: {one: {command: 'true'}}")
    project.run()
    ahead = begun(tmp_path / "runs", "other-1", time.time() + 86400)
    assert find_run(tmp_path / "runs") == ahead
    run = project.run()
    assert [paths.run_id for paths in all_runs(tmp_path / "runs")] == ["flow-1", "other-1", run.id]
    keep_site(RunPaths(ahead.root.parent / "flow-1"), read_kept_site(RunPaths(run.root)))
    assert find_run(tmp_path / "runs").run_id == run.id


def test_a_run_is_found_by_its_name_its_workflow_or_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    for when, name in enumerate(("a-1", "a-2", "a-b-1", "b-1")):
        begun(runs, name, when)
    far = begun(tmp_path / "elsewhere", "x", 0)
    assert find_run(runs, "a-1").run_id == "a-1"
    assert find_run(runs, "a").run_id == "a-2"
    assert find_run(runs, "a-b").run_id == "a-b-1"
    assert find_run(runs, str(far.root)).root == far.root
    monkeypatch.chdir(tmp_path)
    assert find_run(runs, "elsewhere/x/").root == far.root
    assert find_run(Path("runs"), "b").root == runs / "b-1"


def test_a_run_that_is_not_there_is_told_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no runs in .*: start one with `diel run FILE`"):
        find_run(tmp_path / "none")
    begun(tmp_path, "melt-1", 0)
    with pytest.raises(UsageError, match=r"no run 'malt-1' in .*did you mean 'melt-1'"):
        find_run(tmp_path, "malt-1")
    with pytest.raises(UsageError, match="`diel list` shows the runs"):
        find_run(tmp_path, "zzz")


def test_the_runs_lie_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_dir() == Path("runs")
    monkeypatch.setenv("DIEL_RUNS", "/scratch/runs")
    assert runs_dir() == Path("/scratch/runs")
    assert runs_dir(Path("here")) == Path("here")


def test_a_run_has_one_path_however_its_directory_is_called(tmp_path: Path) -> None:
    """The names of its jobs and the marks of its processes are made from that path."""
    (tmp_path / "else").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    made = create_run(tmp_path / "else/../runs", "w")
    made.run_file.write_text("{}")
    assert made.root == (tmp_path / "runs/w-1").resolve()
    for runs in (tmp_path / "link/runs", tmp_path / "else/../runs", tmp_path / "runs"):
        assert find_run(runs, "w-1") == find_run(tmp_path, str(runs / "w-1")) == made


def test_a_run_that_lost_its_run_file_is_told_from_one_that_never_was(tmp_path: Path) -> None:
    begun(tmp_path, "w-1", 1.0).journal.mkdir()
    RunPaths(tmp_path / "w-1").run_file.unlink()
    (tmp_path / "w-1" / "journal" / "controller-0001.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="has lost its run.json"):
        find_run(tmp_path, "w-1")
