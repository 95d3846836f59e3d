"""A controller that watches a running simulation, learns the effect of temperatures, and sets the next one.

It counts how often a state of one kind became one of another at a temperature; a kind is a range of energies.
Counts tell probabilities P(j | i, T), and these the fewest steps V to the target that are to be expected,
V(i) = 1 + min_T Σ_j P(j | i, T) V(j), V(target) = 0, from V = 0 by as many iterations as there are states
before a cluster is given up (D. P. Bertsekas and J. N. Tsitsiklis, Math. Oper. Res. 16, 580 (1991)). While it
learns, it draws P from what the counts allow, a Dirichlet distribution for each kind and temperature, and so
tries what it hardly knows (M. Strens, ICML 2000, 943).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import diel

Floats = NDArray[np.float64]

UNKNOWN = 0.1
"""Parameter of the Dirichlet distribution for each kind that follows, before anything was seen."""
AGAIN = 10
"""States after which probabilities are drawn again."""


class Steering(TypedDict):
    """What was learned."""

    learned: int
    """Simulated steps that it learned from."""
    policy: list[float]
    """The temperature for each kind of state, from the lowest energies on, the target left out."""
    expected: list[float]
    """Steps from there to the target, as it believes."""
    model: Path
    """.npz: `edges`, `temperatures`, and `counts` of shape (kinds, temperatures, kinds)."""


@diel.module(kind="training")
def steering(
    context: diel.Context,
    controller: str,
    temperatures: Annotated[list[float], Field(min_length=2)],
    edges: Annotated[list[float], Field(min_length=1)],
    learning: Annotated[int, Field(ge=1)],
    every: Annotated[int, Field(ge=1)] = 500,
    limit: Annotated[int, Field(ge=1)] = 40_000,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Steering:
    """Read states from the stream `states`, and put a temperature into the tuple space for each.

    controller: begins the keys of temperatures, as the simulation has it
    temperatures: that it may choose
    edges: energies at which kinds of states part, upwards
    learning: clusters that it learns from; for later ones it goes by what it knows, and learns no more
    every, limit: as the simulation has them
    seed: of what is drawn; the same one gives the same temperatures

    Report `cluster` and `steps` at the end of each.
    """
    rng, horizon = np.random.default_rng(seed), limit // every
    counts = np.zeros((len(edges) + 2, len(temperatures), len(edges) + 2))
    before, learned = (0, 0), 0  # the kind and the temperature that the next state follows
    policy, expected = np.zeros(len(counts), np.intp), np.zeros(len(counts))
    for state in context.stream("states"):
        kind = 0 if state["reached"] else 1 + int(np.searchsorted(edges, state["excess"]))
        learns, step = state["cluster"] < learning, state["step"]
        if learns and step > 0:
            counts[(*before, kind)] += 1
            learned += every
        if state["over"]:
            context.report(cluster=state["cluster"], steps=step)
            continue
        if learns and step // every % AGAIN == 0:
            policy, _ = best(rng.standard_gamma(counts + UNKNOWN), horizon)
        elif state["cluster"] == learning and step == 0:
            # as if each temperature had once changed nothing: what was never tried does not help
            policy, expected = best(counts + np.eye(len(counts))[:, None, :], horizon)
        before = (kind, int(policy[kind]))
        context.space.put((controller, state["cluster"], step), temperatures[before[1]])
    model = context.task_dir / "model.npz"
    np.savez(model, edges=edges, temperatures=temperatures, counts=counts)
    return {
        "learned": learned,
        "policy": [temperatures[int(choice)] for choice in policy[1:]],
        "expected": (every * expected[1:]).tolist(),
        "model": model,
    }


def best(odds: Floats, horizon: int) -> tuple[NDArray[np.intp], Floats]:
    """Return each kind's choice that leads to kind 0 soonest, and in how many states, at most `horizon`.

    odds: proportional to probabilities, shape (kinds, choices, kinds)
    """
    probabilities = odds / odds.sum(axis=2, keepdims=True)
    expected = np.zeros(len(probabilities))
    for _ in range(horizon):
        costs = 1 + probabilities @ expected
        costs[0] = 0
        expected = costs.min(axis=1)
    return costs.argmin(axis=1), expected
