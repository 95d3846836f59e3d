"""One channel: room for producers, what stays on the disk, and what is not whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.desk import Desk


def whole(desk: Desk, member: str, attempt: int = 1, **more: Any) -> str:
    return str(desk.told("flaw", channel="x", member=member, attempt=attempt, **more)["flaw"])


def test_a_producer_may_put_what_the_slowest_group_has_room_for(desk: Desk) -> None:
    desk.open(buffer=4, a=["a/0"], b=["b/0"])
    assert desk.told("produce", channel="x", member="m/0", attempt=1)["limit"] == 4
    assert desk.put("m/0", 0, *"abc")["limit"] == 4
    desk.consume("a", "a/0")
    desk.get("a", "a/0", 0)
    assert desk.put("m/0", 3, "d")["limit"] == 4
    assert desk.ask("want", channel="x", member="m/0", attempt=1, above=4) is None
    desk.consume("b", "b/0")
    before = len(desk.answers)
    desk.get("b", "b/0", 0, most=2)
    assert [header["limit"] for _, header, _ in desk.answers[before:] if "limit" in header] == [6]


def test_producers_share_the_room(desk: Desk) -> None:
    desk.open(buffer=10, a=["a/0"])
    desk.told("produce", channel="x", member="m/0", attempt=1)
    assert desk.told("produce", channel="x", member="m/1", attempt=1)["limit"] == 5
    desk.told("part", channel="x", member="m/0", attempt=1)
    assert desk.put("m/1", 0, "a")["limit"] == 10


def test_a_group_whose_members_have_all_ended_holds_nobody_up(desk: Desk) -> None:
    desk.open(buffer=2, a=["a/0"])
    desk.put("m/0", 0, "a", "b")
    assert desk.ask("want", channel="x", member="m/0", attempt=1, above=2) is None
    desk.told("settle", channel="x", group="a", member="a/0", good=True)
    assert desk.answers[-2][1]["limit"] > 1000


def test_a_group_that_nobody_asked_for_holds_nobody_up_and_may_replay(desk: Desk) -> None:
    desk.open(buffer=2, a=["a/0"])
    desk.consume("a", "a/0")
    desk.put("m/0", 0, "a", "b")
    desk.get("a", "a/0", 0)
    desk.consume("late", "late/0")
    desk.consume("later", "later/0", replay=False)
    assert desk.put("m/0", 2, "c")["limit"] == 4
    assert desk.get("late", "late/0", 0) == ["a", "b", "c"]
    assert desk.get("later", "later/0", 0) == ["c"]


def test_without_replay_what_all_committed_goes_from_the_disk(desk: Desk) -> None:
    desk.open(buffer=10**6, replay=False, a=["a/0"])
    desk.consume("a", "a/0")
    desk.consume("watch", "watch/0")
    folder = desk.root / "channels" / "0001"
    number = 0
    for batch in range(6):
        name = f"channels/0001/items-abc-{batch + 1}.bin"
        (desk.root / name).write_bytes(b"large")
        desk.put("m/0", 2 * batch, "r1", "r2", files=[name], held=50_000_000)
        while items := desk.get("a", "a/0", number, most=1):
            number += len(items)
    assert len(list(folder.glob("items-*.bin"))) == 6
    desk.told("commit", channel="x", group="a", member="a/0", attempt=1, at=number - 1)
    assert len(list(folder.glob("items-*.bin"))) < 6
    desk.again()
    assert desk.get("watch", "watch/0", 0) == ["r1", "r2"], "what is still there"
    assert desk.consume("a", "a/0", attempt=2)["at"] == number - 1
    assert desk.get("a", "a/0", number - 1, attempt=2) == ["r2"]
    assert desk.told("produce", channel="x", member="m/0", attempt=2)["count"] == 12
    assert desk.told("facts")["channels"]["x"]["items"] == 12


def test_with_replay_everything_stays(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.consume("a", "a/0")
    desk.put("m/0", 0, *"abc")
    desk.get("a", "a/0", 0)
    desk.told("settle", channel="x", group="a", member="a/0", good=True)
    desk.told("close", channel="x")
    desk.again()
    desk.consume("later", "later/0")
    assert desk.get("later", "later/0", 0) == list("abc")
    assert desk.get("later", "later/0", 3) == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_broken_stream_gives_what_is_there_and_no_end(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0"], b=["b/0"])
    desk.put("m/0", 0, *"ab")
    desk.consume("a", "a/0")
    desk.consume("b", "b/0")
    assert desk.get("b", "b/0", 0) == ["a", "b"]
    assert desk.get("b", "b/0", 2) is None
    desk.told("break", channel="x", groups=["a", "b"], why="m/0 failed")
    assert desk.answers[-2][1]["broken"] == "m/0 failed", "who waits is told"
    desk.put("m/1", 0, "c")
    if restart:
        desk.again()
    desk.told("close", channel="x")
    assert desk.get("a", "a/0", 0) == ["a", "b"]
    who = {"channel": "x", "group": "a", "member": "a/0", "attempt": 1}
    assert desk.told("get", **who, **{"from": 2, "most": 1})["broken"] == "m/0 failed"
    desk.consume("late", "late/0")
    assert desk.get("late", "late/0", 0) == ["a", "b", "c"]
    late = {"channel": "x", "group": "late", "member": "late/0", "attempt": 1, "from": 3, "most": 1}
    assert desk.told("get", **late)["broken"] == "m/0 failed", "nor does who was not expected"
    facts = desk.told("facts")["channels"]["x"]
    assert (facts["items"], facts["closed"], facts["broken"]) == (3, False, "m/0 failed")


@pytest.mark.parametrize("restart", [False, True])
def test_who_was_told_of_a_broken_stream_has_no_result_though_it_is_mended(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0"], b=["b/0"], c=["c/0"])
    for name in "abc":
        desk.consume(name, f"{name}/0")
    desk.get("a", "a/0", 0, 1)
    desk.told("break", channel="x", groups=["a", "b"], why="m/0 failed")
    broken = "the stream x is broken: m/0 failed"
    assert [whole(desk, f"{name}/0", group=name) for name in "abc"] == [broken, broken, ""]
    desk.open(a=["a/0"], b=["b/0"], c=["c/0"])
    if restart:
        desk.again()
    assert [whole(desk, f"{name}/0", group=name) for name in "abc"] == [broken, "", ""]
    desk.consume("a", "a/0", attempt=2)
    assert "is over" in desk.told("flaw", channel="x", member="a/0", attempt=1, group="a")["error"]
    assert whole(desk, "a/0", 2, group="a") == ""


@pytest.mark.parametrize("restart", [False, True])
def test_an_attempt_that_puts_less_than_the_one_before_is_found_out(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, *"abc")
    assert "was killed, or still puts" in whole(desk, "m/0", goes_on=False)
    desk.told("part", channel="x", member="m/0", attempt=1, failed=True)
    assert "who put it failed" in whole(desk, "m/0", goes_on=False)
    desk.told("part", channel="x", member="m/0", attempt=1)
    assert whole(desk, "m/0", goes_on=False) == ""
    assert "put 0 items into x, and an attempt before it had put 3" in whole(desk, "m/0", 2, goes_on=False)
    assert whole(desk, "m/0", 2, goes_on=True) == "", "it took up a checkpoint behind the last item"
    desk.told("produce", channel="x", member="m/0", attempt=2)
    desk.told("place", channel="x", member="m/0", attempt=2, at=2)
    desk.told("part", channel="x", member="m/0", attempt=2)
    if restart:
        desk.again()
    assert "put 2 items" in whole(desk, "m/0", 2, goes_on=False)
    assert whole(desk, "m", 2, goes_on=False) == "", "nobody who put anything"


def test_a_reader_that_did_not_leave_was_killed(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, *"ab")
    desk.consume("a", "a/0", leaves=True)
    desk.get("a", "a/0", 0, most=1)
    assert "was killed, or still reads" in whole(desk, "a/0", group="a")
    desk.told("seat", channel="x", group="a", member="a/0", attempt=1, at=1)
    assert whole(desk, "a/0", group="a") == "", "one item was enough for it"


def test_the_ranks_of_a_task_are_asked_for_together(desk: Desk) -> None:
    desk.open(a=["a/0.0", "a/0.1"])
    desk.told("produce", channel="x", member="m/0.1", attempt=1)
    assert whole(desk, "m/0", goes_on=False)
    desk.consume("a", "a/0.1")
    desk.told("break", channel="x", groups=["a"], why="m/0 failed")
    assert "m/0 failed" in whole(desk, "a/0", group="a")


@pytest.mark.parametrize("restart", [False, True])
def test_a_reader_whose_result_was_lost_reads_all_again(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0"], b=["b/0", "b/1"])
    desk.put("m/0", 0, *"abc")
    for group, member in (("a", "a/0"), ("b", "b/0")):
        desk.consume(group, member)
        desk.get(group, member, 0)
        desk.told("settle", channel="x", group=group, member=member, good=True)
    if restart:
        desk.again()
    desk.open(a=["a/0"], b=["b/0", "b/1"])
    desk.told("close", channel="x")
    assert desk.consume("a", "a/0", attempt=2)["at"] == 0
    assert desk.get("a", "a/0", 0, attempt=2) == ["a", "b", "c"]
    desk.consume("b", "b/0", attempt=2)
    assert "are gone" in whole(desk, "b/0", 2, group="b"), "nobody knows which ones it had"


def test_without_replay_what_a_reader_that_failed_had_read_stays_for_its_next_attempt(desk: Desk) -> None:
    desk.open(buffer=10**6, replay=False, a=["a/0"], b=["b/0"])
    names = [f"channels/0001/items-abc-{number}.bin" for number in range(4)]
    for number, name in enumerate(names):
        (desk.root / name).write_bytes(b"large")
        desk.put("m/0", number, f"r{number}", files=[name], held=50_000_000)
    for group, good in (("a", True), ("b", False)):
        desk.consume(group, f"{group}/0")
        desk.get(group, f"{group}/0", 0)
        desk.told("settle", channel="x", group=group, member=f"{group}/0", good=good)
    assert all((desk.root / name).exists() for name in names)
    desk.consume("b", "b/0", attempt=2)
    assert desk.get("b", "b/0", 0, attempt=2) == ["r0", "r1", "r2", "r3"]
    desk.told("settle", channel="x", group="b", member="b/0", good=True)
    assert not (desk.root / names[0]).exists()
    desk.open(buffer=10**6, replay=False, a=["a/0"], b=["b/0"])
    desk.consume("a", "a/0", attempt=2)
    assert "are gone" in whole(desk, "a/0", 2, group="a")


def test_facts_tell_how_each_channel_stands(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, *"abc")
    desk.consume("a", "a/0")
    desk.get("a", "a/0", 0, most=2)
    desk.told("commit", channel="x", group="a", member="a/0", attempt=1, at=1)
    found = desk.told("facts")["channels"]["x"]
    assert (found["items"], found["closed"], found["producers"]) == (3, False, {"m/0": 3})
    assert found["groups"] == {"a": {"delivered": 2, "committed": 1, "waiting": 1, "settled": False}}
