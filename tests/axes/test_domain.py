"""The tasks of a stage: indices and coordinates are two names of one thing, joined axes included."""

from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from diel.tasks.points.domain import Domain, Origins, make_domain

Setup = tuple[tuple[str, ...], dict[str, int], dict[str, Origins]]
Row = dict[str, int]


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """Plain axes, and derived ones that were made over some axes before them; any of them, in any order."""
    counts: dict[str, int] = {}
    origins: dict[str, Origins] = {}
    for name in "abc"[: draw(st.integers(0, 3))]:
        counts[name] = draw(st.integers(1, 3))
    for name in "def"[: draw(st.integers(0, 3))]:
        made_over = draw(st.lists(st.sampled_from(sorted(counts)), unique=True, max_size=2)) if counts else []
        if not made_over:
            counts[name] = draw(st.integers(0, 3))
            continue
        places = st.tuples(*(st.integers(0, max(counts[axis] - 1, 0)) for axis in made_over))
        empty = any(counts[axis] == 0 for axis in made_over)
        rows = [] if empty else sorted(draw(st.lists(places, max_size=5)))
        origins[name] = Origins(tuple(made_over), rows)
        counts[name] = len(rows)
    over = draw(st.permutations(sorted(counts)))
    return tuple(over[: draw(st.integers(0, len(over)))]), counts, origins


def brute_force(setup: Setup) -> list[Row]:
    """All combinations in which each derived point meets the coordinates that it was made at."""
    over, counts, origins = setup
    found = []
    for places in product(*(range(counts[axis]) for axis in over)):
        row = dict(zip(over, places, strict=True))
        if all(
            row[parent] == place
            for axis in over
            if axis in origins
            for parent, place in zip(origins[axis].axes, origins[axis].rows[row[axis]], strict=True)
            if parent in row
        ):
            found.append(row)
    return found


def key(row: Row) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(row.items()))


@given(setups())
def test_the_tasks_are_the_combinations_in_which_all_axes_agree(setup: Setup) -> None:
    domain = make_domain(*setup)
    listed = [domain.coordinates(index) for index in range(domain.size)]
    assert sorted(map(key, listed)) == sorted(map(key, brute_force(setup)))


@given(setups())
def test_index_and_coordinates_are_two_names_of_one_task(setup: Setup) -> None:
    domain = make_domain(*setup)
    for index in range(domain.size):
        coordinates = domain.coordinates(index)
        assert set(coordinates) == set(setup[0])
        assert domain.index(coordinates) == index


@given(setups())
def test_coordinates_where_no_task_is_have_no_index(setup: Setup) -> None:
    over, counts, _ = setup
    domain = make_domain(*setup)
    there = set(map(key, brute_force(setup)))
    for places in product(*(range(-1, counts[axis] + 1) for axis in over)):
        row = dict(zip(over, places, strict=True))
        assert (domain.index(row) is not None) == (key(row) in there)


@given(setups(), st.data())
def test_matching_is_what_a_look_at_every_task_finds(setup: Setup, data: st.DataObject) -> None:
    over, counts, _ = setup
    domain = make_domain(*setup)
    for _ in range(4):
        pinned = data.draw(st.lists(st.sampled_from(over), unique=True)) if over else []
        fixed = {axis: data.draw(st.integers(0, counts[axis])) for axis in pinned}
        expected = [
            index
            for index in range(domain.size)
            if all(domain.coordinates(index)[axis] == place for axis, place in fixed.items())
        ]
        assert list(domain.matching(fixed)) == expected
        assert domain.count(fixed) == len(expected)


@given(setups(), st.data())
def test_a_group_is_the_tasks_that_share_its_coordinates(setup: Setup, data: st.DataObject) -> None:
    domain = make_domain(*setup)
    if domain.size == 0:
        return
    axes = tuple(data.draw(st.permutations(setup[0])))[: data.draw(st.integers(0, 3))]
    index = data.draw(st.integers(0, domain.size - 1))
    group = domain.group(index, axes)
    assert group == tuple(domain.coordinates(index)[axis] for axis in axes)
    assert index in domain.matching(dict(zip(axes, group, strict=True)))


@given(st.lists(st.integers(0, 4), max_size=4))
def test_of_plain_axes_the_last_varies_fastest(counts: list[int]) -> None:
    over = tuple("abcd"[: len(counts)])
    domain = make_domain(over, dict(zip(over, counts, strict=True)), {})
    assert domain.size == prod(counts)
    expected = list(product(*map(range, counts)))
    assert [tuple(domain.coordinates(i)[axis] for axis in over) for i in range(domain.size)] == expected


def test_a_stage_without_axes_is_one_task() -> None:
    domain = make_domain((), {}, {})
    assert (domain.size, domain.coordinates(0), domain.index({})) == (1, {}, 0)
    assert list(domain.matching({})) == [0]
    assert domain.group(0, ()) == ()


def test_a_million_million_tasks_cost_nothing_to_count_and_to_look_up() -> None:
    domain = make_domain(("a", "b"), {"a": 10**6, "b": 10**6}, {})
    assert domain.size == 10**12
    assert domain.coordinates(10**12 - 1) == {"a": 10**6 - 1, "b": 10**6 - 1}
    assert next(iter(domain.matching({"b": 7}))) == 7
    assert domain.count({"a": 3}) == 10**6


def ragged() -> Domain:
    """Two molecules: the first gave three conformers, the second one."""
    origins = {"conformer": Origins(("molecule",), [(0,), (0,), (0,), (1,)])}
    return make_domain(("molecule", "conformer"), {"molecule": 2, "conformer": 4}, origins)


def test_a_derived_axis_is_joined_with_the_axis_that_it_was_made_over() -> None:
    domain = ragged()
    assert domain.size == 4
    assert list(domain.matching({"molecule": 0})) == [0, 1, 2]
    assert list(domain.matching({"molecule": 1})) == [3]
    assert list(domain.matching({"molecule": 1, "conformer": 0})) == []
    assert domain.index({"molecule": 1, "conformer": 0}) is None


def test_a_derived_axis_without_its_parents_is_a_plain_one() -> None:
    origins = {"conformer": Origins(("molecule",), [(0,), (0,), (1,)])}
    domain = make_domain(("conformer", "seed"), {"conformer": 3, "seed": 2}, origins)
    assert domain.size == 6


def test_a_chain_of_derived_axes_is_joined_link_by_link() -> None:
    """Each molecule has conformers, each conformer has poses."""
    origins = {
        "conformer": Origins(("molecule",), [(0,), (1,), (1,)]),
        "pose": Origins(("molecule", "conformer"), [(0, 0), (1, 1), (1, 2), (1, 2)]),
    }
    counts = {"molecule": 2, "conformer": 3, "pose": 4, "seed": 2}
    domain = make_domain(("seed", "pose", "molecule", "conformer"), counts, origins)
    assert domain.size == 8
    assert domain.count({"molecule": 1, "conformer": 2}) == 4
    assert domain.count({"molecule": 1}) == 6
    assert domain.count({"conformer": 2, "seed": 0}) == 2


def test_a_chain_whose_links_name_only_the_one_before_is_joined_too() -> None:
    origins = {
        "conformer": Origins(("molecule",), [(0,), (1,), (1,)]),
        "pose": Origins(("conformer",), [(0,), (1,), (2,), (2,)]),
    }
    domain = make_domain(
        ("molecule", "conformer", "pose"), {"molecule": 2, "conformer": 3, "pose": 4}, origins
    )
    assert domain.size == 4
    assert [domain.coordinates(index)["molecule"] for index in range(4)] == [0, 1, 1, 1]


def test_joined_tasks_stand_in_the_order_of_the_stages_axes() -> None:
    """Whatever the order in which the maker ran."""
    origins = {"d": Origins(("a", "b"), [(0, 0), (0, 1), (1, 0), (1, 1)])}
    domain = make_domain(("b", "a", "d"), {"a": 2, "b": 2, "d": 4}, origins)
    listed = [tuple(domain.coordinates(index)[axis] for axis in "bad") for index in range(4)]
    assert listed == [(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 3)]


def test_two_derived_axes_over_one_parent_are_multiplied_within_each_of_its_points() -> None:
    many = 2000
    origins = {
        "left": Origins(("a",), [(place,) for place in range(many)]),
        "right": Origins(("a",), [(place // 2,) for place in range(2 * many)]),
    }
    domain = make_domain(("a", "left", "right"), {"a": many, "left": many, "right": 2 * many}, origins)
    assert domain.size == 2 * many
    assert domain.count({"a": 5}) == 2
