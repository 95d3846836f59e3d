"""The file that keeps a timeline: it saves time, and nothing else depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.paths import RunPaths
from diel.timeline import Timeline, read_timeline
from tests.timeline.test_timeline import CONTROLLER, WORD, WORKER, done, fail, start, write


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    found = RunPaths(tmp_path / "w-1")
    found.journal.mkdir(parents=True)
    write(found, "controller-0001.jsonl", CONTROLLER)
    records = [done(n, 101.0 + n, 0.9) for n in range(40)]
    write(found, WORD, WORKER, *records, fail(50, 150.0, 2.0), start(51, 151.0))
    monkeypatch.setattr("diel.timeline.shortcut.SAVED", 10)
    return found


def told(timeline: Timeline) -> object:
    rows = sorted(timeline.rows(200.0, live=True), key=lambda row: int(row[1]))
    stage = timeline.stages["s"]
    busy = {place: round(seconds, 3) for place, seconds in stage.lanes[0].busy.items()}
    return rows, stage.count, stage.mean, stage.quantile(0.5), timeline.width, busy, timeline.driven


def test_what_was_kept_is_what_was_read(paths: RunPaths) -> None:
    made = told(read_timeline(paths))
    assert paths.timeline.exists()
    (paths.journal / WORD).write_bytes(b"x" * (paths.journal / WORD).stat().st_size)  # it is not read again
    assert told(read_timeline(paths)) == made


def test_what_was_appended_since_is_read_behind_it(paths: RunPaths) -> None:
    read_timeline(paths)
    write(paths, WORD, done(51, 153.0, 2.0))
    assert told(read_timeline(paths)) == told(whole(paths))


def whole(paths: RunPaths) -> Timeline:
    timeline = Timeline(paths)
    timeline.catch_up()
    return timeline


@pytest.mark.parametrize("content", [b"", b"{", b"\x1f\x8bno", None])
def test_without_it_or_with_a_damaged_one_everything_is_read(paths: RunPaths, content: bytes | None) -> None:
    made = told(read_timeline(paths))
    if content is None:
        (paths.journal / WORD).write_text("", encoding="utf-8")  # another journal, shorter than what was read
        assert read_timeline(paths).stages == {}
    else:
        paths.timeline.write_bytes(content)
        assert told(read_timeline(paths)) == made
