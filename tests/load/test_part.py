"""Parts of files are joined key by key, and each key keeps the place where it is written."""

from __future__ import annotations

from pathlib import Path

from diel.load.nodes import Source
from diel.load.part import Part, Whereabouts, Written, joined, merged

LOW, HIGH = Source(Path("low.yaml"), ""), Source(Path("high.yaml"), "")


def test_mappings_are_joined_and_all_else_is_from_the_upper_one() -> None:
    below = {"a": {"x": 1, "y": [1, 2]}, "b": 1, "c": {"z": 1}}
    above = {"a": {"y": [3]}, "c": 5, "d": {"w": 1}}
    assert merged(below, above) == {"a": {"x": 1, "y": [3]}, "b": 1, "c": 5, "d": {"w": 1}}
    assert below["a"] == {"x": 1, "y": [1, 2]}


def test_null_takes_a_key_away_where_it_is_no_value() -> None:
    below = {"timeout": "1h", "env": {"A": 1, "B": 2}, "params": {"seed": 1, "more": {"x": 1}}}
    above = {"timeout": None, "env": {"A": None}, "params": {"seed": None, "more": {"x": None}}, "when": None}
    expected = {"env": {"B": 2}, "params": {"seed": None, "more": {"x": None}}, "when": None}
    assert merged(below, above, ("params",)) == expected


def part(source: Source, data: object, *key: str) -> Part:
    return Part(data, {(): Written(source, key)})


def test_each_key_keeps_its_place() -> None:
    below = part(LOW, {"env": {"A": 1, "B": 2}, "over": ["x"]}, "templates", "code")
    above = part(HIGH, {"env": {"B": 3}, "retries": 1}, "stages", "a")
    whole = joined(below, above)
    assert whole.data == {"env": {"A": 1, "B": 3}, "over": ["x"], "retries": 1}
    assert whole.place(("env", "A"))[:2] == (LOW, ("templates", "code", "env", "A"))
    assert whole.place(("env", "B"))[:2] == (HIGH, ("stages", "a", "env", "B"))
    assert whole.place(("over", 0))[:2] == (LOW, ("templates", "code", "over", 0))
    assert whole.place(("retries", "limit"))[:2] == (HIGH, ("stages", "a", "retries", "limit"))
    assert whole.place(())[:2] == (HIGH, ("stages", "a"))


def test_a_finder_knows_parts_and_leaves_the_rest_of_the_file_alone() -> None:
    find = Whereabouts({("stages", "a"): part(LOW, {"x": 1}, "templates", "code")})
    assert find(("stages", "a", "x"), 3) == (LOW, ("templates", "code", "x"), 3)
    assert find(("stages", "b"), None) is None
    assert find(("name",), None) is None


def test_renamed_keys_and_texts_know_where_they_were() -> None:
    def change(key: tuple[object, ...], text: str) -> tuple[str, list[object]]:
        return ("new" if text == "old" else text), []

    whole = part(LOW, {"at": {"old": [1, "old"]}}, "stages", "a").changed(change)  # type: ignore[arg-type]
    assert whole.data == {"at": {"new": [1, "new"]}}
    assert whole.place(("at", "new", 1)).key == ("stages", "a", "at", "old", 1)
