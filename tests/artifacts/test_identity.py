"""A look tells whether a file or directory is still what was recorded; where it cannot, its content does."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diel.store.artifacts import Artifact, ReadFiles, differences, is_same, text_of
from diel.store.artifacts.artifact import describe, identities_below

Edit = Callable[[Path], object]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a task that made a file and a directory of three."""
    task = tmp_path / "runs/flow-1/tasks/make/0"
    (task / "d/sub").mkdir(parents=True)
    (task / "out.txt").write_text("one\n")
    for name in ("a", "b", "sub/c"):
        (task / "d" / name).write_text(name)
    return tmp_path / "runs/flow-1"


def described(run: Path, output: str) -> tuple[Path, dict[str, Any]]:
    entry = describe(output, str(run / "tasks/make/0"), str(run))
    return run / entry["path"], entry


def changes(path: Path, entry: dict[str, Any], *, look: bool = True) -> list[str]:
    return differences(str(path), entry["digest"], entry["identity"], look=look)


def restore_time(path: Path) -> None:
    before = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def edit_mapped(path: Path) -> None:
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:3] = b"two"


def replace(path: Path) -> None:
    path.with_name("new").write_text("two\n")
    path.with_name("new").rename(path)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (restore_time, "other content in its 4 bytes"),
        (edit_mapped, "other content in its 4 bytes"),
        (replace, "other content in its 4 bytes"),
        (lambda path: path.write_text("three\n"), "it has 6 bytes and had 4"),
        (Path.unlink, "it is gone"),
        (lambda path: os.chmod(path, 0o600), ""),
        (lambda path: os.chmod(path, 0o700), "its mode: it can be executed now"),
        (lambda path: os.link(path, path.with_name("link")), ""),
        (os.utime, ""),
        (lambda path: path.write_text("one\n"), ""),
    ],
)
def test_the_content_of_a_file_decides_where_a_look_does_not(run: Path, edit: Edit, expected: str) -> None:
    path, entry = described(run, "out.txt")
    assert changes(path, entry) == []
    edit(path)
    for look in (True, False):
        assert "; ".join(changes(path, entry, look=look)) == expected


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda path: (path / "b").unlink(), "its file 'b' is gone"),
        (lambda path: (path / "b").write_text("B"), "its file 'b' is another"),
        (lambda path: restore_time(path / "sub/c"), "its file 'sub/c' is another"),
        (lambda path: (path / "sub/new").write_text(""), "its file 'sub/new' is new"),
        (lambda path: (path / "a").rename(path / "z"), "its file 'a' is gone; its file 'z' is new"),
        (shutil.rmtree, "it is gone"),
        (lambda path: (path / "sub/b").mkdir(), "its file 'sub/b/' is new"),
        (lambda path: (path / "sub/b").symlink_to("."), "its file 'sub/b' is new"),
        (lambda path: os.utime(path / "a"), ""),
    ],
)
def test_a_directory_is_compared_file_by_file(run: Path, edit: Edit, expected: str) -> None:
    path, entry = described(run, "d")
    assert changes(path, entry) == []
    edit(path)
    for look in (True, False):
        assert "; ".join(changes(path, entry, look=look)) == expected


def test_of_a_directory_only_files_that_changed_are_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, entry = described(run, "d")
    read: list[str] = []

    def member(directory: str, name: str, way: str) -> tuple[int, str]:
        read.append(name)
        return 0, ""

    monkeypatch.setattr("diel.store.artifacts.identity.member_content", member)
    (path / "a").touch()
    changes(path, entry)
    assert read == ["a"]


@pytest.mark.parametrize("copy", [shutil.copytree, lambda a, b: os.rename(a, b)], ids=["cp", "mv"])
@pytest.mark.parametrize("output", ["out.txt", "d"])
def test_a_run_that_was_copied_or_moved_is_the_same(run: Path, output: str, copy: Any) -> None:
    path, entry = described(run, output)
    copy(run, run.with_name("flow-9"))
    there = run.with_name("flow-9") / path.relative_to(run)
    assert changes(there, entry) == []
    assert is_same(str(there), entry)
    (there / "b" if there.is_dir() else there).write_text("two\n")
    assert changes(there, entry)


def test_a_record_of_an_older_run_gets_its_identity_from_its_content(run: Path) -> None:
    for output in ("out.txt", "d"):
        path, entry = described(run, output)
        identity = entry.pop("identity")
        shutil.rmtree(run / "identities", ignore_errors=True)
        assert is_same(str(path), entry)
        assert entry["identity"] == identity
        assert not is_same(str(path), {**entry, "digest": "0" * 32, "identity": ""})


def test_a_change_within_the_same_tick_is_found_by_its_content(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, entry = described(run, "out.txt")
    monkeypatch.setattr("diel.store.artifacts.identity.TICK", 10**18)
    held = ReadFiles({"x": [Artifact(str(path), entry["digest"], identity=entry["identity"])]})
    assert held.look(ended=False) == ""
    path.write_text("two\n")  # a coarse clock leaves all times as they were
    monkeypatch.setattr(
        "diel.store.artifacts.identity.identity_of", lambda _: (entry["identity"], path.stat().st_ctime_ns)
    )
    assert "other content" in held.look(ended=True)


def test_many_differences_are_a_short_message() -> None:
    assert text_of(list("abcde")) == "a; b; c; and 2 more"


def test_a_directory_that_many_tasks_read_is_looked_at_once_a_task(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, entry = described(run, "d")
    looks: list[Path] = []
    reads = {"x": Artifact(str(path), entry["digest"], identity=entry["identity"])}
    for place in ("artifact", "identity"):
        monkeypatch.setattr(f"diel.store.artifacts.{place}.identities_below", counting(looks))
    for _ in range(3):
        held = ReadFiles(reads)
        assert held.look(ended=False) == held.look(ended=True) == ""
    assert len(looks) == 2 + 2
    (path / "a").write_text("A")
    held = ReadFiles(reads)
    assert held.look(ended=False) == ""
    assert "its file 'a' is another" in held.look(ended=True)


def counting(looks: list[Path]) -> Callable[[Path], tuple[dict[str, str], int]]:
    def look(path: Path) -> tuple[dict[str, str], int]:
        looks.append(path)
        return identities_below(path)

    return look
