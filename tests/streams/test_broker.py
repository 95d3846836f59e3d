"""What the broker answers, without sockets: requests in, answers out. `again()` is a broker that was killed."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from diel.streams.broker import Broker
from diel.streams.log import RecordLog
from diel.streams.protocol import Header, cut


class Desk:
    """A broker, and the answers that it gave to each peer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.gone: set[bytes] = set()
        self.answers: list[tuple[bytes, Header, bytes]] = []
        self.broker = Broker(root, self._send)
        self._ids = 0

    def _send(self, peer: bytes, header: Header, block: bytes) -> bool:
        if peer in self.gone:
            return False
        self.answers.append((peer, header, block))
        return True

    def again(self) -> None:
        self.broker.close()
        self.broker = Broker(self.root, self._send)

    def ask(
        self, op: str, block: bytes = b"", peer: bytes = b"p", **fields: Any
    ) -> tuple[Header, bytes] | None:
        """The answer, if it came at once."""
        self._ids += 1
        before = len(self.answers)
        self.broker.handle(peer, {"id": self._ids, "op": op, **fields}, block)
        for who, header, found in self.answers[before:]:
            if who == peer and header["id"] == self._ids:
                return header, found
        return None

    def told(self, op: str, **fields: Any) -> Header:
        answer = self.ask(op, **fields)
        assert answer is not None
        return answer[0]

    # --- in words ---

    def open(self, buffer: int = 100, replay: bool = True, **groups: list[str]) -> None:
        self.told("open", channel="x", buffer=buffer, replay=replay, groups=groups)

    def put(self, member: str, first: int, *items: str, attempt: int = 1, **more: Any) -> Header:
        block = "".join(items).encode()
        sizes = [len(item.encode()) for item in items]
        return self.told(
            "put", block=block, channel="x", member=member, attempt=attempt, first=first, sizes=sizes, **more
        )

    def consume(self, group: str, member: str, attempt: int = 1, **more: Any) -> Header:
        return self.told("consume", channel="x", group=group, member=member, attempt=attempt, **more)

    def get(
        self, group: str, member: str, start: int, most: int = 100, attempt: int = 1, peer: bytes = b"p"
    ) -> list[str] | None:
        """Items; an empty list at the end; None where there is nothing yet."""
        who = {"channel": "x", "group": group, "member": member, "attempt": attempt}
        fields: dict[str, Any] = {**who, "from": start, "most": most}
        answer = self.ask("get", peer=peer, **fields)
        return None if answer is None else self.items(answer)

    @staticmethod
    def items(answer: tuple[Header, bytes]) -> list[str]:
        header, block = answer
        assert "error" not in header, header
        return [] if header.get("end") else [item.decode() for item in cut(block, header["sizes"])]

    def late(self) -> list[str]:
        """The items of the newest answer."""
        return self.items(self.answers[-1][1:])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_each_group_gets_every_item_in_order(desk: Desk) -> None:
    desk.open(a=["a/0"], b=["b/0"])
    desk.put("m/0", 0, "1", "22", "333")
    for group in ("a", "b"):
        desk.consume(group, f"{group}/0")
        assert desk.get(group, f"{group}/0", 0) == ["1", "22", "333"]


def test_members_of_a_group_share_the_items_one_to_one(desk: Desk) -> None:
    desk.open(a=["a/0", "a/1"])
    desk.put("m/0", 0, *"abcdefgh")
    got = {"a/0": 0, "a/1": 0}
    seen: list[str] = []
    for member in ["a/0", "a/1"]:
        desk.consume("a", member)
    for member in ["a/0", "a/1", "a/1", "a/0"] * 3:
        items = desk.get("a", member, got[member], most=2)
        got[member] += len(items or [])
        seen += items or []
    assert sorted(seen) == list("abcdefgh")
    assert min(got.values()) > 0


def test_a_get_before_the_put_is_answered_by_it(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.consume("a", "a/0")
    assert desk.get("a", "a/0", 0) is None
    desk.broker.handle(b"q", request("put", "m/0", sizes=[3]), b"new")
    assert [desk.items(answer[1:]) for answer in desk.answers if answer[1].get("sizes")] == [["new"]]


def request(op: str, member: str, **more: Any) -> Header:
    return {"id": 1, "op": op, "channel": "x", "member": member, "attempt": 1, "first": 0, **more}


def test_the_end_comes_once_all_is_read_and_closed(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.consume("a", "a/0")
    desk.put("m/0", 0, "1")
    desk.told("close", channel="x")
    assert desk.get("a", "a/0", 0) == ["1"]
    assert desk.get("a", "a/0", 1) == []
    assert "closed" in desk.put("m/0", 1, "2")["error"]


def test_a_waiting_reader_is_told_of_the_end(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.consume("a", "a/0")
    assert desk.get("a", "a/0", 0) is None
    desk.told("close", channel="x")
    assert any(header.get("end") for _, header, _ in desk.answers)


def test_requests_before_the_channel_is_open_are_answered_when_it_is(desk: Desk) -> None:
    assert desk.ask("produce", channel="x", member="m/0", attempt=1) is None
    desk.open(a=["a/0"])
    assert any("folder" in header for _, header, _ in desk.answers)


@pytest.mark.parametrize("restart", [False, True])
def test_a_batch_that_comes_twice_counts_once(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, "1", "2")
    if restart:
        desk.again()
    assert desk.put("m/0", 0, "1", "2", "3")["count"] == 3
    desk.consume("a", "a/0")
    assert desk.get("a", "a/0", 0) == ["1", "2", "3"]


def test_items_before_which_others_are_missing_are_refused(desk: Desk) -> None:
    desk.open(a=["a/0"])
    assert "item 0 is the next" in desk.put("m/0", 5, "x")["error"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_attempt_of_a_producer_learns_what_is_known(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, "1", "2")
    if restart:
        desk.again()
    told = desk.told("produce", channel="x", member="m/0", attempt=2)
    assert (told["count"], told["at"]) == (2, 0)
    assert "attempt 2 has begun" in desk.put("m/0", 2, "late", attempt=1)["error"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_attempt_of_a_consumer_gets_what_was_not_committed_again(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, *"abcdef")
    desk.consume("a", "a/0")
    assert desk.get("a", "a/0", 0, most=4) == list("abcd")
    desk.told("commit", channel="x", group="a", member="a/0", attempt=1, at=3)
    if restart:
        desk.again()
    assert desk.consume("a", "a/0", attempt=2)["at"] == 3
    assert desk.get("a", "a/0", 3, attempt=2) == ["d"]
    assert desk.get("a", "a/0", 4, attempt=2) == ["e", "f"]
    assert (
        "attempt 2 has begun"
        in desk.told("commit", channel="x", group="a", member="a/0", attempt=1, at=4)["error"]
    )


def test_an_attempt_that_waits_is_told_when_the_next_one_has_begun(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.consume("a", "a/0")
    assert desk.get("a", "a/0", 0, peer=b"old") is None
    desk.consume("a", "a/0", attempt=2)
    assert [answer["error"] for peer, answer, _ in desk.answers if peer == b"old"]


@pytest.mark.parametrize("restart", [False, True])
def test_an_answer_that_was_lost_is_given_again(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0", "a/1"])
    desk.put("m/0", 0, *"abcdefgh")
    desk.consume("a", "a/0")
    desk.consume("a", "a/1")
    first = desk.get("a", "a/0", 0, most=2)
    desk.get("a", "a/1", 0, most=2)
    if restart:
        desk.again()
    assert desk.get("a", "a/0", 0, most=2) == first


@pytest.mark.parametrize("restart", [False, True])
def test_another_process_of_an_attempt_goes_on_where_the_one_before_left(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, *"abcdef")
    desk.consume("a", "a/0")
    desk.get("a", "a/0", 0, most=4)
    desk.told("seat", channel="x", group="a", member="a/0", attempt=1, at=2)
    desk.told("place", channel="x", member="m/0", attempt=1, at=6)
    if restart:
        desk.again()
    assert desk.consume("a", "a/0")["at"] == 2
    assert desk.told("produce", channel="x", member="m/0", attempt=1)["at"] == 6


def test_items_for_a_reader_that_is_gone_are_for_the_next_one(desk: Desk) -> None:
    desk.open(a=["a/0", "a/1"])
    desk.consume("a", "a/0")
    desk.consume("a", "a/1")
    assert desk.get("a", "a/0", 0, peer=b"dead") is None
    desk.gone.add(b"dead")
    desk.put("m/0", 0, "1")
    assert desk.get("a", "a/1", 0) == ["1"]


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_failed_member_had_goes_to_the_others(desk: Desk, restart: bool) -> None:
    desk.open(a=["a/0", "a/1"])
    desk.put("m/0", 0, *"abcdefgh")
    desk.consume("a", "a/0")
    desk.consume("a", "a/1")
    assert desk.get("a", "a/0", 0, most=2) == ["a", "b"]
    assert desk.get("a", "a/1", 0, most=1) == ["c"]
    desk.told("settle", channel="x", group="a", member="a/0", good=False)
    if restart:
        desk.again()
    assert desk.get("a", "a/1", 1) == ["a", "b"]


def test_what_a_good_member_did_not_use_goes_to_the_others(desk: Desk) -> None:
    desk.open(a=["a/0", "a/1"])
    desk.put("m/0", 0, *"abcdefgh")
    desk.consume("a", "a/0")
    desk.consume("a", "a/1")
    assert desk.get("a", "a/0", 0, most=2) == ["a", "b"]
    desk.told("seat", channel="x", group="a", member="a/0", attempt=1, at=1)
    desk.told("settle", channel="x", group="a", member="a/0", good=True)
    assert desk.get("a", "a/1", 0) == ["b"]


# --- back-pressure ---


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


# --- what is on the disk ---


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


def test_a_closed_channel_can_be_opened_again(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.told("close", channel="x")
    assert "closed" in desk.put("m/0", 0, "a")["error"]
    desk.open(a=["a/0"])
    assert desk.put("m/0", 0, "a")["count"] == 1


# --- what is not whole ---


def whole(desk: Desk, member: str, attempt: int = 1, **more: Any) -> str:
    return str(desk.told("flaw", channel="x", member=member, attempt=attempt, **more)["flaw"])


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
    assert "not there any more" in whole(desk, "b/0", 2, group="b"), "nobody knows which ones it had"


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
    assert "not there any more" in whole(desk, "a/0", 2, group="a")


def test_facts_tell_how_each_channel_stands(desk: Desk) -> None:
    desk.open(a=["a/0"])
    desk.put("m/0", 0, *"abc")
    desk.consume("a", "a/0")
    desk.get("a", "a/0", 0, most=2)
    desk.told("commit", channel="x", group="a", member="a/0", attempt=1, at=1)
    found = desk.told("facts")["channels"]["x"]
    assert (found["items"], found["closed"], found["producers"]) == (3, False, {"m/0": 3})
    assert found["groups"] == {"a": {"delivered": 2, "committed": 1, "waiting": 1, "settled": False}}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"op": "dance"},
        {"op": "put"},
        {"op": "put", "channel": "x", "member": "m/0", "attempt": 1, "first": "a", "sizes": [1]},
        {"op": "get", "channel": "x", "group": "nobody", "member": "m/0", "attempt": 1, "from": 0, "most": 1},
        {"op": "tuple", "do": "take", "key": [{}], "owner": "o", "attempt": 1, "number": 0, "keep": False},
        {"op": "put", "channel": "x", "member": "m/0", "attempt": 1, "first": math.inf, "sizes": []},
        {"op": "put", "channel": "x", "member": "m/0", "attempt": 1, "first": 0, "sizes": [3]},
        {"op": "put", "channel": "x", "member": "m/0", "attempt": 1, "first": 0, "sizes": [-1, 1]},
        {"op": "open", "channel": "y", "groups": 3, "buffer": 1, "replay": True},
    ],
    ids=lambda wrong: json.dumps(wrong)[:30],
)
def test_a_request_that_makes_no_sense_is_answered_with_what_is_wrong(desk: Desk, wrong: Header) -> None:
    desk.open(a=["a/0"])
    desk.broker.handle(b"p", {"id": 99, **wrong}, b"")
    assert desk.answers[-1][1]["id"] == 99
    assert desk.answers[-1][1]["error"]
    assert "diel failed" not in desk.answers[-1][1]["error"]
    assert desk.put("m/0", 0, "good")["count"] == 1


def test_a_mistake_of_the_brokers_is_told_as_one_and_others_are_served_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.open(a=["a/0"])

    def fail(*_: object) -> None:
        raise AttributeError("no such thing")

    with monkeypatch.context() as patch:
        patch.setattr("diel.streams.channel.Channel.facts", fail)
        desk.broker.handle(b"p", {"id": 99, "op": "facts"}, b"")
    told = desk.answers[-1][1]["error"]
    assert told.startswith("facts: diel failed in a way that it should not: AttributeError: no such thing\n")
    assert "report it, with the end of " in told
    assert "AttributeError: no such thing" in capsys.readouterr().err
    assert desk.put("m/0", 0, "good")["count"] == 1


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


# --- the tuple space ---


def tuples(
    desk: Desk, do: str, key: list[Any], owner: str, number: int, value: bytes = b"", **more: Any
) -> Any:
    who = {"owner": owner, "attempt": 1, "keep": False, **more}
    answer = desk.ask("tuple", block=value, do=do, key=key, number=number, peer=owner.encode(), **who)
    return None if answer is None else (answer[0].get("error") or answer[0]["key"], answer[1])


def enter(desk: Desk, owner: str, attempt: int = 1) -> int:
    return int(desk.told("space", owner=owner, attempt=attempt)["at"])


@pytest.mark.parametrize("restart", [False, True])
def test_a_tuple_is_taken_once(desk: Desk, restart: bool) -> None:
    for owner in "ab":
        enter(desk, owner)
    tuples(desk, "put", ["edge", 1], "a", 0, b"jv")
    assert tuples(desk, "read", ["edge", None], "b", 0) == (["edge", 1], b"jv")
    assert tuples(desk, "take", ["edge", 1.0], "b", 1) == (["edge", 1], b"jv")
    if restart:
        desk.again()
    assert tuples(desk, "take", ["edge", 1.0], "b", 1) == (["edge", 1], b"jv"), "the lost answer again"
    assert tuples(desk, "take", ["edge", 1], "a", 1) is None


def test_who_asked_first_is_served_first_and_readers_are_not_left_out(desk: Desk) -> None:
    for owner in "abcd":
        enter(desk, owner)
    for owner, do in (("a", "take"), ("b", "read"), ("c", "take")):
        assert tuples(desk, do, ["k", None], owner, 0) is None
    tuples(desk, "put", ["k", 1], "d", 0, b"j1")
    tuples(desk, "put", ["k", 2], "d", 1, b"j2")
    served = [(peer, block) for peer, _, block in desk.answers if block]
    assert served == [(b"a", b"j1"), (b"b", b"j2"), (b"c", b"j2")]


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_attempt_gets_the_same_answers(desk: Desk, restart: bool) -> None:
    enter(desk, "other")
    enter(desk, "task/0")
    tuples(desk, "put", ["n"], "other", 0, b"j1")
    tuples(desk, "take", ["n"], "task/0", 0, keep=True)
    tuples(desk, "put", ["n"], "task/0", 1, b"j2", keep=True)
    if restart:
        desk.again()
    assert enter(desk, "task/0", attempt=2) == 0
    again: dict[str, Any] = {"keep": True, "attempt": 2}
    assert tuples(desk, "take", ["n"], "task/0", 0, **again) == (["n"], b"j1")
    tuples(desk, "put", ["n"], "task/0", 1, b"j2", **again)
    assert tuples(desk, "take", ["n"], "other", 1) == (["n"], b"j2")
    assert tuples(desk, "take", ["n"], "other", 2) is None, "it was put once"


@pytest.mark.parametrize("restart", [False, True])
def test_what_is_committed_is_not_done_over(desk: Desk, restart: bool) -> None:
    enter(desk, "task/0")
    tuples(desk, "put", ["n"], "task/0", 0, b"j1", keep=True)
    desk.told("space_commit", owner="task/0", attempt=1, number=1)
    if restart:
        desk.again()
    assert enter(desk, "task/0", attempt=2) == 1


def test_a_request_that_is_taken_back_takes_nothing(desk: Desk) -> None:
    for owner in "ab":
        enter(desk, owner)
    assert tuples(desk, "take", ["k"], "a", 0) is None
    assert desk.told("forget", of=desk._ids, peer=b"a")["forgotten"]
    tuples(desk, "put", ["k"], "b", 0, b"j1")
    assert tuples(desk, "take", ["k"], "b", 1) == (["k"], b"j1")


@pytest.mark.parametrize("restart", [False, True])
def test_a_tuple_for_somebody_who_is_gone_is_the_next_ones(desk: Desk, restart: bool) -> None:
    for owner in ("dead", "b", "c"):
        enter(desk, owner)
    assert tuples(desk, "take", ["k", None], "dead", 0, keep=True) is None
    desk.gone.add(b"dead")
    tuples(desk, "put", ["k", 1], "b", 0, b"j1")
    tuples(desk, "put", ["k", 2], "b", 1, b"j2")
    if restart:
        desk.again()
    assert tuples(desk, "take", ["k", None], "c", 0) == (["k", 1], b"j1")
    assert enter(desk, "dead", attempt=2) == 0
    again: dict[str, Any] = {"keep": True, "attempt": 2}
    assert tuples(desk, "take", ["k", None], "dead", 0, **again) is None, "its peer is gone"
    desk.gone.clear()
    assert tuples(desk, "take", ["k", None], "dead", 0, **again) == (["k", 2], b"j2")


def test_what_an_attempt_that_is_over_waited_for_is_not_given_to_it(desk: Desk) -> None:
    for owner in ("task/0", "b"):
        enter(desk, owner)
    assert tuples(desk, "take", ["k"], "task/0", 0, keep=True) is None
    assert enter(desk, "task/0", attempt=2) == 0
    tuples(desk, "put", ["k"], "b", 0, b"j1")
    assert enter(desk, "task/0", attempt=2) == 0, "it has done nothing yet"
    assert tuples(desk, "take", ["k"], "b", 1) == (["k"], b"j1")


def test_true_is_not_one(desk: Desk) -> None:
    enter(desk, "a")
    tuples(desk, "put", ["k", 1], "a", 0, b"j")
    assert tuples(desk, "read", ["k", True], "a", 1) is None
    assert tuples(desk, "read", [None, True], "a", 1) is None
