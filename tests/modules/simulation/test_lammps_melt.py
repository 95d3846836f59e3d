"""The Lennard-Jones fluid, simulated by LAMMPS for real."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diel
from modules.simulation.lammps_melt import lammps_melt, read_thermo


def test_energy_and_pressure_agree_with_the_literature(context: diel.Context) -> None:
    # NIST Standard Reference Simulation Website, Lennard-Jones fluid with tail corrections, T* = 0.85:
    # U* = -6.0305, p* = 1.2660 at ρ* = 0.86
    result = lammps_melt(0.85, 0.86, context, cutoff=3.0, steps=4000)
    assert result["potential_energy"] == pytest.approx(-6.0305, rel=0.01)
    assert result["pressure"] == pytest.approx(1.2660, abs=0.3)
    assert result["temperature_measured"] == pytest.approx(0.85, rel=0.02)
    assert 0 < result["pressure_error"] < 0.2
    assert result["atoms"] == 500


def test_the_samples_are_kept_as_csv(context: diel.Context) -> None:
    result = lammps_melt(2.0, 0.5, context, cells=4, steps=200, equilibration=100, every=20)
    with result["thermo"].open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "temperature", "potential_energy", "pressure"]
    assert [int(row["step"]) for row in rows] == list(range(20, 201, 20))
    mean = {name: sum(float(row[name]) for row in rows) / len(rows) for name in ("pressure", "temperature")}
    # the kinetic part of the pressure is known: that of 256 atoms at a temperature of 2
    excess = 0.5 * (mean["temperature"] * 255 / 256 - 2)
    assert mean["pressure"] - excess == pytest.approx(result["pressure"])
    assert mean["temperature"] == pytest.approx(result["temperature_measured"])


def test_lammps_divides_the_box_between_two_mpi_ranks(
    on_ranks: Callable[[int, str], str], context: diel.Context
) -> None:
    printed = on_ranks(
        2,
        "import json, pathlib, diel\n"
        "from mpi4py import MPI\n"
        "from modules.simulation.lammps_melt import lammps_melt\n"
        "comm = MPI.COMM_WORLD\n"
        "context = diel.Context(task_dir=pathlib.Path.cwd(), rank=comm.rank)\n"
        "result = lammps_melt(2.0, 0.5, context, comm, cells=4, steps=1000)\n"
        "assert bool(result) == (comm.rank == 0)\n"
        "if result: print(json.dumps([result['pressure'], (context.task_dir / 'log.lammps').read_text()]))\n",
    )
    pressure, log = json.loads(printed)
    assert "2 procs for 1000 steps with 256 atoms" in log
    assert pressure == pytest.approx(lammps_melt(2.0, 0.5, context, cells=4)["pressure"], abs=0.15)


Continued = Callable[[Callable[[diel.Context], Any]], tuple[Any, int]]


def test_saving_changes_nothing_where_nothing_interrupts(context: diel.Context, tmp_path: Path) -> None:
    options: dict[str, Any] = {"cells": 4, "steps": 300, "equilibration": 150, "every": 20}
    other = tmp_path / "other" / "0"
    other.mkdir(parents=True)
    saved = lammps_melt(2.0, 0.5, diel.Context(task_dir=other, checkpoint=True), **options)
    plain = lammps_melt(2.0, 0.5, context, **options)
    assert saved["thermo"].read_text() == plain["thermo"].read_text()


def test_a_simulation_that_was_interrupted_goes_on_from_where_it_was(
    continued: Continued, context: diel.Context
) -> None:
    options: dict[str, Any] = {"cells": 4, "steps": 200, "equilibration": 20, "every": 20}
    stopped, attempts = continued(lambda context: lammps_melt(2.0, 0.5, context, **options))
    assert attempts == 20 + 10
    with stopped["thermo"].open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert [row["step"] for row in rows] == list(range(20, 201, 20))
    # From one sample to the next the melt cools by itself; one that began anew would jump back to 4.
    temperatures = [row["temperature"] for row in rows]
    assert max(temperatures) < 3.2
    assert abs(temperatures[-1] - 2.0) < 0.4
    plain = lammps_melt(2.0, 0.5, context, **options)
    assert stopped["pressure"] == pytest.approx(plain["pressure"], abs=0.5)
    files = {path.name for path in (stopped["thermo"].parent.parent / "0.checkpoint").iterdir()}
    assert files == {"20-180.restart", "progress.json"}


def test_ranks_save_and_continue_together(on_ranks: Callable[[int, str], str]) -> None:
    printed = on_ranks(
        2,
        "import json, pathlib, diel\n"
        "from mpi4py import MPI\n"
        "from modules.simulation.lammps_melt import lammps_melt\n"
        "comm = MPI.COMM_WORLD\n"
        "for attempt in range(99):\n"
        "    until = None if comm.rank else 0.0\n"
        "    context = diel.Context(pathlib.Path.cwd() / 'a', rank=comm.rank, checkpoint=True, interrupt_at=until)\n"
        "    context.task_dir.mkdir(exist_ok=True)\n"
        "    try: result = lammps_melt(2.0, 0.5, context, comm, cells=4, steps=100, equilibration=4, every=20)\n"
        "    except diel.Interrupted: continue\n"
        "    break\n"
        "if result: print(json.dumps([attempt, result['atoms'], result['thermo'].read_text().count('\\n')]))\n",
    )
    assert json.loads(printed) == [8, 256, 6]


def test_a_failure_says_what_lammps_said(context: diel.Context) -> None:
    with pytest.raises(RuntimeError, match=r"LAMMPS stopped: ERROR: Lost atoms: original 256"):
        lammps_melt(90.0, 1.4, context, cells=4, timestep=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1.0}, "temperature must be positive"),
        ({"density": float("inf")}, "density must be positive and finite"),
        ({"steps": 20}, "steps must be at least 5 × every = 50"),
        ({"cells": 2}, r"the box is 3.36 σ wide.*Take cells: 3 or more"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(
    wrong: dict[str, Any], message: str, context: diel.Context
) -> None:
    with pytest.raises(ValueError, match=message):
        lammps_melt(**{"temperature": 1.0, "density": 0.844, "context": context, **wrong})


HEADER = "   Step          Temp          PotEng         Press\n"


def test_the_last_run_of_a_log_counts_and_warnings_in_it_do_not() -> None:
    first = f"{HEADER} 0 9 9 9\nLoop time of 1\n"
    log = f"{first}{HEADER} 0 1 2 3\nWARNING: about a thing\n 10 4 5 6\nLoop time of 1\n"
    assert read_thermo(log) == [
        {"step": 0, "temperature": 1, "potential_energy": 2, "pressure": 3},
        {"step": 10, "temperature": 4, "potential_energy": 5, "pressure": 6},
    ]


def test_a_simulation_that_blew_up_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"blew up: at step 10 .* smaller timestep"):
        read_thermo(f"{HEADER} 0 1 2 3\n 10 nan 5 nan\nLoop time of 1\n")


def test_a_log_without_samples_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"no samples; see log\.lammps"):
        read_thermo("LAMMPS (22 Jul 2025)\n")
