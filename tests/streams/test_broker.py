"""What the broker answers, without sockets: requests in, answers out."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from diel.streams.protocol import Header, PeerRequest
from tests.streams.desk import Desk


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
    desk.broker.serve(PeerRequest(b"q", request("put", "m/0", sizes=[3]), b"new"))
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
    desk.broker.serve(PeerRequest(b"p", {"id": 99, **wrong}, b""))
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
        desk.broker.serve(PeerRequest(b"p", {"id": 99, "op": "facts"}, b""))
    told = desk.answers[-1][1]["error"]
    assert told.startswith("facts: diel failed in a way that it should not: AttributeError: no such thing\n")
    assert "report it, with the end of " in told
    assert "AttributeError: no such thing" in capsys.readouterr().err
    assert desk.put("m/0", 0, "good")["count"] == 1
