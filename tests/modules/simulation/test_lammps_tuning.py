"""Settings of LAMMPS are timed beside its defaults, and what they cost in energy is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import diel
from modules.simulation.lammps_tuning import lammps_tuning, prepare


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    crystal = prepare(diel.Context(task_dir=tmp_path_factory.mktemp("crystal")), time=0.2, seed=3)
    assert 200 < crystal["temperature"] < 420  # asked for 300 K; 256 atoms
    return crystal["state"]


def test_settings_that_are_the_defaults_keep_energy_as_the_defaults_do(
    state: Path, context: diel.Context
) -> None:
    result = lammps_tuning(state, context, time=0.04, turns=2)
    assert result["error_ratio"] == 1.0
    assert len(result["speed"]) == len(result["default_speed"]) == 2
    assert result["speedup"] > 0
    assert result["late"] == 0


def test_lists_of_neighbours_that_came_too_late_are_counted(state: Path, context: diel.Context) -> None:
    assert lammps_tuning(state, context, skin=0.1, every=20, time=0.1, turns=1)["late"] > 0


def test_the_error_of_energy_grows_with_the_square_of_the_time_step(
    state: Path, context: diel.Context
) -> None:
    """Of Verlet's method, as its local error is of third order in positions (Allen and Tildesley, section 3.2)."""
    result = lammps_tuning(state, context, timestep=0.002, time=0.2, turns=1)
    assert result["error_ratio"] == pytest.approx(4, rel=0.25)


def test_a_thinner_skin_lists_neighbours_anew_and_changes_no_energy(
    state: Path, context: diel.Context
) -> None:
    result = lammps_tuning(state, context, skin=0.3, time=0.04, turns=1)
    assert result["error_ratio"] == pytest.approx(1, abs=1e-3)


def test_what_lammps_refuses_is_told_in_its_words(state: Path, context: diel.Context) -> None:
    with pytest.raises(RuntimeError, match="LAMMPS stopped: ERROR"):
        lammps_tuning(state, context, skin=-1.0, turns=1)
