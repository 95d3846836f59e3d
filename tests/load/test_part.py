"""Parts of files are joined key by key, and each key keeps the place where it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.workflow.expressions import JOINT, parse
from diel.workflow.load.nodes import Source
from diel.workflow.load.part import KeyLocations, Part, WrittenKey, joined, merged, place_before, renamed

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
    return Part(data, {(): WrittenKey(source, key)})


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
    find = KeyLocations({("stages", "a"): part(LOW, {"x": 1}, "templates", "code")})
    assert find(("stages", "a", "x"), 3) == (LOW, ("templates", "code", "x"), 3)
    assert find(("stages", "b"), None) is None
    assert find(("name",), None) is None


def test_renamed_keys_and_texts_know_where_they_were() -> None:
    def change(key: tuple[object, ...], text: str) -> tuple[str, list[object]]:
        return ("new" if text == "old" else text), []

    whole = part(LOW, {"at": {"old": [1, "old"]}}, "stages", "a").changed(change)  # type: ignore[arg-type]
    assert whole.data == {"at": {"new": [1, "new"]}}
    assert whole.place(("at", "new", 1)).key == ("stages", "a", "at", "old", 1)


NAMES = {("scf",): f"relax{JOINT}scf", ("hp", "cutoff"): f"hp.relax{JOINT}cutoff", ("m",): "material"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a ${{ scf.energy }} b", "a ${{ relax·scf.energy }} b"),
        ("${{ hp.cutoff * m }}", "${{ hp.relax·cutoff * material }}"),
        ("${{ hp.cut }} scf hp.cutoff $${{ m }}", "${{ hp.cut }} scf hp.cutoff $${{ m }}"),
        ("${{ 'm' if m > 1 else inputs.m }}", "${{ 'm' if material > 1 else inputs.m }}"),
        ("${{ scf['energy'] + mm }}", "${{ relax·scf['energy'] + mm }}"),
        ('${{ hp["cutoff"] + 1 }}', "${{ hp.relax·cutoff + 1 }}"),
        ("${{ 'é' + m +\n  m }}", "${{ 'é' + material +\n  material }}"),
        ("${{ scf. }}", "${{ scf. }}"),
    ],
)
def test_names_and_nothing_else_are_replaced(text: str, expected: str) -> None:
    assert renamed(text, NAMES)[0] == expected


def test_a_condition_is_an_expression_itself() -> None:
    assert renamed("scf.energy < m", NAMES, bare=True)[0] == "relax·scf.energy < material"
    assert renamed("  ${{ m }} ", NAMES, bare=True)[0] == "  ${{ material }} "


def test_a_renamed_name_is_one_part_of_a_dotted_name() -> None:
    template = parse(renamed("${{ scf.energy + hp.cutoff }}", NAMES)[0])
    assert template.references == {("relax.scf", "energy"), ("hp", "relax.cutoff")}
    scope = {"relax.scf": {"energy": 2}, "hp": {"relax.cutoff": 40}}
    assert template.value(scope) == 42
    assert parse(renamed("${{ scf.energy }}", NAMES)[0]).value(scope) == 2


def test_each_place_of_the_new_text_is_found_in_the_old_one() -> None:
    old = "ab ${{ m }} cd ${{ scf.energy }} ef"
    new, edits = renamed(old, NAMES)
    for word in ("ab", "cd", ".energy", "ef"):
        assert place_before(new.index(word), edits) == old.index(word)
    assert place_before(new.index("material") + 3, edits) == old.index("m }}")
    assert place_before(new.index("relax"), edits) == old.index("scf")
