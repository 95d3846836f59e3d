"""A Lennard-Jones fluid by molecular dynamics: writes a LAMMPS input, runs it, reads its log.

Reduced units throughout: lengths in σ, energies in ε, temperatures in ε/k_B, times in σ √(m/ε),
pressures in ε/σ³. LAMMPS: A. P. Thompson et al., Comput. Phys. Commun. 271, 108171 (2022).
"""

from __future__ import annotations

import csv
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar

import diel

if TYPE_CHECKING:  # diel reads annotations as text, and every rank starts sooner without these
    from mpi4py import MPI
    from pydantic import Field

T = TypeVar("T")

COLUMNS = {"Step": "step", "Temp": "temperature", "PotEng": "potential_energy", "Press": "pressure"}
"""Columns of LAMMPS's log, and their names here."""
BLOCKS = 20
"""Blocks that the run is cut into for standard errors; fewer where there are fewer samples."""
SAMPLES = 5
"""Samples at the least."""

# The tail correction makes results those of the full potential, whatever the cut-off: M. P. Allen and
# D. J. Tildesley, Computer Simulation of Liquids (2nd ed., 2017), eqs. 2.144 and 2.145.
# The Langevin thermostat loses the lattice's memory sooner than Nosé and Hoover's does.
HEAD = """\
units           lj
atom_style      atomic
atom_modify     map array
"""
LATTICE = """\
lattice         fcc {density:.10g}
region          box block 0 {cells} 0 {cells} 0 {cells}
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create {start:.10g} {seed} loop geom
"""
MOTION = """
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
"""
RUNS = """\
thermo          0
run             {equilibration}
reset_timestep  0
thermo          {every}
run             {steps}
"""
SCRIPT = HEAD + LATTICE + MOTION + RUNS
SAVE_EVERY = 30.0
"""Seconds between two checkpoints, where the stage keeps them."""
ASK_EVERY = 0.5
"""Seconds between two questions whether the task's time is nearly over."""
SEEDS = 900_000_000
"""LAMMPS takes seeds up to here."""


class Melt(TypedDict):
    """Averages after equilibration."""

    pressure: float
    """With the kinetic part of the thermostat's temperature, about which the measured one fluctuates."""
    pressure_error: float
    """Standard error of the pressure, from block averages."""
    compressibility_factor: float
    """Pressure by density and temperature: 1 for an ideal gas."""
    potential_energy: float
    """Per atom."""
    temperature_measured: float
    """Kinetic temperature; near the thermostat's where the time step is small enough."""
    atoms: int
    thermo: Path
    """CSV with the columns step, temperature, potential_energy, pressure: one row a sample."""


@dataclass(frozen=True)
class _State:
    """The parameters of the input script, as `lammps_melt` describes them."""

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
        """Raise ValueError for a fluid that this input cannot simulate."""
        for name in ("temperature", "density", "timestep", "cutoff"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, in reduced units; found {value}")
        if self.steps < SAMPLES * self.every:
            raise ValueError(
                f"steps must be at least {SAMPLES} × every = {SAMPLES * self.every}, "
                f"for block averages of the pressure; found {self.steps}"
            )
        side = self.cells * (4 / self.density) ** (1 / 3)
        if side < 2 * self.cutoff:
            cells = math.ceil(2 * self.cutoff / (4 / self.density) ** (1 / 3))
            raise ValueError(
                f"the box is {side:.3g} σ wide, less than twice the cut-off of {self.cutoff:g} σ: "
                f"an atom would meet its own image. Take cells: {cells} or more"
            )


@dataclass(frozen=True)
class _Progress:
    """How far a simulation is: steps of the equilibration and after it, and the samples so far."""

    equilibrated: int = 0
    done: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)
    restart: str = ""
    """LAMMPS's restart file in the checkpoint directory; empty at the beginning."""


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
    """Simulate a Lennard-Jones fluid at one temperature and density, from a molten fcc lattice.

    temperature: of the Langevin thermostat, in ε/k_B
    density: atoms in a volume of σ³
    cells: fcc cells along a side of the cubic box: 4 cells³ atoms
    steps, equilibration: time steps of the averages, and time steps before them
    every: time steps between two samples
    timestep: in σ √(m/ε)
    cutoff: of the potential, in σ; energy and pressure get the tail correction for what is beyond
    seed: of the velocities and the thermostat

    With `checkpoint: true` a task that is interrupted goes on from LAMMPS's restart file. A simulation that
    never stopped is the same as without; after a stop the thermostat draws other random numbers, for LAMMPS
    does not keep their state, so that averages agree within their errors. With MPI ranks, LAMMPS divides the
    box among them. Leave `in.melt` and `log.lammps` in the task's directory. Raise ValueError for parameters
    that make no sense, and RuntimeError with LAMMPS's own words where it fails or its results are not finite.
    """
    state = _State(temperature, density, cells, steps, equilibration, every, timestep, cutoff, seed)
    state.check()
    script, log = context.task_dir / "in.melt", context.task_dir / "log.lammps"
    if context.rank == 0:
        # half of the kinetic energy goes into the melting lattice: start hotter
        script.write_text(SCRIPT.format(start=2 * temperature, **asdict(state)), encoding="utf-8")
    if comm is not None:
        comm.Barrier()  # the other ranks read what rank 0 wrote
    if context.checkpoint:
        rows = _run_lammps(lambda engine: _Parts(engine, state, log, context, comm).run(), log, comm)
    else:
        _run_lammps(lambda engine: engine.file(str(script)), log, comm)
        rows = []
    if comm is not None and comm.Get_rank():  # only rank 0 has the result
        return {}  # type: ignore[typeddict-item]
    rows = rows or read_thermo(log.read_text(encoding="utf-8", errors="replace"))
    return _average(rows, state, context)


def _run_lammps(work: Callable[[Any], T], log: Path, comm: MPI.Comm | None) -> T:
    """Do work with LAMMPS, on all ranks of the communicator, in this process."""
    # mpi4py finds the MPI library of its virtual environment, where the dynamic linker does not look;
    # LAMMPS, loaded after it, takes the same one.
    with suppress(ImportError):
        import mpi4py.MPI  # noqa: F401
    try:
        import lammps
    except (ImportError, OSError) as error:  # reported in one line
        raise RuntimeError(f"LAMMPS cannot be loaded ({error}): pip install 'diel[examples]'") from error
    engine = lammps.lammps(comm=comm, cmdargs=["-log", str(log), "-screen", "none"])
    try:
        together = engine.extract_setting("world_size")
        result = work(engine)
    except diel.Interrupted:
        raise
    except Exception as error:  # the library raises nothing narrower
        raise RuntimeError(f"LAMMPS stopped: {error_line(log, str(error))}") from error
    finally:
        engine.close()
    if comm is not None and together != comm.Get_size():
        raise RuntimeError("this LAMMPS was built without MPI: pip install 'lammps[mpi]'")
    return result


class _Parts:
    """A simulation that runs a moment at a time, and is saved now and then.

    Every rank does the same, for rank 0 says when to save and when to stop. Raises diel.Interrupted, after a
    save, where the task's time is nearly over.
    """

    def __init__(
        self, engine: Any, state: _State, log: Path, context: diel.Context, comm: MPI.Comm | None
    ) -> None:
        self._engine, self._state, self._log, self._context, self._comm = engine, state, log, context, comm
        progress, path = _Progress(), context.checkpoint_dir / "progress.json"
        if context.rank == 0 and path.exists():  # an earlier attempt at this task
            progress = _Progress(**json.loads(path.read_text(encoding="utf-8")))
        self._progress = self._agreed(progress)
        self._read = 0
        """Characters of the log whose samples are known."""
        self._saved = time.monotonic()

    def _agreed(self, value: T) -> T:
        """Return the value of rank 0 on every rank."""
        if self._comm is None:
            return value
        agreed: T = self._comm.bcast(value, root=0)
        return agreed

    def run(self) -> list[dict[str, float]]:
        state, seed = self._state, self._state.seed
        if self._progress.restart:
            # the same numbers again would be correlated with those before the stop
            done = self._progress.equilibrated + self._progress.done
            seed = (seed + 7919 * done) % SEEDS + 1
            begin = f'read_restart "{self._context.checkpoint_dir / self._progress.restart}"\n'
        else:
            begin = LATTICE
        script = HEAD + begin + MOTION
        values = {**asdict(state), "start": 2 * state.temperature, "seed": seed}
        self._engine.commands_string(script.format(**values))
        if self._progress.done == 0:
            self._engine.command("thermo 0")
            self._take("equilibrated", state.equilibration, 1)
            self._engine.command("reset_timestep 0")
            self._read = len(self._text())
        self._engine.command(f"thermo {state.every}")
        self._take("done", state.steps, state.every)
        return self._progress.rows

    def _take(self, phase: str, whole: int, unit: int) -> None:
        """Take a phase to its end, `unit` steps or a multiple of them at a time."""
        part, setup = unit, ""
        while (done := getattr(self._progress, phase)) < whole or not setup:
            part = min(part, whole - done)
            began = time.monotonic()
            self._engine.command(f"run {part}{setup}")
            setup = " pre no"  # as if it were one run: nothing changes in between
            self._progress = replace(self._progress, **{phase: done + part})
            took = time.monotonic() - began
            if took < ASK_EVERY / 2:
                part *= 2
            elif took > 2 * ASK_EVERY:
                part = max(unit, part // 2 // unit * unit)
            part = self._agreed(part)
            if done < whole:  # it did something, so that a stop here is no loop
                self._ask(phase == "done" and self._progress.done == whole)

    def _ask(self, last: bool) -> None:
        """Save where it is time to, and stop where there is none left."""
        now = time.monotonic()
        interrupted, due = self._agreed((self._context.interrupted, now - self._saved > SAVE_EVERY))
        if last:
            self._keep_rows()
        elif interrupted or due:
            self._save()
            self._saved = now
        if interrupted and not last:
            progress = self._progress
            raise diel.Interrupted(f"{progress.equilibrated} + {progress.done} steps are done")

    def _text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _keep_rows(self) -> None:
        """Add the samples that LAMMPS wrote since the last time; each part begins with a known one."""
        if self._context.rank or not self._progress.done:
            return
        text = self._text()
        samples = {row["step"]: row for row in self._progress.rows}
        for table in _tables(text[self._read :]):
            samples.update((row["step"], row) for row in table)
        self._read = len(text)
        rows = [samples[step] for step in sorted(samples) if step % self._state.every == 0]
        self._progress = replace(self._progress, rows=_finite(rows))

    def _save(self) -> None:
        """Write a restart file, then in one step the progress with it; drop the file before."""
        self._keep_rows()
        folder, before = self._context.checkpoint_dir, self._progress.restart
        name = f"{self._progress.equilibrated}-{self._progress.done}.restart"
        self._engine.command(f'write_restart "{folder / name}"')
        self._progress = replace(self._progress, restart=name)
        if self._context.rank == 0:
            part = folder / "progress.part"
            part.write_text(json.dumps(asdict(self._progress)), encoding="utf-8")
            part.replace(folder / "progress.json")
            if before and before != name:
                (folder / before).unlink(missing_ok=True)


def error_line(log: Path, otherwise: str) -> str:
    """Return the last ERROR of a LAMMPS log, or `otherwise` where there is none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.startswith("ERROR")]
    return lines[-1] if lines else " ".join(otherwise.split())


def read_thermo(log: str) -> list[dict[str, float]]:
    """Return the samples of the last run in a LAMMPS log: one dict a row, with the names of COLUMNS.

    Raise RuntimeError where there is no such table, and where a value is not finite.
    """
    tables = _tables(log)
    if not tables:
        raise RuntimeError("LAMMPS's log holds no samples; see log.lammps in the task's directory")
    return _finite(tables[-1])


def _tables(log: str) -> list[list[dict[str, float]]]:
    """Return the samples of each run in a LAMMPS log; runs without any are left out."""
    tables: list[list[dict[str, float]]] = []
    header: list[str] = []
    for line in log.splitlines():
        words = line.split()
        if words[:1] == ["Step"]:
            header = words
            tables.append([])
        elif words[:1] == ["Loop"]:
            header = []
        elif header and len(words) == len(header):
            try:
                row = dict(zip(header, map(float, words), strict=True))
            except ValueError:  # a warning among the rows
                continue
            tables[-1].append({name: row[column] for column, name in COLUMNS.items()})
    return [table for table in tables if table]


def _finite(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the same rows. Raise RuntimeError where a value is not finite."""
    for row in rows:
        if not all(map(math.isfinite, row.values())):
            raise RuntimeError(
                f"the simulation blew up: at step {row['step']:.0f} the temperature is {row['temperature']} "
                f"and the pressure {row['pressure']}. Take a smaller timestep, or a longer equilibration"
            )
    return rows


def _average(rows: list[dict[str, float]], state: _State, context: diel.Context) -> Melt:
    samples = rows[1:]  # the first row is the state that equilibration left
    thermo = context.task_dir / "thermo.csv"
    with thermo.open("w", encoding="utf-8", newline="") as file:
        rows = [{**row, "step": int(row["step"])} for row in samples]
        csv.writer(file).writerows([COLUMNS.values(), *(row.values() for row in rows)])
    # LAMMPS counts 3 N - 3 degrees of freedom; the thermostat moves all 3 N of them
    atoms = 4 * state.cells**3
    pressures = [
        row["pressure"] - state.density * ((1 - 1 / atoms) * row["temperature"] - state.temperature)
        for row in samples
    ]
    count = min(BLOCKS, len(pressures))
    length = len(pressures) // count
    blocks = [fmean(pressures[start * length : (start + 1) * length]) for start in range(count)]
    return {
        "pressure": fmean(pressures),
        "pressure_error": stdev(blocks) / math.sqrt(count),
        "compressibility_factor": fmean(pressures) / (state.density * state.temperature),
        "potential_energy": fmean(row["potential_energy"] for row in samples),
        "temperature_measured": fmean(row["temperature"] for row in samples),
        "atoms": atoms,
        "thermo": thermo,
    }
