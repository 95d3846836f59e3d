"""Who gets which item, against a list that does the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diel.streams.group import Group, Member

steps = st.lists(
    st.tuples(st.sampled_from(["add", "undo", "commit", "release"]), st.integers(1, 6), st.booleans()),
    max_size=40,
)


@given(steps)
def test_deliveries_are_those_of_a_list(steps: list[tuple[str, int, bool]]) -> None:
    found, committed, position = Member(), 0, 0
    model: list[int] = []
    for what, count, gap in steps:
        open_ = len(model) - committed
        if what == "add":
            position += 10 if gap else 0
            found.add(position, count)
            model += range(position, position + count)
            position += count
        elif what == "undo" and count <= open_:
            found.undo(count)
            del model[len(model) - count :]
        elif what == "commit":
            committed = min(len(model), committed + count)
            found.commit(committed)
        elif what == "release":
            released = [p for start, n in found.release() for p in range(start, start + n)]
            assert released == model[committed:]
            del model[committed:]
        assert (found.committed, found.total) == (committed, len(model))
        assert found.lowest(-1) == min(model[committed:], default=-1)
        for number in range(committed, len(model)):
            start, there = found.stretch(number)
            assert list(range(start, start + there)) == model[number : number + there]


def test_what_a_member_gave_back_comes_before_what_nobody_got() -> None:
    group = Group()
    group.add(["a", "b"])
    group.give("a", 0, 3)
    group.give("b", 3, 2)
    group.settle("a", good=False)
    assert group.next_stretch(9) == (0, 3)
    group.give("b", 0, 2)
    assert group.next_stretch(9) == (2, 1)
    group.give("b", 2, 1)
    assert group.next_stretch(9) == (5, 4)
    assert group.available(9) == 4


def test_the_floor_is_the_lowest_position_that_is_not_committed() -> None:
    group = Group()
    group.add(["a", "b"])
    group.give("a", 0, 3)
    group.give("b", 3, 2)
    assert group.floor() == 0
    group.members["a"].commit(2)
    assert group.floor() == 2
    group.members["a"].commit(3)
    assert group.floor() == 3
    group.members["b"].commit(2)
    assert group.floor() == 5
