"""A journal's files: whole lines that a torn one does not stop."""

from __future__ import annotations

import errno
import json
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.base.errors import JournalError
from diel.base.paths import epoch_of
from diel.store.journal.segment import (
    SegmentWriter,
    decode,
    read_result,
    read_segment,
    segments,
    worker_segment_name,
)
from tests.record import as_record

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
RECORDS = st.builds(lambda value: {"event": "done", "value": value}, VALUES)


def records(path: Path, offset: int = 0) -> list[Any]:
    return [record for _, _, record in read_segment(path, offset)]


@given(st.lists(st.lists(RECORDS, min_size=1, max_size=3), max_size=4))
def test_what_is_appended_is_read_back_at_the_offsets_told(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "worker-0001-x.jsonl"
    writer = SegmentWriter(path)
    offsets = [writer.append(*as_record(batch)) for batch in batches]
    assert writer.size == path.stat().st_size
    writer.close()
    assert records(path) == [record for batch in batches for record in batch]
    for offset, batch in zip(offsets, batches, strict=True):
        assert records(path, offset)[: len(batch)] == batch


def test_each_record_is_one_line_whatever_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "worker-0001-x.jsonl"
    SegmentWriter(path).append(as_record({"event": "done", "value": "a\nb\r\u2028\x85"}))
    assert path.read_bytes().count(b"\n") == 1
    assert records(path) == [{"event": "done", "value": "a\nb\r\u2028\x85"}]


@pytest.mark.parametrize("text", ["caf\udce9", "\ud800", "x\udfffy"], ids=ascii)
def test_text_that_is_no_utf8_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    """File names may hold any byte, and a JSON escape any half of a surrogate pair."""
    path = tmp_path / "worker-0001-x.jsonl"
    writer = SegmentWriter(path)
    writer.append(as_record({"event": "done", "value": text}), {"event": "end"})
    writer.append({"event": "end"})
    assert records(path) == [{"event": "done", "value": text}, {"event": "end"}, {"event": "end"}]
    assert writer.size == path.stat().st_size


def test_a_segment_is_made_new_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "controller-0001.jsonl"
    SegmentWriter(path).append({"event": "controller"})
    with pytest.raises(FileExistsError):
        SegmentWriter(path)
    assert len(records(path)) == 1


def test_others_cannot_read_a_segment(tmp_path: Path) -> None:
    path = tmp_path / "controller-0001.jsonl"
    SegmentWriter(path)
    assert path.stat().st_mode & 0o077 == 0


# --- torn and damaged lines ---------------------------------------------------------------------

LINES = [b'{"event":"start","index":1}\n', '{"event":"done","value":"é"}\n'.encode(), b'{"event":"end"}\n']


@pytest.mark.parametrize("cut", range(len(b"".join(LINES)) + 1))
def test_a_torn_last_line_is_left_alone_until_it_is_whole(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "s.jsonl"
    whole = b"".join(LINES)
    path.write_bytes(whole[:cut])
    seen = list(read_segment(path))
    assert len(seen) == whole[:cut].count(b"\n")
    assert all(record is not None for _, _, record in seen)
    end = seen[-1][1] if seen else 0
    path.write_bytes(whole)
    assert [r for _, _, r in seen] + records(path, end) == [json.loads(line) for line in LINES]


@pytest.mark.parametrize(
    "damage",
    [b"\0" * 20, b"\xff\xfe{", b'{"event":', b"[1]", b'"x"', b"{}", b"", b"null", b"9" * 5000, b"[" * 99_999],
    ids=lambda damage: repr(damage[:9]),
)
def test_a_damaged_line_has_no_record_and_stops_nobody(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(LINES[0] + damage + b"\n" + LINES[2])
    assert records(path) == [json.loads(LINES[0]), None, json.loads(LINES[2])]
    last = list(read_segment(path))[-1]
    assert last[:2] == (len(LINES[0] + damage) + 1, path.stat().st_size)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_none(line: bytes) -> None:
    record = decode(line)
    assert record is None or "event" in record


def test_a_place_without_a_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(LINES))
    assert read_result(path, len(LINES[0])) == as_record({"event": "done", "value": "é"})
    for offset in (1, 10**9):
        with pytest.raises(JournalError, match=f"no record at byte {offset}"):
            read_result(path, offset)
    with pytest.raises(JournalError, match="No such file"):
        read_result(tmp_path / "none.jsonl", 0)


# --- a disk that is full ------------------------------------------------------------------------


def test_a_write_that_the_disk_cut_short_is_taken_back(tmp_path: Path) -> None:
    """The kernel writes a part and refuses the rest, as on a full disk."""
    path = tmp_path / "worker-0001-x.jsonl"
    writer = SegmentWriter(path)
    writer.append({"event": "start"})
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(JournalError, match=r"cannot write .*worker-0001-x\.jsonl: File too large"):
            writer.append(as_record({"event": "done", "value": "x" * 2_000_000}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    offset = writer.append({"event": "end"})
    assert (offset, records(path)) == (len(before), [{"event": "start"}, {"event": "end"}])


def test_a_write_that_needs_several_calls_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: whole_write(file, data[:7]))
    writer = SegmentWriter(tmp_path / "s.jsonl")
    writer.append(as_record({"event": "done", "value": list(range(100))}))
    assert records(writer.path) == [{"event": "done", "value": list(range(100))}]


def test_a_second_write_that_fails_takes_the_first_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SegmentWriter(tmp_path / "s.jsonl")
    whole_write = os.write

    def full(file: int, data: bytes) -> int:
        if os.fstat(file).st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole_write(file, data[:5])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(JournalError, match="No space left on device"):
            writer.append({"event": "done"})
    assert writer.path.read_bytes() == b""
    assert writer.append({"event": "end"}) == 0


# --- names --------------------------------------------------------------------------------------


def test_threads_that_append_at_once_are_told_each_its_own_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's threads write results while it begins its next task: each is read at its offset."""
    writer = SegmentWriter(tmp_path / "s")
    places: dict[int, int] = {}

    def append(first: int) -> None:
        for number in range(first, first + 100):
            places[number] = writer.append(as_record({"event": "done", "index": number}))

    write = os.write

    def yielding(file: int, data: bytes) -> int:
        written = write(file, data)
        os.sched_yield()
        return written

    monkeypatch.setattr("os.write", yielding)
    with ThreadPoolExecutor() as pool:
        list(pool.map(append, range(0, 400, 100)))
    assert {number: read_result(tmp_path / "s", place)["index"] for number, place in places.items()} == {
        number: number for number in range(400)
    }


def test_a_segments_name_tells_its_epoch() -> None:
    assert epoch_of("controller-0012.jsonl") == 12
    assert epoch_of(worker_segment_name(12, "node-7.cluster", 345)) == 12


def test_no_two_workers_share_a_name() -> None:
    names = {worker_segment_name(1, "node", 345) for _ in range(100)}
    assert len(names) == 100


def test_controllers_are_read_by_epoch_and_before_workers(tmp_path: Path) -> None:
    assert segments(tmp_path / "none") == []
    names = ["controller-0001.jsonl", "controller-0002.jsonl", "controller-0010.jsonl", "worker-0001-a.jsonl"]
    for name in (*reversed(names), "worker-0001-a.part", "notes.txt"):
        (tmp_path / name).touch()
    assert segments(tmp_path) == names
