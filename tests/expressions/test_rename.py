"""Names are found in an expression's syntax, not in its text, and places are found back."""

from __future__ import annotations

import pytest

from diel.expressions import JOINT, parse
from diel.load.part import place_before, renamed

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
