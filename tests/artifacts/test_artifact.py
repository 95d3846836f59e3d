"""An artifact: its path in the run, its digest, and no way out of the task's directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.base.errors import ModuleError
from diel.store.artifacts import artifact, collect_returned, content, digest_of
from diel.store.artifacts.artifact import entries_below, files_below
from tests.artifacts.conftest import Take


def test_an_artifact_has_its_path_in_the_run_its_size_and_its_digest(take: Take, task_dir: Path) -> None:
    (task_dir / "sub").mkdir()
    (task_dir / "sub" / "x y;é.bin").write_bytes(b"abc")
    _, one = take(out=Path("sub/x y;é.bin"))
    _, other = take(out=task_dir / "sub" / "x y;é.bin")
    assert one == other
    assert (one["out"]["path"], one["out"]["size"]) == ("tasks/s/0/sub/x y;é.bin", 3)
    (task_dir / "sub" / "x y;é.bin").write_bytes(b"abd")
    assert take(out=Path("sub/x y;é.bin"))[1]["out"]["digest"] != one["out"]["digest"]


def test_a_directorys_digest_covers_its_files_and_their_names(tmp_path: Path) -> None:
    def made(name: str, files: dict[str, bytes]) -> tuple[int, str]:
        for path, data in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(data)
        return content(tmp_path / name)

    size, digest = made("one", {"a": b"1", "sub/b": b"23"})
    assert size == 3
    assert made("same", {"sub/b": b"23", "a": b"1"}) == (size, digest)
    others = [
        made("renamed", {"a": b"1", "sub/c": b"23"}),
        made("moved", {"a": b"1", "b": b"23"}),
        made("changed", {"a": b"1", "sub/b": b"24"}),
        made("swapped", {"a": b"23", "sub/b": b"1"}),
    ]
    assert len({digest, *(digest for _, digest in others)}) == 5


def test_a_file_larger_than_one_read_is_digested_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(3 * 1024 * 1024))
    size, digest = content(path)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    assert size == 3 * 1024 * 1024
    assert content(path)[1] != digest


@pytest.fixture
def outside(tmp_path: Path, task_dir: Path) -> Path:
    """A secret, and ways out of the task's directory."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    (task_dir / "link").symlink_to(secret)
    (task_dir / "up").symlink_to(tmp_path)
    (task_dir / "round").symlink_to("round")
    (task_dir.parent / "1").mkdir()
    (task_dir.parent / "1" / "other").write_text("o")
    return secret


@pytest.mark.parametrize("path", ["link", "up/secret", "../1/other", "/etc/passwd", "..", "up"])
def test_no_way_leads_out_of_the_tasks_directory(take: Take, outside: Path, path: str) -> None:
    with pytest.raises(ModuleError, match="is outside the task's directory"):
        take(out=Path(path))


@pytest.mark.parametrize("path", ["round", "a\0b", "nothing.csv", "nothing/x"])
def test_a_file_that_is_not_there_is_told_with_those_that_are(
    take: Take, outside: Path, task_dir: Path, path: str
) -> None:
    (task_dir / "energy.csv").touch()
    (task_dir / ".hidden").touch()
    with pytest.raises(ModuleError, match=r"no file '.*'; the task wrote energy.csv, link, round, up$"):
        take(out=Path(path))


def test_a_pipe_is_refused_and_not_waited_for(take: Take, task_dir: Path) -> None:
    os.mkfifo(task_dir / "pipe")
    with pytest.raises(ModuleError, match="neither a file nor a directory"):
        take(out=Path("pipe"))


def test_a_link_inside_the_task_is_an_artifact(take: Take, task_dir: Path) -> None:
    (task_dir / "step-9").write_text("x")
    (task_dir / "last").symlink_to("step-9")
    assert take(out=Path("last"))[1]["out"]["path"] == "tasks/s/0/last"


def test_an_artifacts_path_is_the_runs_own_however_it_was_named(
    tmp_path: Path, task_dir: Path, run_dir: Path
) -> None:
    """A scratch file system is often reached by a link: a module may name the file by either way."""
    (task_dir / "deep" / "er").mkdir(parents=True)
    (task_dir / "deep" / "x").write_text("right")
    (task_dir / "x").write_text("wrong")
    (task_dir / "way").symlink_to("deep/er")
    scratch = tmp_path / "scratch" / "mine"
    scratch.parent.mkdir()
    scratch.symlink_to(tmp_path / "runs")
    linked = scratch / "w-1"
    inside = task_dir.relative_to(run_dir)
    for path in (task_dir / "deep/x", linked / inside / "deep/x", Path("way/../x"), Path("deep/er/../x")):
        _, artifacts = collect_returned({"out": path}, linked / inside, linked)
        assert artifacts["out"]["path"] == "tasks/s/0/deep/x"
        assert (linked / artifacts["out"]["path"]).read_text() == "right"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1, 1.0 and true are three."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(JSON, JSON)
def test_digests_are_the_same_for_the_same_values_alone(one: Any, other: Any) -> None:
    assert (digest_of([one]) == digest_of([other])) == same(one, other)


@given(st.dictionaries(st.text(), JSON, min_size=2, max_size=5))
def test_the_order_of_keys_is_no_part_of_a_digest(values: dict[str, Any]) -> None:
    assert digest_of([values]) == digest_of([dict(reversed(values.items()))])


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (1, "1"), (None, ""), ([1, 2], [12]), (["a", "b"], ["ab"])]
)
def test_values_that_look_alike_have_digests_of_their_own(one: Any, other: Any) -> None:
    assert digest_of([one]) != digest_of([other])


def test_a_name_that_is_no_utf8_has_a_digest() -> None:
    assert digest_of(["\udcff"]) != digest_of(["\ud800"])


def tree(root: Path, entries: dict[str, str | None]) -> Path:
    """A directory: `NAME` with a text is a file, `NAME -> ` a link to the text, `NAME/` a directory."""
    root.mkdir(parents=True)
    for name, text in entries.items():
        path = root / name.removesuffix(" -> ").removesuffix("+x")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        elif name.endswith(" -> "):
            path.symlink_to(str(text))
        else:
            path.write_text(str(text))
            path.chmod(0o755 if name.endswith("+x") else 0o640)
    return root


def test_all_that_a_directory_holds_counts(tmp_path: Path) -> None:
    other = tree(tmp_path / "other", {"x": "x"})
    trees: list[dict[str, str | None]] = [
        {"a": "1", "d/b": "2"},
        {"a": "1", "d/b": "2", "last -> ": "d"},
        {"a": "1", "d/b": "2", "last -> ": "nowhere"},
        {"a": "1", "d/b": "2", "last -> ": "last"},
        {"a": "1", "d/b": "2", "last -> ": ".."},
        {"a": "1", "d/b": "2", "last -> ": "."},
        {"a": "1", "d/b": "2", "last -> ": str(other)},
        {"a": "1", "d/b": "2", "last/": None},
        {"a+x": "1", "d/b": "2"},
        {"a": "1", "d/b+x": "2"},
    ]
    made = [content(tree(tmp_path / "trees" / str(n), one))[1] for n, one in enumerate(trees)]
    assert len({*made}) == len(trees)
    (other / "x").write_text("y")
    assert content(tmp_path / "trees" / "6")[1] != made[6], "what lies behind a link is read through it"
    assert content(tree(tmp_path / "again" / "1", trees[1]))[1] == made[1], "wherever it lies"
    (tmp_path / "again" / "1" / "last").unlink()
    (tmp_path / "again" / "1" / "last").symlink_to(tmp_path / "again" / "1" / "d")
    assert content(tmp_path / "again" / "1")[1] == made[1], "a link in full leads to the same"


def test_links_into_and_around_another_tree_end(tmp_path: Path) -> None:
    tree(tmp_path / "far", {"deep/x": "1", "deep/up -> ": "..", "deep/home -> ": str(tmp_path / "near")})
    near = tree(
        tmp_path / "near", {"far -> ": str(tmp_path / "far"), "sys -> ": "/proc", "a -> ": "far/deep/x"}
    )
    assert dict(entries_below(near)) == {
        "a": None,
        "far/deep/home": "../..",
        "far/deep/up": "..",
        "far/deep/x": None,
        "sys": "/proc",
    }
    assert files_below(near) == ["a", "far/deep/x"]


@pytest.mark.parametrize("way", ["content", "stat"])
def test_whether_a_file_can_be_executed_is_part_of_it(tmp_path: Path, way: artifact.Way) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    found = []
    for mode in (0o644, 0o600, 0o755, 0o700):
        path.chmod(mode)
        found.append(content(path, way)[1])
    assert found[0] == found[1] != found[2] == found[3]
