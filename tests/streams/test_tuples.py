"""The tuple space as the broker holds it: a tuple is taken once, whoever is killed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.streams.desk import Desk


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
