"""Append-only files of records."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from diel.streams.log import RecordLog
from tests.streams.desk import Desk


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


class Reader:
    """A member of a group: what it asks, and what it makes of the answers."""

    def __init__(self, group: str, member: str) -> None:
        self.group, self.member = group, member
        self.attempt, self.at = 1, 0

    def do(self, desk: Desk, what: str) -> Any:
        who: dict[str, Any] = {
            "channel": "x",
            "group": self.group,
            "member": self.member,
            "attempt": self.attempt,
        }
        if what == "get":
            stands = desk.told("facts")["channels"]["x"]["groups"][self.group]
            if not stands["waiting"] and stands["delivered"] <= self.at:
                return stands  # it would wait, and be told later
            return desk.ask("get", **{**who, "from": self.at, "most": 2})
        if what == "begin":
            return desk.consume(self.group, self.member, attempt=self.attempt + 1)
        return desk.ask("commit", **who, at=self.at)

    def note(self, what: str, answer: Any) -> None:
        if what == "get" and isinstance(answer, tuple):
            self.at += len(answer[0].get("sizes", ()))
        elif what == "begin":
            self.attempt, self.at = self.attempt + 1, answer["at"]


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_broker_that_is_killed_again_and_again_answers_as_one_that_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, replay: bool
) -> None:
    """With files so small that each has a few records: all that a broker starts from is met."""
    monkeypatch.setattr(RecordLog.__init__, "__defaults__", (700,))
    choose, desks = random.Random(seed), (Desk(tmp_path / "a"), Desk(tmp_path / "b"))
    readers = [Reader("a", "a/0"), Reader("a", "a/1"), Reader("b", "b/0")]
    for desk in desks:
        desk.open(buffer=50, replay=replay, a=["a/0", "a/1"], b=["b/0"])
        for reader in readers:
            desk.consume(reader.group, reader.member)
    put = 0
    for _ in range(200):
        what, reader = (
            choose.choice(["put", "get", "get", "commit", "again", "begin"]),
            choose.choice(readers),
        )
        if what == "again":
            desks[1].again()
            answers = [desk.told("facts") for desk in desks]
        elif what == "put":
            answers = [desk.put("m/0", put, *(f"{n} " for n in range(put, put + 3))) for desk in desks]
            put += 3
        else:
            answers = [reader.do(desk, what) for desk in desks]
            reader.note(what, answers[0])
        assert answers[0] == answers[1], what
    logs = list(desks[1].root.glob("broker-*.log"))
    assert len(logs) == 1, "a file that begins with a snapshot takes the place of those before it"
    assert (desks[1].root / "channels/0001/items-000001.log").exists() == replay


def test_a_snapshot_that_was_cut_off_leaves_the_files_before_it(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, *"abc")
    (first,) = desk.root.glob("broker-*.log")
    whole = first.read_bytes()
    desk.again()
    desk.consume("a", "a/0")
    (second,) = desk.root.glob("broker-*.log")
    second.write_bytes(second.read_bytes()[:20])
    first.write_bytes(whole)
    desk.again()
    desk.consume("a", "a/0")
    assert desk.get("a", "a/0", 0) == list("abc")


def test_a_closed_channel_can_be_opened_again(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.told("close", channel="x")
    assert "closed" in desk.put("m/0", 0, "a")["error"]
    desk.open(a=["a/0"])
    assert desk.put("m/0", 0, "a")["count"] == 1
