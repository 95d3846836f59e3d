"""The Ising model against exact results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ellipk

import diel
from modules.simulation.ising import ising, snapshots, timed, walk

CRITICAL = 2 / np.log(1 + np.sqrt(2))


def onsager(temperature: float) -> float:
    """Energy per site of the infinite lattice: Onsager 1944, with SciPy's elliptic integral."""
    x = 2 / temperature
    k = 2 * np.sinh(x) / np.cosh(x) ** 2
    slope = 2 * np.tanh(x) ** 2 - 1
    integral = slope * ellipk(k**2) if abs(slope) > 1e-12 else 0.0
    return float(-(1 + 2 / np.pi * integral) / np.tanh(x))


def all_states_4x4() -> NDArray[np.int64]:
    """The 65,536 states of a 4 × 4 lattice: shape (65536, 4, 4)."""
    bits = np.arange(2**16)[:, None] >> np.arange(16) & 1
    return (2 * bits - 1).reshape(-1, 4, 4)


@pytest.mark.parametrize(
    ("temperature", "algorithm", "size", "sweeps"),
    [
        (1.8, "metropolis", 32, 2000),
        (1.8, "wolff", 32, 600),
        (CRITICAL, "wolff", 128, 100),  # finite size alone makes 0.34 % here
        (3.0, "metropolis", 32, 3000),
        (3.0, "wolff", 32, 600),
    ],
)
def test_energy_is_within_one_percent_of_onsagers(
    temperature: float, algorithm: Any, size: int, sweeps: int, context: diel.Context
) -> None:
    result = ising(
        temperature, context, size=size, sweeps=sweeps, equilibration=100, algorithm=algorithm, seed=7
    )
    assert result["energy"] == pytest.approx(onsager(temperature), rel=0.01)
    assert 0 < result["energy_error"] < 0.01


@pytest.mark.parametrize("algorithm", ["metropolis", "wolff"])
def test_all_averages_of_a_small_lattice_agree_with_its_65536_states(
    algorithm: Any, context: diel.Context
) -> None:
    temperature = 2.5
    states = all_states_4x4()
    energy = -(states * (np.roll(states, 1, 1) + np.roll(states, 1, 2))).sum(axis=(1, 2))
    magnetisation = np.abs(states.sum(axis=(1, 2)))
    weight = np.exp(-(energy - energy.min()) / temperature)
    weight /= weight.sum()
    mean_energy, mean_magnetisation = weight @ energy, weight @ magnetisation
    result = ising(temperature, context, size=4, sweeps=10_000, algorithm=algorithm, seed=3)
    assert result["energy"] == pytest.approx(mean_energy / 16, abs=0.02)
    assert result["magnetisation"] == pytest.approx(mean_magnetisation / 16, abs=0.02)
    heat_capacity = (weight @ energy**2 - mean_energy**2) / 16 / temperature**2
    assert result["heat_capacity"] == pytest.approx(heat_capacity, rel=0.05)
    assert abs(result["heat_capacity"] - heat_capacity) < 4 * result["heat_capacity_error"]
    assert 0.002 < result["heat_capacity_error"] < 0.02  # 0.7 by 20,000 states, some of them alike
    assert result["susceptibility"] == pytest.approx(
        (weight @ magnetisation**2 - mean_magnetisation**2) / 16 / temperature, rel=0.05
    )


def test_the_final_configurations_are_kept(context: diel.Context) -> None:
    result = ising(1.0, context, size=8, sweeps=10, equilibration=5, replicas=3)
    spins = np.load(result["configuration"])
    assert spins.shape == (3, 8, 8)
    assert set(np.unique(spins)) <= {-1, 1}
    assert result["configuration"].parent == context.task_dir


def test_two_mpi_ranks_give_exactly_what_one_process_gives(
    on_ranks: Callable[[int, str], str], context: diel.Context
) -> None:
    printed = on_ranks(
        2,
        "import json, pathlib, diel\n"
        "from mpi4py import MPI\n"
        "from modules.simulation.ising import ising\n"
        "comm = MPI.COMM_WORLD\n"
        "context = diel.Context(task_dir=pathlib.Path.cwd(), rank=comm.rank)\n"
        "result = ising(2.5, context, comm, size=8, sweeps=50, replicas=3, seed=5)\n"
        "assert comm.size == 2 and bool(result) == (comm.rank == 0)\n"
        "if result: print(json.dumps({**result, 'configuration': None}))\n",
    )
    alone = ising(2.5, context, size=8, sweeps=50, replicas=3, seed=5)
    assert json.loads(printed) == {**alone, "configuration": None}


Continued = Callable[[Callable[[diel.Context], Any]], tuple[Any, int]]


@pytest.mark.parametrize("algorithm", ["metropolis", "wolff"])
def test_a_simulation_that_was_interrupted_after_each_sweep_ends_as_if_it_never_was(
    algorithm: Any, continued: Continued, context: diel.Context
) -> None:
    options: dict[str, Any] = {"size": 8, "sweeps": 12, "equilibration": 4, "algorithm": algorithm, "seed": 3}
    stopped, attempts = continued(lambda context: ising(2.3, context, **options))
    assert attempts == 2 * (12 + 4)  # two replicas
    plain = ising(2.3, context, **options)
    assert (np.load(stopped["configuration"]) == np.load(plain["configuration"])).all()
    assert {**stopped, "configuration": ""} == {**plain, "configuration": ""}


def test_ranks_stop_and_continue_together(on_ranks: Callable[[int, str], str], context: diel.Context) -> None:
    printed = on_ranks(
        2,
        "import json, pathlib, diel\n"
        "from mpi4py import MPI\n"
        "from modules.simulation.ising import ising\n"
        "comm = MPI.COMM_WORLD\n"
        "for attempt in range(99):\n"
        "    until = 0.0 if comm.rank else None\n"  # rank 1 alone is told: rank 0 is done and must not wait
        "    context = diel.Context(pathlib.Path.cwd() / 'a', rank=comm.rank, checkpoint=True, interrupt_at=until)\n"
        "    context.task_dir.mkdir(exist_ok=True)\n"
        "    try: result = ising(2.5, context, comm, size=8, sweeps=10, equilibration=5, replicas=3, seed=5)\n"
        "    except diel.Interrupted: continue\n"
        "    break\n"
        "if result: print(json.dumps([attempt, {**result, 'configuration': None}]))\n",
    )
    attempts, result = json.loads(printed)
    assert attempts == 14
    alone = ising(2.5, context, size=8, sweeps=10, equilibration=5, replicas=3, seed=5)
    assert result == {**alone, "configuration": None}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"temperature": float("nan")}, "temperature must be positive"),
        ({"size": 9, "algorithm": "metropolis"}, "size must be even for Metropolis.*Take 10"),
        ({"size": 2}, "size must be at least 4"),
        ({"sweeps": 3}, "sweeps must be at least 10"),
        ({"algorithm": "glauber"}, "'metropolis' or 'wolff'; found 'glauber'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(
    wrong: dict[str, Any], message: str, context: diel.Context
) -> None:
    with pytest.raises(ValueError, match=message):
        ising(**{"temperature": 2.0, "context": context, **wrong})


@dataclass(frozen=True)
class Streaming(diel.Context):
    """A task whose stream is a list."""

    items: list[Any] = field(default_factory=list)

    def stream(self, name: str) -> Any:
        assert name == "samples"
        return SimpleNamespace(put=self.items.append)


def walked(folder: Path, rank: int = 0, ranks: int = 1, **options: Any) -> list[Any]:
    """The items that a rank puts."""
    context = Streaming(task_dir=folder, rank=rank, ranks=ranks)
    comm: Any = SimpleNamespace(Get_rank=lambda: rank, Get_size=lambda: ranks)
    result = walk(context, [1.5, 3.5], comm if ranks > 1 else None, **options)
    assert result["items"] == ranks * len(context.items)
    return context.items


def test_a_walk_streams_energies_that_are_onsagers_on_average(tmp_path: Path) -> None:
    before = time.time()
    items = walked(tmp_path, walkers=6, items=60, sweeps=10, size=24, equilibration=300)
    temperatures = items[0]["temperature"]
    assert np.diff(temperatures) == pytest.approx(2 / 6, abs=2 / 6)  # one in each interval
    energy = np.mean([item["energy"] for item in items], axis=0)
    assert energy == pytest.approx([onsager(t) for t in temperatures], rel=0.03)
    magnetisation = np.mean([item["magnetisation"] for item in items], axis=0)
    assert magnetisation[0] > 0.9 > 0.3 > magnetisation[-1]
    stamps = [item["time"] for item in items]
    assert before <= stamps[0] <= stamps[-1] <= time.time()
    assert stamps == sorted(stamps)


def test_what_the_walkers_see_does_not_depend_on_the_ranks(tmp_path: Path) -> None:
    options = {"walkers": 5, "items": 3, "sweeps": 2, "size": 8, "equilibration": 5, "seed": 4}
    alone = walked(tmp_path, **options)
    shares = [walked(tmp_path, rank, 2, **options) for rank in range(2)]
    for number, item in enumerate(alone):
        for name in ("temperature", "energy", "magnetisation"):
            for rank in range(2):
                assert (shares[rank][number][name] == item[name][rank::2]).all()


def test_a_walk_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one walker for each of 4 ranks; found 3"):
        walked(tmp_path, 0, 4, walkers=3)
    with pytest.raises(ValueError, match="size must be even"):
        walked(tmp_path, size=9)


def test_a_timed_ensemble_ends_alike_on_any_number_of_ranks(on_ranks: Callable[[int, str], str]) -> None:
    printed = on_ranks(
        2,
        "from mpi4py import MPI\n"
        "from modules.simulation.ising import timed\n"
        "result = timed(MPI.COMM_WORLD, size=8, sweeps=20, replicas=3, repeats=2)\n"
        "if MPI.COMM_WORLD.rank == 0: print(repr(result['energy']), result['seconds'] > 0)\n",
    )
    alone = timed(size=8, sweeps=20, replicas=3, repeats=1)
    assert printed.split() == [repr(alone["energy"]), "True"]
    assert -2.0 <= alone["energy"] < -0.5


def test_a_rank_without_a_replica_is_refused() -> None:
    comm: Any = SimpleNamespace(Get_rank=lambda: 0, Get_size=lambda: 4)
    with pytest.raises(ValueError, match="at least one replica for each of 4 ranks; found 3"):
        timed(comm, size=8, replicas=3)


def test_snapshots_are_of_the_temperature_and_the_same_for_the_same_seed() -> None:
    cold, hot = (snapshots(temperature, size=8, count=20, seed=3) for temperature in (1.0, 20.0))
    assert cold["snapshots"].shape == (20, 8, 8)
    assert set(np.unique(cold["snapshots"])) <= {-1, 1}
    assert (
        abs(cold["snapshots"].mean(axis=(1, 2))).mean() > 0.98
    )  # the exact magnetisation at T = 1 is 0.9993
    assert abs(hot["snapshots"].mean(axis=(1, 2))).mean() < 0.3
    again = snapshots(1.0, size=8, count=20, seed=3)
    assert (again["snapshots"] == cold["snapshots"]).all()
