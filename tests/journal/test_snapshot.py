"""A snapshot at any moment changes nothing, and losing one loses nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diel.base.paths import RunPaths
from diel.base.states import TaskState
from diel.store.journal.history import History
from diel.store.journal.segment import (
    Reader,
    SegmentWriter,
)
from diel.store.journal.snapshot import read_run
from tests.journal.story import Line, Story
from tests.journal.test_history import told
from tests.record import as_record

STORIES = st.builds(Story, st.integers(0, 10**9), st.integers(0, 120))


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return made(tmp_path / "w-1")


def made(root: Path) -> RunPaths:
    paths = RunPaths(root)
    paths.journal.mkdir(parents=True)
    return paths


def write(paths: RunPaths, lines: list[Line]) -> None:
    for name, record in lines:
        with open(paths.journal / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def tear(paths: RunPaths, line: Line, at: float) -> bytes:
    """Writes the first part of a line; returns the rest of it."""
    whole = (json.dumps(line[1]) + "\n").encode()
    cut = int(at * len(whole))
    with open(paths.journal / line[0], "ab") as file:
        file.write(whole[:cut])
    return whole[cut:]


def full(paths: RunPaths) -> dict[str, Any]:
    return told(read_run(paths, snapshot=False).history)


@settings(max_examples=60)
@given(STORIES, st.lists(st.floats(0, 0.99), max_size=3).map(sorted), st.floats(0, 0.99))
def test_a_snapshot_at_any_moment_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, story: Story, moments: list[float], torn: float
) -> None:
    """Whoever reads along, and whoever begins at a snapshot, sees what a reader of everything sees."""
    paths = made(tmp_path_factory.mktemp("runs") / "w-1")
    along, written = Reader(paths, History()), 0
    for moment in moments:
        cut = int(moment * len(story.lines))
        if cut <= written:
            continue
        write(paths, story.lines[written : cut - 1])
        rest = tear(paths, story.lines[cut - 1], torn)
        along.catch_up()
        along.save()
        with open(paths.journal / story.lines[cut - 1][0], "ab") as file:
            file.write(rest)
        written = cut
    write(paths, story.lines[written:])
    along.catch_up()
    expected = full(paths)
    assert told(along.history) == expected
    assert told(read_run(paths).history) == expected


def test_what_was_folded_into_a_snapshot_is_not_read_again(paths: RunPaths) -> None:
    story = Story(seed=1, steps=100)
    write(paths, story.lines)
    reader = read_run(paths)
    reader.save()
    expected = told(reader.history)
    for name in reader.offsets:
        (paths.journal / name).write_bytes(b"x" * reader.offsets[name])
    again = read_run(paths)
    assert told(again.history) == expected


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "null", '{"version": 1}', '{"version": 0}', "\0", '{"version": 1, "stages": []}'],
)
def test_a_snapshot_that_cannot_be_read_is_done_without(paths: RunPaths, text: str) -> None:
    write(paths, Story(seed=2, steps=60).lines)
    paths.snapshot.write_text(text)
    assert told(read_run(paths).history) == full(paths)


def test_a_snapshot_whose_states_are_damaged_is_done_without(paths: RunPaths) -> None:
    write(paths, Story(seed=3, steps=60).lines)
    read_run(paths).save()
    document = json.loads(paths.snapshot.read_text())
    for damage in ("", "AAAA", "no base64!"):
        document["stages"]["s"]["states"] = damage
        paths.snapshot.write_text(json.dumps(document))
        assert told(read_run(paths).history) == full(paths)


def test_a_damaged_line_in_the_middle_is_skipped(paths: RunPaths) -> None:
    story = Story(seed=4, steps=80)
    for name, record in story.lines:
        write(paths, [(name, record)])
        with open(paths.journal / name, "ab") as file:
            file.write(b"\0\0\xff\n{}\n")
    undamaged = History()
    for name in sorted(story.segments()):
        for record in story.segments()[name]:
            undamaged.apply(as_record(record), name if name.startswith("worker") else "")
    assert told(read_run(paths).history) == told(undamaged)


def test_each_record_is_told_once_with_its_place(paths: RunPaths) -> None:
    story = Story(seed=5, steps=80)
    seen: list[Line] = []
    reader = Reader(paths, History())
    for line in story.lines:
        write(paths, [line])
        reader.catch_up(lambda segment, offset, record: seen.append(as_record((segment, record))))
    assert seen == story.lines
    reader.catch_up(lambda segment, offset, record: pytest.fail("told twice"))
    assert {name: (paths.journal / name).stat().st_size for name in reader.offsets} == reader.offsets


def test_a_run_without_a_journal_is_pending(tmp_path: Path) -> None:
    assert read_run(RunPaths(tmp_path / "none")).history == History()


def test_a_million_tasks_fit_into_a_small_snapshot(paths: RunPaths) -> None:
    reader = Reader(paths, History())
    stage = reader.history.stage("s")
    stage.total = 10**6
    stage.states = bytearray([TaskState.DONE]) * 10**6
    reader.save()
    assert paths.snapshot.stat().st_size < 20_000
    assert read_run(paths).history.stages["s"].counts()["done"] == 10**6


def test_text_that_is_no_utf8_survives_a_snapshot(paths: RunPaths) -> None:
    story = Story(seed=1, steps=0)
    failed = {"event": "failed", "stage": "s", "tasks": [[0, 0]], "time": 1.0, "message": "caf\udce9 \ud800"}
    write(paths, [*story.lines, (story.lines[0][0], failed)])
    read_run(paths).save()
    assert read_run(paths).history.failures[("s", 0)]["message"] == "caf\udce9 \ud800"


def test_segments_of_blocks_that_ended_long_ago_are_not_looked_at_again(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long run has thousands of them, each a question to a shared file system at every look."""
    for block in ("old", "new"):
        worker = SegmentWriter(paths.journal / f"worker-0001-{block}-1-1.jsonl")
        worker.append({"event": "worker", "time": 1.0, "block": block, "node": "n1", "host": "n1", "pid": 1})
        worker.close()
    controller = SegmentWriter(paths.journal / "controller-0001.jsonl")
    controller.append(
        as_record({"event": "block", "time": 1.0, "block": "old", "state": "completed", "ended": 1.0})
    )
    controller.append(
        as_record({"event": "block", "time": 1.0, "block": "new", "state": "running", "ended": None})
    )
    reader = Reader(paths, History())
    reader.catch_up()
    reader.catch_up()
    asked: list[str] = []
    size = os.path.getsize

    def getsize(path: Path) -> int:
        asked.append(Path(path).name)
        return size(path)

    monkeypatch.setattr("os.path.getsize", getsize)
    reader.catch_up()
    assert asked == ["controller-0001.jsonl", "worker-0001-new-1-1.jsonl"]


def test_a_snapshot_is_written_only_where_there_is_anything_new(paths: RunPaths) -> None:
    controller = SegmentWriter(paths.journal / "controller-0001.jsonl")
    controller.append({"event": "trouble", "time": 1.0, "message": "none"})
    reader = Reader(paths, History())
    reader.catch_up()
    reader.save()
    paths.snapshot.unlink()
    reader.save()
    assert not paths.snapshot.exists()
    controller.append({"event": "trouble", "time": 2.0, "message": "some"})
    reader.catch_up()
    reader.save()
    assert paths.snapshot.exists()
