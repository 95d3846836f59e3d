"""A network with optional layers, trained on small images, and the cost of its predictions.

training.architecture            trains one, and counts its multiply-adds
training.architecture:compare    the Pareto fronts of searches for such networks
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

import diel
from diel import pytorch

BATCH = 64
RATE = 0.005


class Architecture(TypedDict):
    """The network after its last epoch."""

    accuracy: float
    """Share of the held-out images whose class is found."""
    multiply_adds: int
    """Of one prediction: of convolutions and layers, without biases and means."""
    parameters: int
    shape: str
    """In short: `conv 8x3, conv 8x3, 16` has two convolutions of 8 channels and one hidden layer."""


@diel.module(kind="training")
def architecture(
    data: NDArray[Any],
    targets: NDArray[Any],
    context: diel.Context,
    convolutions: Annotated[int, Field(ge=0, le=3)] = 1,
    channels: Annotated[int, Field(ge=1, le=1024)] = 8,
    kernel: Literal[3, 5, 7] = 3,
    layers: Annotated[int, Field(ge=0, le=10)] = 1,
    widths: Annotated[list[int], Field(max_length=10)] | None = None,
    epochs: Annotated[int, Field(ge=1)] = 20,
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.3,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> Architecture:
    """Train a network by Adam, and count the cost of a prediction.

    data: shape (images, height, width)
    targets: shape (images,): the class of each, from 0
    convolutions: each is followed by means over 2 × 2 sites
    channels, kernel: of each convolution; without one they mean nothing
    layers: hidden layers after that
    widths: units of the first, second, … of them; further ones mean nothing
    epochs: passes over the images
    held_out: share of the images that are not trained on, the same ones for each seed
    seed: of the first weights and the order of the images

    Report `epoch` and `accuracy`. Raise ValueError where arrays or widths do not fit.
    """
    chosen = (widths or [])[:layers]
    if data.ndim != 3:
        raise ValueError(f"data: expected images, found shape {data.shape}")
    if len(chosen) < layers:
        raise ValueError(f"widths: expected {layers}, found {len(chosen)}")
    if min(data.shape[1:]) >> convolutions == 0:
        raise ValueError(f"convolutions: {convolutions} halve images of {data.shape[1:]} to nothing")
    scaled = (np.asarray(data, np.float32) - data.mean()) / (data.std() or 1)
    inputs, labels = torch.from_numpy(scaled)[:, None].float(), pytorch.classes(targets, len(data))
    train, held = pytorch.split(len(labels), held_out, 0)
    with pytorch.reproducible(), pytorch.seeded(seed):
        sides = (data.shape[1], data.shape[2])
        network, products = _network(sides, convolutions, channels, kernel, chosen, int(labels.max()) + 1)
        descent = torch.optim.Adam(network.parameters(), RATE)
        accuracy = 0.0
        for epoch in range(epochs):
            for part in torch.split(train[torch.randperm(len(train))], BATCH):
                lost = torch.nn.functional.cross_entropy(network(inputs[part]), labels[part])
                descent.zero_grad()
                lost.backward()  # type: ignore[no-untyped-call]
                descent.step()
            with torch.no_grad():
                predicted = network(inputs[held]).argmax(dim=1)
            accuracy = float((predicted == labels[held]).double().mean())
            context.report(epoch=epoch + 1, accuracy=accuracy)
    shape = ", ".join([f"conv {channels}x{kernel}"] * convolutions + [str(width) for width in chosen])
    return {
        "accuracy": accuracy,
        "multiply_adds": products,
        "parameters": sum(tensor.numel() for tensor in network.parameters()),
        "shape": shape or "linear",
    }


def _network(
    sides: tuple[int, int], convolutions: int, channels: int, kernel: int, widths: Sequence[int], classes: int
) -> tuple[torch.nn.Module, int]:
    """Return the network and the multiply-adds of one prediction."""
    parts: list[torch.nn.Module] = []
    (height, width), depth, products = sides, 1, 0
    for _ in range(convolutions):
        convolution = torch.nn.Conv2d(depth, channels, kernel, padding=kernel // 2)
        parts += [convolution, torch.nn.ReLU(), torch.nn.AvgPool2d(2)]
        products += height * width * convolution.weight.numel()
        height, width, depth = height // 2, width // 2, channels
    parts.append(torch.nn.Flatten())
    units = height * width * depth
    for wide in widths:
        parts += [torch.nn.Linear(units, wide), torch.nn.ReLU()]
        products += units * wide
        units = wide
    return torch.nn.Sequential(*parts, torch.nn.Linear(units, classes)), products + units * classes


class Comparison(TypedDict):
    """Fronts of searches."""

    area: dict[str, list[float]]
    """By search and seed: the area that the front encloses with accuracy 0 and the costliest network of all,
    accuracy against the logarithm of multiply-adds, as a share of the whole; 1 would be free perfection."""
    front: Path
    """CSV of all fronts: search, seed, multiply_adds, accuracy, shape."""


@diel.module(kind="analysis")
def compare(context: diel.Context, **searches: dict[str, list[Any]]) -> Comparison:
    """Print the Pareto front of each search and seed, and the area that it encloses.

    searches: for each a mapping of `seed`, `multiply_adds`, `accuracy` and `shape`: lists with an entry for
        each trial
    """
    every = [cost for search in searches.values() for cost in search["multiply_adds"]]
    low, high = float(np.log(min(every))), float(np.log(max(every)))
    area: dict[str, list[float]] = {}
    rows: list[tuple[str, int, int, float, str]] = []
    for name, search in searches.items():
        area[name] = []
        names = ("seed", "multiply_adds", "accuracy", "shape")
        trials = list(zip(*(search[column] for column in names), strict=True))
        for seed in sorted({trial[0] for trial in trials}):
            front = pareto([trial[1:] for trial in trials if trial[0] == seed])
            rows += [(name, seed, *network) for network in front]
            area[name].append(_area(front, low, high))
    path = context.task_dir / "fronts.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("search", "seed", "multiply_adds", "accuracy", "shape"), *rows])
    lines = [f"{'search':10}seed  multiply-adds  accuracy  network"]
    lines += [f"{name:10}{seed:4} {cost:14} {right:9.3f}  {shape}" for name, seed, cost, right, shape in rows]
    for name, areas in area.items():
        scatter = stdev(areas) if len(areas) > 1 else 0.0
        lines.append(f"{name}: area {fmean(areas):.3f} ± {scatter:.3f} over {len(areas)} seeds")
    sys.stdout.write("\n".join(lines) + "\n")
    return {"area": area, "front": path}


def pareto(networks: Sequence[tuple[int, float, str]]) -> list[tuple[int, float, str]]:
    """Return the networks that no other one beats in cost and accuracy, the cheapest first."""
    front: list[tuple[int, float, str]] = []
    for network in sorted(networks, key=lambda entry: (entry[0], -entry[1])):
        if not front or network[1] > front[-1][1]:
            front.append(network)
    return front


def _area(front: Sequence[tuple[int, float, str]], low: float, high: float) -> float:
    """Return the area under the stairs of a front, from the cheapest to the costliest network of all."""
    if high <= low:
        return front[-1][1]
    ends = [*(float(np.log(point[0])) for point in front[1:]), high]
    return sum(
        right * (end - float(np.log(cost))) for (cost, right, _), end in zip(front, ends, strict=True)
    ) / (high - low)
