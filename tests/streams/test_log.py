"""Append-only files of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.streams.log import RecordLog


def whole(folder: Path) -> list[tuple[int, bytes]]:
    log = RecordLog(folder, "items")
    found = [(header["n"], log.read(place)) for header, place in log.records()]
    log.close()
    return found


def test_what_was_appended_is_read_in_order_over_files_and_writers(tmp_path: Path) -> None:
    first = RecordLog(tmp_path, "items", roll=100)
    for number in range(5):
        first.append({"n": number}, b"x" * number * 20)
    second = RecordLog(tmp_path, "items")
    second.append({"n": 5}, b"end")
    assert whole(tmp_path) == [(n, b"x" * n * 20) for n in range(5)] + [(5, b"end")]
    assert len(list(tmp_path.iterdir())) > 2
    first.close()
    second.close()


def test_half_a_record_at_the_end_is_not_read_and_does_not_hide_what_follows(tmp_path: Path) -> None:
    first = RecordLog(tmp_path, "items")
    first.append({"n": 1}, b"good")
    first.append({"n": 2}, b"torn" * 100)
    first.close()
    (path,) = tmp_path.iterdir()
    whole_size = path.stat().st_size
    for length in range(whole_size - 1, whole_size - 400, -7):
        with open(path, "r+b") as file:
            file.truncate(length)
        assert whole(tmp_path) == [(1, b"good")]
    after = RecordLog(tmp_path, "items")
    after.append({"n": 3}, b"next")
    after.close()
    assert whole(tmp_path) == [(1, b"good"), (3, b"next")]


@pytest.mark.parametrize("left", [bytes(4096), b"\x05\0\0\0\0\0\0\0\0\xff\0\0\0more"])
def test_what_a_loss_of_power_left_at_the_end_is_not_read(tmp_path: Path, left: bytes) -> None:
    log = RecordLog(tmp_path, "items")
    log.append({"n": 1}, b"good")
    log.close()
    (path,) = tmp_path.iterdir()
    with open(path, "ab") as file:
        file.write(left)
    assert whole(tmp_path) == [(1, b"good")]


def test_a_record_is_found_by_its_place(tmp_path: Path) -> None:
    log = RecordLog(tmp_path, "items")
    log.append({"n": 1}, b"one")
    place = log.append({"n": 2}, b"two")
    assert log.record(place.file, place.record) == ({"n": 2}, b"two")
    assert log.read(place) == b"two"
    log.close()


def test_a_removed_file_takes_its_records_with_it(tmp_path: Path) -> None:
    log = RecordLog(tmp_path, "items", roll=1)
    for number in range(3):
        log.append({"n": number}, b"x")
    log.remove(1)
    log.close()
    assert whole(tmp_path) == [(1, b"x"), (2, b"x")]
