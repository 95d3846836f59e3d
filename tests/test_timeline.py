"""The timeline of a run: what it reads out of a journal, in memory that does not grow with the tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diel.base.paths import RunPaths
from diel.store.timeline import Span, Timeline, read_timeline

CONTROLLER = {"event": "controller", "epoch": 1, "host": "h", "pid": 1, "started": 0.0, "time": 100.0}
WORKER = {"event": "worker", "host": "h", "pid": 2, "time": 100.5}
WORD = "worker-0001-h-2-aa.jsonl"


def start(index: int, time: float, **more: Any) -> dict[str, Any]:
    return {"event": "start", "stage": "s", "index": index, "attempt": 1, "time": time, "bundle": 1, **more}


def done(index: int, time: float, seconds: float, **more: Any) -> dict[str, Any]:
    more = {"seconds": seconds, "key": "k", "parts": ["", ""], **more}
    return {"event": "done", "stage": "s", "index": index, "attempt": 1, "time": time, **more}


def fail(index: int, time: float, seconds: float) -> dict[str, Any]:
    head = {"event": "fail", "stage": "s", "index": index, "attempt": 1, "bundle": 1, "time": time}
    return {**head, "seconds": seconds, "class": "app", "message": "it broke", "exit_code": 1}


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "w-1")
    found.journal.mkdir(parents=True)
    write(found, "controller-0001.jsonl", CONTROLLER)
    return found


def write(paths: RunPaths, name: str, *records: dict[str, Any], end: str = "\n") -> None:
    with open(paths.journal / name, "a", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(one, separators=(",", ":")) for one in records) + end)


def read(paths: RunPaths, many: int = 5000) -> Timeline:
    timeline = Timeline(paths, many)
    timeline.catch_up()
    return timeline


def test_each_attempt_has_its_times_its_state_and_its_worker(paths: RunPaths) -> None:
    write(paths, WORD, WORKER, start(0, 101.0), done(0, 103.5, 2.5), start(1, 104.0), fail(1, 105.0, 1.0))
    timeline = read(paths)
    assert timeline.stages["s"].spans == [
        Span("s", 0, 1, 0, 101.0, 103.5, "done"),
        Span("s", 1, 1, 0, 104.0, 105.0, "failed"),
    ]
    assert [(lane.worker, lane.node) for lane in timeline.lanes] == [(WORD, "h")]


def test_what_began_and_has_no_end_runs_or_was_lost(paths: RunPaths) -> None:
    write(paths, WORD, WORKER, start(0, 101.0), done(0, 102.0, 1.0), start(1, 103.0))
    timeline = read(paths)
    assert [(one.index, one.state) for one in timeline.running(110.0, live=True)] == [(1, "running")]
    assert [(one.end, one.state) for one in timeline.running(110.0, live=False)] == [(110.0, "lost")]
    write(paths, WORD, done(1, 111.0, 8.0))
    timeline.catch_up()
    assert list(timeline.running(112.0, live=True)) == []


def test_an_attempt_whose_worker_was_lost_ends_when_its_controller_gave_it_up(paths: RunPaths) -> None:
    write(paths, WORD, WORKER, start(4, 101.0))
    lost = fail(4, 109.0, 0.0)
    del lost["seconds"]
    write(paths, "controller-0001.jsonl", lost)
    assert [(one.end, one.state) for one in read(paths).running(200.0, live=True)] == [(109.0, "failed")]


def test_it_is_followed_by_offsets_and_leaves_half_a_line_alone(paths: RunPaths) -> None:
    write(paths, WORD, WORKER, done(0, 102.0, 1.0))
    timeline = read(paths)
    write(paths, WORD, done(1, 103.0, 1.0), end="")
    assert timeline.catch_up() == 0
    write(paths, WORD)
    assert timeline.catch_up() == 1
    assert timeline.catch_up() == 0
    assert [span.index for span in timeline.stages["s"].spans] == [0, 1]


def test_records_with_their_fields_in_another_order_count_and_damaged_ones_do_not(paths: RunPaths) -> None:
    odd = dict(reversed(done(1, 103.0, 1.0).items()))
    older = {"event": "done", "index": 2, "stage": "s", "seconds": 0.5, "time": 104.0}
    inside = done(3, 105.0, 1.0, values={"x": '\n{"event":"done"'})
    write(paths, WORD, WORKER, {"event": "done", **odd}, older, {"event": "done", "stage": "s"}, inside)
    assert [span.index for span in read(paths).stages["s"].spans] == [1, 2, 3]


def test_of_many_attempts_bins_remain_with_the_longest_and_those_that_failed(paths: RunPaths) -> None:
    records = [done(n, 101.0 + n, 0.9 + 0.1 * (n == 7)) for n in range(3000)] + [fail(3000, 4101.0, 0.1)]
    write(paths, WORD, WORKER, *records)
    timeline, whole = read(paths, many=100), read(paths)
    stage, known = timeline.stages["s"], whole.stages["s"]
    assert (stage.binned, known.binned) == (True, False)
    assert len(stage.spans) < 2300
    assert {7, 3000} <= {span.index for span in stage.spans}
    assert (stage.count, stage.failed, stage.mean) == (3001, 1, known.mean)
    bins = stage.lanes[0]
    assert sum(bins.busy.values()) == pytest.approx(3000 * 0.9 + 0.2)
    assert (sum(bins.ended.values()), sum(bins.failed.values())) == (3000, 1)
    assert max(bins.busy) < 512
    assert max(bins.busy.values()) <= timeline.width


def test_a_quantile_is_within_a_class_of_durations(paths: RunPaths) -> None:
    write(paths, WORD, WORKER, *(done(n, 200.0 + n, 0.01 * (n + 1)) for n in range(1000)))
    stage = read(paths).stages["s"]
    assert stage.quantile(0.95) == pytest.approx(9.5)
    assert read(paths, many=50).stages["s"].quantile(0.95) == pytest.approx(9.5, rel=0.02)
    assert stage.mean == pytest.approx(5.005)


@pytest.fixture
def shortcut_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    found = RunPaths(tmp_path / "w-1")
    found.journal.mkdir(parents=True)
    write(found, "controller-0001.jsonl", CONTROLLER)
    records = [done(n, 101.0 + n, 0.9) for n in range(40)]
    write(found, WORD, WORKER, *records, fail(50, 150.0, 2.0), start(51, 151.0))
    monkeypatch.setattr("diel.store.timeline.SAVED", 10)
    return found


def told(timeline: Timeline) -> object:
    rows = sorted(timeline.rows(200.0, live=True), key=lambda row: int(row[1]))
    stage = timeline.stages["s"]
    busy = {place: round(seconds, 3) for place, seconds in stage.lanes[0].busy.items()}
    return rows, stage.count, stage.mean, stage.quantile(0.5), timeline.width, busy, timeline.driven


def test_what_was_kept_is_what_was_read(shortcut_paths: RunPaths) -> None:
    made = told(read_timeline(shortcut_paths))
    assert shortcut_paths.timeline.exists()
    (shortcut_paths.journal / WORD).write_bytes(
        b"x" * (shortcut_paths.journal / WORD).stat().st_size
    )  # it is not read again
    assert told(read_timeline(shortcut_paths)) == made


def test_what_was_appended_since_is_read_behind_it(shortcut_paths: RunPaths) -> None:
    read_timeline(shortcut_paths)
    write(shortcut_paths, WORD, done(51, 153.0, 2.0))
    assert told(read_timeline(shortcut_paths)) == told(whole(shortcut_paths))


def whole(shortcut_paths: RunPaths) -> Timeline:
    timeline = Timeline(shortcut_paths)
    timeline.catch_up()
    return timeline


@pytest.mark.parametrize("content", [b"", b"{", b"\x1f\x8bno", None])
def test_without_it_or_with_a_damaged_one_everything_is_read(
    shortcut_paths: RunPaths, content: bytes | None
) -> None:
    made = told(read_timeline(shortcut_paths))
    if content is None:
        (shortcut_paths.journal / WORD).write_text(
            "", encoding="utf-8"
        )  # another journal, shorter than what was read
        assert read_timeline(shortcut_paths).stages == {}
    else:
        shortcut_paths.timeline.write_bytes(content)
        assert told(read_timeline(shortcut_paths)) == made
