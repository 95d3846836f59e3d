"""Screens states through a service that holds the model: a client that loads no model.

stages:
  screen:
    module: inference.ask
    over: [part]
    services: [serve]                    # a stage with `module: inference.serve`
    params: {service: serve, ranges: {temperature: [0.5, 3.0]}, seed: "${{ part }}"}
"""

from __future__ import annotations

import heapq
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from pydantic import Field

import diel


class AskResult(TypedDict):
    """What the service's model says of all states."""

    count: int
    unsure: int
    """States that were left out because the models differ too much."""
    minimum: float
    """Over the states that count, as all of these."""
    maximum: float
    mean: float
    best: list[dict[str, float]]
    """The best states, the best one first: their features, `prediction`, and `deviation` of an ensemble."""


@diel.module(kind="inference")
def ask(
    service: str,
    ranges: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]],
    context: diel.Context,
    points: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1000,
    batch: Annotated[int, Field(ge=1)] = 256,
    goal: Literal["maximize", "minimize"] = "maximize",
    sure: Annotated[float, Field(gt=0)] | None = None,
    keep: Annotated[int, Field(ge=1, le=10_000)] = 10,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> AskResult:
    """Draw states, asks a service about them, and keep the best.

    service: a stage with `module: inference.serve`, which this one names in its `services`
    ranges: [low, high] by feature; states are drawn uniformly between them
    points: states to draw
    batch: states of one request
    goal: which states are best: those with the largest or the smallest prediction
    sure: largest deviation between the models of an ensemble at which a prediction counts
    keep: best states to return
    seed: of the draw

    Raise ServiceError where the service refuses a request or does not answer, ValueError where no state
    counts.
    """
    client = context.service(service)
    bounds = np.array(list(ranges.values()), dtype=float)
    rng = np.random.default_rng(seed)
    sign = 1.0 if goal == "maximize" else -1.0
    best: list[tuple[float, int, dict[str, float]]] = []
    counted, unsure, total, low, high = 0, 0, 0.0, np.inf, -np.inf
    for start in range(0, points, batch):
        size = min(batch, points - start)
        states = rng.uniform(bounds[:, 0], bounds[:, 1], (size, len(bounds)))
        outputs = client.predict(states, features=tuple(ranges))
        counts: Any = np.ones(size, dtype=bool)
        if sure is not None:
            if "deviation" not in outputs:
                raise ValueError("`sure` is for an ensemble: give the service several models")
            counts = outputs["deviation"] <= sure
        unsure += size - int(counts.sum())
        predicted = outputs["prediction"][counts]
        if not len(predicted):
            continue
        counted += len(predicted)
        total += float(predicted.sum())
        low, high = min(low, float(predicted.min())), max(high, float(predicted.max()))
        for place in np.argsort(-sign * outputs["prediction"], kind="stable"):
            if not counts[place]:
                continue
            value = sign * float(outputs["prediction"][place])
            if len(best) >= keep and value <= best[0][0]:
                break
            state = dict(zip(ranges, states[place].tolist(), strict=True))
            answers = {name: float(values[place]) for name, values in outputs.items()}
            entry = (value, -(start + int(place)), {**state, **answers})
            (heapq.heappush if len(best) < keep else heapq.heapreplace)(best, entry)
    if not counted:
        raise ValueError(f"the models differ by more than {sure} at each of the {points} states")
    return {
        "count": counted,
        "unsure": unsure,
        "minimum": low,
        "maximum": high,
        "mean": total / counted,
        "best": [state for _, _, state in sorted(best, key=lambda entry: entry[:2], reverse=True)],
    }
