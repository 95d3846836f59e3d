"""The two-dimensional Ising model on a periodic square lattice, by Monte Carlo.

Spins s = ±1 with H = -J Σ s_i s_j over nearest neighbours. Units: J = k_B = 1, so temperatures are in
J/k_B and energies in J; the lattice orders below T_c = 2 / ln(1 + √2) = 2.269185
(L. Onsager, Phys. Rev. 65, 117 (1944)).

simulation.ising            averages at one temperature
simulation.ising:walk       many temperatures at once, streamed sample by sample while the simulation goes on
simulation.ising:snapshots  spins at one temperature, now and then
simulation.ising:timed      how long an ensemble takes on so many MPI ranks
"""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel

if TYPE_CHECKING:  # diel reads annotations as text, and every rank starts sooner without these
    from mpi4py import MPI
    from pydantic import Field

Spins = NDArray[np.int8]
"""Shape (size²,): row by row, +1 or -1."""

BLOCKS = 10
"""Blocks that each replica's series is cut into for the standard error."""
SAVE_EVERY = 30.0
"""Seconds between two checkpoints, where the stage keeps them."""


class Ising(TypedDict):
    """Averages per site over all replicas and sweeps."""

    energy: float
    energy_error: float
    """Standard error of the energy, from block averages."""
    magnetisation: float
    """Mean of the absolute magnetisation."""
    heat_capacity: float
    heat_capacity_error: float
    """Standard error of the heat capacity, by leaving out one block after the other."""
    susceptibility: float
    flip_rate: float
    """Flips for each spin and sweep."""
    configuration: Path
    """Last spins of each replica: int8, shape (replicas, size, size), as .npy."""


class Walk(TypedDict):
    """What was streamed by all ranks."""

    items: int
    rows: int
    """Samples: one a walker in each item."""


class Snapshots(TypedDict):
    """Spins of one simulation."""

    snapshots: NDArray[np.int8]
    """+1 or -1, shape (count, size, size)."""


class TimedRun(TypedDict):
    """How long an ensemble took."""

    seconds: float
    """Of the slowest rank, in the quickest repetition."""
    energy: float
    """Per site at the end, averaged over the ensemble: the same on any number of ranks."""


@dataclass
class Replica:
    """One simulation on its way: the state for its next sweep, and its measurements so far."""

    spins: Any
    """Shape (size²,): int8 for Metropolis, a plain list for Wolff."""
    rng: Any
    energy: NDArray[np.float64]
    """Per site after each sweep, shape (sweeps,); so is the magnetisation."""
    magnetisation: NDArray[np.float64]
    sweep: int = 0
    """Sweeps so far, with those of the equilibration."""
    clusters: int = 0
    """Clusters that Wolff's equilibration flipped."""
    flips: int = 0


Sweep = Callable[[Replica], int]
"""One sweep of a replica; says how many spins flipped in it."""


@diel.module(kind="simulation")
def ising(
    temperature: Annotated[float, Field(gt=0)],
    context: diel.Context,
    comm: MPI.Comm | None = None,
    size: Annotated[int, Field(ge=4, le=4096)] = 32,
    sweeps: Annotated[int, Field(ge=10)] = 1000,
    equilibration: Annotated[int, Field(ge=1)] = 200,
    algorithm: Literal["metropolis", "wolff"] = "wolff",
    replicas: Annotated[int, Field(ge=1)] = 2,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Ising:
    """Simulate the Ising model at one temperature.

    temperature: in units of J/k_B
    size: sites along a side of the periodic lattice; even for Metropolis
    sweeps: measurements; a sweep proposes size² flips, or flips clusters of about as many spins
    equilibration: sweeps thrown away first, from the state of all spins up
    algorithm: `metropolis` (N. Metropolis et al., J. Chem. Phys. 21, 1087 (1953)) or `wolff`
        (U. Wolff, Phys. Rev. Lett. 62, 361 (1989)), the better one near T_c
    replicas: independent simulations, shared out among the MPI ranks
    seed: with it, results are the same on any number of ranks

    With `checkpoint: true` a task that is interrupted goes on from where it was, with the same result as if
    it had never stopped. Heat capacity and susceptibility come from fluctuations: C = N (<e²> - <e>²) / T²
    and χ = N (<m²> - <|m|>²) / T, for N = size² sites. Raise ValueError for an odd size with Metropolis and
    for a temperature or counts outside their bounds.
    """
    _check(temperature, size, sweeps, equilibration, algorithm, replicas)
    rank, ranks = (comm.Get_rank(), comm.Get_size()) if comm is not None else (0, 1)
    sweep = _sweep(algorithm, temperature, size, equilibration)
    mine: list[Replica] = []
    numbers = range(rank, replicas, ranks)
    for number in numbers:
        path = context.checkpoint_dir / f"replica-{number}.pickle" if context.checkpoint else None
        if path is not None and path.exists():
            mine.append(pickle.loads(path.read_bytes()))  # noqa: S301 - from this task's own directory
        else:
            mine.append(_start(algorithm, size, sweeps, (seed, number)))
        if not _simulate(mine[-1], sweep, equilibration, size, context, path):
            break
    # A rank that stopped must not leave the others waiting for its share.
    stopped = len(mine) < len(numbers) or any(replica.sweep < equilibration + sweeps for replica in mine)
    if any(comm.allgather(stopped)) if comm is not None else stopped:
        done = sum(replica.sweep for replica in mine)
        raise diel.Interrupted(f"{done} sweeps of rank {rank}'s replicas are done")
    shares = comm.gather(mine, root=0) if comm is not None else [mine]
    if shares is None:  # only rank 0 has the result
        return {}  # type: ignore[typeddict-item]
    # rank r ran replicas r, r + ranks, ...: back into their own order, so that no sum depends on ranks
    ensemble = [shares[number % ranks][number // ranks] for number in range(replicas)]
    return _average(ensemble, temperature, context)


@diel.module(kind="simulation")
def walk(
    context: diel.Context,
    temperatures: Annotated[list[float], Field(min_length=2, max_length=2)],
    comm: MPI.Comm | None = None,
    walkers: Annotated[int, Field(ge=1)] = 32,
    items: Annotated[int, Field(ge=1)] = 100,
    sweeps: Annotated[int, Field(ge=1)] = 5,
    size: Annotated[int, Field(ge=4, le=4096)] = 24,
    equilibration: Annotated[int, Field(ge=1)] = 200,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Walk:
    """Walk through states at many temperatures by Metropolis, and stream their averages as `samples`.

    temperatures: [low, high], in units of J/k_B; the walkers' are drawn between them, one from each of as
        many intervals of the same width, so that every item covers all
    walkers: simulations, shared out among the MPI ranks; each rank puts items of its own
    items: of each rank
    sweeps: over which a sample is averaged
    size: sites along a side of the periodic lattice; even
    equilibration: sweeps thrown away first, from the state of all spins up
    seed: with it, a walker's samples are the same on any number of ranks

    An item is {temperature, energy, magnetisation, time}: three arrays with a number a walker, energy and
    absolute magnetisation per site, and the seconds since the epoch at which it was put. Raise ValueError
    for an odd size, for temperatures outside their bounds, and where there are fewer walkers than ranks.
    """
    low, high = temperatures
    _check(min(low, high), size, BLOCKS, equilibration, "metropolis", walkers)
    rank, ranks = (comm.Get_rank(), comm.Get_size()) if comm is not None else (0, 1)
    if walkers < ranks:
        raise ValueError(f"expected at least one walker for each of {ranks} ranks; found {walkers}")
    shares = np.random.default_rng(seed).random(walkers)
    drawn = low + (high - low) * (np.arange(walkers) + shares) / walkers
    numbers = range(rank, walkers, ranks)
    neighbours = _neighbours(size)
    steps = [(_start("metropolis", size, 0, (seed, n)), _metropolis(drawn[n], neighbours)) for n in numbers]
    for replica, sweep in steps:
        for _ in range(equilibration):
            sweep(replica)
    samples = context.stream("samples")
    for _ in range(items):
        averages = np.array([_sample(replica, sweep, sweeps, neighbours) for replica, sweep in steps])
        energy, magnetisation = averages.T.copy()
        item = {"temperature": drawn[rank::ranks], "energy": energy, "magnetisation": magnetisation}
        samples.put({**item, "time": time.time()})
    return {"items": items * ranks, "rows": items * walkers}


@diel.module(kind="simulation")
def snapshots(
    temperature: Annotated[float, Field(gt=0)],
    size: Annotated[int, Field(ge=4, le=4096)] = 32,
    count: Annotated[int, Field(ge=1)] = 60,
    every: Annotated[int, Field(ge=1)] = 2,
    equilibration: Annotated[int, Field(ge=1)] = 30,
    algorithm: Literal["metropolis", "wolff"] = "wolff",
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Snapshots:
    """Keep the spins of one simulation now and then.

    temperature: in units of J/k_B
    size: sites along a side of the periodic lattice; even for Metropolis
    count: snapshots
    every: sweeps between two of them
    equilibration: sweeps before the first, from the state of all spins up
    algorithm: as of `simulation.ising`
    seed: of the random numbers

    Raise ValueError for what `simulation.ising` refuses.
    """
    _check(temperature, size, BLOCKS, equilibration, algorithm, 1)
    sweep = _sweep(algorithm, temperature, size, equilibration)
    replica = _start(algorithm, size, 0, (seed, 0))
    spins = np.empty((count, size * size), np.int8)
    for done in range(1, equilibration + count * every + 1):
        sweep(replica)
        replica.sweep = done
        number, rest = divmod(done - equilibration, every)
        if number > 0 and not rest:
            spins[number - 1] = replica.spins
    return {"snapshots": spins.reshape(count, size, size)}


@diel.module(kind="simulation")
def timed(
    comm: MPI.Comm | None = None,
    temperature: Annotated[float, Field(gt=0)] = 2.5,
    size: Annotated[int, Field(ge=4, le=4096)] = 64,
    sweeps: Annotated[int, Field(ge=10)] = 200,
    replicas: Annotated[int, Field(ge=1)] = 8,
    repeats: Annotated[int, Field(ge=1)] = 3,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> TimedRun:
    """Time an ensemble of lattices by Metropolis, whose replicas the MPI ranks share out.

    temperature: in units of J/k_B
    size: sites along a side of the periodic lattice; even
    sweeps: of each replica, from the state of all spins up
    replicas: independent simulations; rank r of R runs replicas r, r + R, …
    repeats: of all; the quickest counts, as the others shared the machine with other work
    seed: with it, the energy is the same on any number of ranks

    Ranks begin together (a barrier), and the time ends when the energies of all are known on each: the
    slowest rank and the exchange count. Raise ValueError for an odd size and for fewer replicas than ranks.
    """
    _check(temperature, size, sweeps, 1, "metropolis", replicas)
    rank, ranks = (comm.Get_rank(), comm.Get_size()) if comm is not None else (0, 1)
    if replicas < ranks:
        raise ValueError(f"expected at least one replica for each of {ranks} ranks; found {replicas}")
    neighbours = _neighbours(size)
    sweep = _metropolis(temperature, neighbours)
    times, shares = [], [[0.0]]
    for _ in range(repeats):
        if comm is not None:
            comm.Barrier()
        began = time.perf_counter()
        mine = []
        for number in range(rank, replicas, ranks):
            replica = _start("metropolis", size, 0, (seed, number))
            for _ in range(sweeps):
                sweep(replica)
            mine.append(_energy(replica.spins, neighbours))
        shares = comm.allgather(mine) if comm is not None else [mine]
        times.append(time.perf_counter() - began)
    slowest = [max(row) for row in zip(*comm.allgather(times), strict=True)] if comm is not None else times
    # back into their own order, so that the sum does not depend on the number of ranks
    energies = [shares[number % ranks][number // ranks] for number in range(replicas)]
    return {"seconds": min(slowest), "energy": sum(energies) / replicas}


def _sample(replica: Replica, sweep: Sweep, sweeps: int, neighbours: NDArray[np.intp]) -> tuple[float, float]:
    """Return energy and absolute magnetisation per site, averaged over the next sweeps."""
    energy = magnetisation = 0.0
    for _ in range(sweeps):
        sweep(replica)
        energy += _energy(replica.spins, neighbours)
        magnetisation += abs(float(np.mean(replica.spins)))
    return energy / sweeps, magnetisation / sweeps


def _check(
    temperature: float, size: int, sweeps: int, equilibration: int, algorithm: str, replicas: int
) -> None:
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be positive and finite, in units of J/k_B; found {temperature}")
    if algorithm not in ("metropolis", "wolff"):
        raise ValueError(f"algorithm must be 'metropolis' or 'wolff'; found {algorithm!r}")
    counts = {"size": size, "sweeps": sweeps, "equilibration": equilibration, "replicas": replicas}
    for (name, value), least in zip(counts.items(), (4, BLOCKS, 1, 1), strict=True):
        if value < least:
            raise ValueError(f"{name} must be at least {least}; found {value}")
    if algorithm == "metropolis" and size % 2:
        raise ValueError(
            f"size must be even for Metropolis, whose two sublattices must fit the periodic lattice; "
            f"found {size}. Take {size + 1}, or algorithm: wolff"
        )


def _start(algorithm: str, size: int, sweeps: int, seed: tuple[int, int]) -> Replica:
    """Return a replica with all spins up."""
    rng = np.random.default_rng(seed)
    energy, magnetisation = np.empty(sweeps), np.empty(sweeps)
    if algorithm == "metropolis":
        return Replica(np.ones(size * size, dtype=np.int8), rng, energy, magnetisation)
    return Replica([1] * (size * size), random.Random(int(rng.integers(2**63))), energy, magnetisation)


def _simulate(
    replica: Replica, sweep: Sweep, equilibration: int, size: int, context: diel.Context, path: Path | None
) -> bool:
    """Take a replica to its end; return False after an interruption, with the replica saved."""
    neighbours = _neighbours(size)
    end = equilibration + len(replica.energy)
    saved = time.monotonic()
    while replica.sweep < end:
        flipped = sweep(replica)
        place = replica.sweep - equilibration
        replica.sweep += 1
        if place >= 0:
            spins = np.asarray(replica.spins, dtype=np.int8)
            replica.flips += flipped
            replica.energy[place] = _energy(spins, neighbours)
            replica.magnetisation[place] = np.mean(spins)
        if path is None:
            continue
        if context.interrupted or time.monotonic() - saved > SAVE_EVERY or replica.sweep == end:
            part = path.with_suffix(".part")
            part.write_bytes(pickle.dumps(replica))
            part.replace(path)
            saved = time.monotonic()
            if context.interrupted:
                return False
    return True


def _sweep(algorithm: str, temperature: float, size: int, equilibration: int) -> Sweep:
    neighbours = _neighbours(size)
    if algorithm == "metropolis":
        return _metropolis(temperature, neighbours)
    return _wolff(temperature, neighbours, equilibration)


def _neighbours(size: int) -> NDArray[np.intp]:
    """Return the sites to the right, below, to the left and above of each site: shape (size², 4)."""
    sites = np.arange(size * size).reshape(size, size)
    shifts = ((-1, 1), (-1, 0), (1, 1), (1, 0))
    return np.stack([np.roll(sites, shift, axis).ravel() for shift, axis in shifts], axis=1)


def _energy(spins: Spins, neighbours: NDArray[np.intp]) -> float:
    """Return the energy per site: each bond once, to the right and below."""
    return -float(np.mean(spins * (spins[neighbours[:, 0]] + spins[neighbours[:, 1]])))


def _metropolis(temperature: float, neighbours: NDArray[np.intp]) -> Sweep:
    """Return sweeps that propose to flip each spin once.

    Sites of one colour of the checkerboard are not neighbours, and are updated at once; a flip costs 2 s h
    for the sum h of the neighbours.
    """
    size = round(len(neighbours) ** 0.5)
    colour = np.add.outer(np.arange(size), np.arange(size)).ravel() % 2
    halves = [(sites, neighbours[sites]) for sites in (np.flatnonzero(colour == c) for c in (0, 1))]
    # by s h = -4, -2, 0, 2, 4
    acceptance = np.exp(np.minimum(0.0, -2.0 / temperature * np.arange(-4, 5, 2)))

    def sweep(replica: Replica) -> int:
        spins, flipped = replica.spins, 0
        for sites, around in halves:
            here = spins[sites]
            aligned = here * spins[around].sum(axis=1, dtype=np.int8)
            flip = replica.rng.random(len(sites)) < acceptance[(aligned + 4) >> 1]
            spins[sites] = np.where(flip, -here, here)
            flipped += int(np.count_nonzero(flip))
        return flipped

    return sweep


def _wolff(temperature: float, neighbours: NDArray[np.intp], equilibration: int) -> Sweep:
    """Return sweeps that flip clusters.

    A sweep is a fixed number of clusters: as many as flip size² spins on average, counted during
    equilibration. (A stop after size² flips would favour states with large clusters.)
    """
    around = [tuple(row) for row in neighbours.tolist()]
    join = 1.0 - float(np.exp(-2.0 / temperature))

    def sweep(replica: Replica) -> int:
        spins, draw = replica.spins, replica.rng.random
        if replica.sweep >= equilibration:
            clusters = max(1, round(replica.clusters / equilibration))
            return sum(_flip_cluster(spins, around, join, draw) for _ in range(clusters))
        flipped = 0
        while flipped < len(spins):
            flipped += _flip_cluster(spins, around, join, draw)
            replica.clusters += 1
        return flipped

    return sweep


def _flip_cluster(spins: list[int], around: list[tuple[int, ...]], join: float, draw: Any) -> int:
    """Grow one cluster from a random site, flips it in place, and return its size.

    Each bond from the cluster to an aligned neighbour outside joins that one with probability 1 - exp(-2/T).
    A spin flips as it joins, and so is marked. Plain lists: for the small clusters above T_c they are far
    quicker than arrays.
    """
    start = int(draw() * len(spins))
    aligned = spins[start]
    spins[start] = -aligned
    frontier = [start]
    size = 1
    while frontier:
        for site in around[frontier.pop()]:
            if spins[site] == aligned and draw() < join:
                spins[site] = -aligned
                frontier.append(site)
                size += 1
    return size


def _average(replicas: list[Replica], temperature: float, context: diel.Context) -> Ising:
    energy = np.stack([replica.energy for replica in replicas])
    magnetisation = np.abs(np.stack([replica.magnetisation for replica in replicas]))
    spins = np.stack([np.asarray(replica.spins, dtype=np.int8) for replica in replicas])
    count = spins.shape[1]
    size = round(count**0.5)
    parts = [block for row in energy for block in np.array_split(row, BLOCKS)]
    blocks = np.array([block.mean() for block in parts])
    configuration = context.task_dir / "configuration.npy"
    np.save(configuration, spins.reshape(len(replicas), size, size))
    return {
        "energy": float(energy.mean()),
        "energy_error": float(blocks.std(ddof=1) / np.sqrt(len(blocks))),
        "magnetisation": float(magnetisation.mean()),
        "heat_capacity": float(count * energy.var() / temperature**2),
        "heat_capacity_error": count * _error_of_variance(parts) / temperature**2,
        "susceptibility": float(count * magnetisation.var() / temperature),
        "flip_rate": sum(replica.flips for replica in replicas) / (energy.size * count),
        "configuration": configuration,
    }


def _error_of_variance(blocks: list[NDArray[np.float64]]) -> float:
    """Estimate the variance's standard error by the jackknife (B. Efron, Ann. Stat. 7, 1 (1979))."""
    middle = float(np.mean(blocks[0]))  # near the mean, so that squares lose no digits
    sums = np.array([(len(block), (block - middle).sum(), ((block - middle) ** 2).sum()) for block in blocks])
    count, first, second = (sums.sum(axis=0) - sums).T
    without = second / count - (first / count) ** 2
    return float(np.sqrt((len(blocks) - 1) * without.var()))
