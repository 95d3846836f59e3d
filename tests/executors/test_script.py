"""A tied process ends with its parent."""

from __future__ import annotations

import multiprocessing.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import process
from pathlib import Path

import psutil
import pytest

from diel.backends.executors import script as scratch
from diel.backends.executors.script import PREFIX, VARIABLE, Scratch
from tests.descendants import Living, alive
from tests.throwaway import wait_for

MODULE = "import sys, time\nprint(*sys.argv[1:], flush=True)\ntime.sleep(600)\n"
PARENT = (
    "import os, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-m', 'diel.backends.executors.script', 'tied', str(os.getpid()), 'tied', 'a', '--b'])\n"
    "print(child.pid, flush=True)\ntime.sleep(600)"
)


def test_a_tied_module_runs_with_its_arguments_and_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "tied.py").write_text(MODULE)
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as said:
        child = psutil.Process(int(said.readline()))
        assert said.readline() == "a --b\n"
        parent.kill()
        parent.wait()
        wait_for(lambda: not alive(child))


def test_nothing_outlives_a_parent_that_is_killed_while_a_tied_module_starts(
    tmp_path: Path, living: Living
) -> None:
    """At many moments: it used to look for its parent only after slow imports."""
    (tmp_path / "tied.py").write_text(MODULE)
    for moment in range(12):
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        assert parent.stdout is not None
        with parent.stdout as said:
            said.readline()
            time.sleep(moment * 0.03)
            parent.kill()
            parent.wait()
    wait_for(lambda: not living())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short temporary directory, and semaphores of its own."""
    with tempfile.TemporaryDirectory(prefix="t") as made:
        monkeypatch.setattr(tempfile, "tempdir", made)
        monkeypatch.setattr(scratch, "SEMAPHORES", tmp_path)
        yield Path(made)


def test_a_directory_goes_with_its_semaphores_and_leaves_those_of_others(
    folder: Path, tmp_path: Path
) -> None:
    made = Scratch()
    (made.path / "pymp-1").mkdir()
    own, other = tmp_path / f"sem.{made.path.name}-a", tmp_path / "sem.dielpool-other-a"
    own.touch()
    other.touch()
    made.remove()
    assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == [other]


def test_what_a_killed_keeper_left_is_removed_and_what_a_living_one_has_is_not(folder: Path) -> None:
    living = Scratch()
    left = folder / f"{PREFIX}left"
    left.mkdir()
    (left / "socket").touch()
    made = Scratch()
    assert set(folder.iterdir()) == {living.path, made.path}
    made.remove()
    living.remove()


def test_sockets_and_semaphores_of_the_pool_get_the_directorys_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process.current_process(), "_config", {"semprefix": "/mp"})
    monkeypatch.setenv(VARIABLE, str(folder / f"{PREFIX}x"))
    scratch.use()
    assert VARIABLE not in os.environ
    assert multiprocessing.util.get_temp_dir() == str(folder / f"{PREFIX}x")
    prefix = process.current_process()._config["semprefix"]  # type: ignore[attr-defined]
    assert prefix == f"/{PREFIX}x"


def test_without_a_directory_multiprocessing_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {"semprefix": "/mp"}
    monkeypatch.setattr(process.current_process(), "_config", dict(before))
    monkeypatch.delenv(VARIABLE, raising=False)
    scratch.use()
    assert process.current_process()._config == before  # type: ignore[attr-defined]


def test_a_path_too_long_for_a_socket_gives_way_to_tmp(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / ("long" * 30)))
    made = Scratch()
    made.remove()
    assert made.path.parent == Path("/tmp")
