"""The speedup by a model that answers for simulations, from the run times in the run's journal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pydantic import Field

import diel


class Speedup(TypedDict):
    """S = T_sim (N_lookup + N_train) / (T_lookup N_lookup + (T_sim + T_learn) N_train)."""

    speedup: float | None
    """None if a stage has no times, as all its tasks came from the cache; then the other numbers are 0."""
    n_lookup: int
    n_train: int
    t_sim_s: float
    """Mean time of a simulation."""
    t_lookup_s: float
    """Mean time of a lookup."""
    t_learn_s: float
    """Time of all trainings, by the number of simulations."""


@diel.module(kind="analysis")
def effective_speedup(
    run: Path,
    simulations: Annotated[list[str], Field(min_length=1)],
    trainings: list[str],
    lookups: Annotated[list[str], Field(min_length=1)],
    count: Annotated[int, Field(ge=1)],
    study: Annotated[list[float], Field(min_length=1)],
) -> Speedup:
    """Work out the effective speedup of stages of this run, such as a screen (G. Fox et al., Learning
    Everywhere: Pervasive Machine Learning for Effective High-Performance Computation, 2019).

    run: its directory, `${{ run.dir }}`, which is in no cache key
    simulations: stages that simulated the training data
    trainings: stages that trained
    lookups: stages that asked the model
    count: states that the lookups asked about
    study: numbers that the lookups returned: they keep another study's speedup out of the cache for this one

    Tasks that were taken from the cache have no time in this run's journal: `diel run --no-cache` counts all.
    """
    journal = diel.open_run(run)
    times: dict[str, list[float]] = {}
    for stage in (*simulations, *trainings, *lookups):
        usage: Any = journal.usage(stage)  # a table with pandas, a list without
        attempts = usage.to_dict("records") if hasattr(usage, "to_dict") else usage
        times[stage] = [attempt["seconds"] for attempt in attempts if attempt["state"] == "done"]
    if not all(times.values()):
        sys.stdout.write("not measured: results came from the cache; `diel run --no-cache` measures\n")
        return Speedup(speedup=None, n_lookup=0, n_train=0, t_sim_s=0.0, t_lookup_s=0.0, t_learn_s=0.0)
    simulated, learned, looked_up = (
        [time for stage in stages for time in times[stage]] for stages in (simulations, trainings, lookups)
    )
    runs, simulating = len(simulated), sum(simulated)
    spent = sum(looked_up) + simulating + sum(learned)
    result: Speedup = {
        "speedup": simulating / runs * (count + runs) / spent,
        "n_lookup": count,
        "n_train": runs,
        "t_sim_s": simulating / runs,
        "t_lookup_s": sum(looked_up) / count,
        "t_learn_s": sum(learned) / runs,
    }
    sys.stdout.write(
        f"effective speedup {result['speedup']:.3g}: N_lookup {count:,}, N_train {runs:,}, "
        f"T_sim {1e3 * result['t_sim_s']:.3g} ms, T_lookup {1e9 * result['t_lookup_s']:.3g} ns, "
        f"T_learn {1e3 * result['t_learn_s']:.3g} ms\n"
    )
    return result
