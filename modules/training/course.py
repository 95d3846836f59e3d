"""An LSTM that learns a whole course, a profile or a time series, from parameters, and zones for that course.

The parameters pass through layers, whose output is where the LSTM begins; step by step it then tells the
course, with the place as its only input. S. Wang et al., Nat. Commun. 10, 4354 (2019), learned patterns so.

training.course         learns courses
training.course:want    a model for inference.screen, which predicts how well a course is as it should be
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np
import torch
from pydantic import Field

import diel
from diel import pytorch, tabular

Zone = Annotated[list[float], Field(min_length=2, max_length=2)]


class LearnedCourse(TypedDict):
    """The best epoch: the one with the smallest validation loss."""

    model: Path
    """.npz, for `training.course:want`."""
    validation_loss: float
    """Mean squared error of courses held out, by the variance of the training courses."""
    r2: float
    """Coefficient of determination over the courses held out."""
    epochs: int
    seconds: float


class TargetCourse(TypedDict):
    """A model for `inference.screen`."""

    model: Path
    """.npz; its prediction is the smallest margin by which a course is within its zones."""


class CourseNetwork(torch.nn.Module):
    """Courses of shape (rows, steps) from parameters of shape (rows, features)."""

    def __init__(self, features: int, steps: int, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(features, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, 2 * hidden),
        )
        self.lstm = torch.nn.LSTM(1, hidden, batch_first=True)
        self.tell = torch.nn.Linear(hidden, 1)
        self.places: torch.Tensor
        self.register_buffer("places", torch.linspace(-1, 1, steps)[:, None])

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        state, cell = self.layers(rows).chunk(2, dim=1)
        begin = (torch.tanh(state)[None].contiguous(), cell[None].contiguous())
        states, _ = self.lstm(self.places.expand(len(rows), -1, -1), begin)
        courses: torch.Tensor = self.tell(states)[:, :, 0]
        return courses


@diel.module(kind="training")
def course(
    parameters: list[Path],
    courses: list[Path],
    features: list[str],
    context: diel.Context,
    hidden: Annotated[int, Field(ge=1, le=1024)] = 32,
    width: Annotated[int, Field(ge=1, le=4096)] = 64,
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.005,
    batch: Annotated[int, Field(ge=1)] = 100,
    epochs: Annotated[int, Field(ge=1)] = 20,
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> LearnedCourse:
    """Train an LSTM with PyTorch, with a rate that falls along half a cosine.

    parameters: .npy of shape (rows, features), one or several
    courses: .npy of shape (rows, steps) for each of them
    features: names of the parameters
    hidden: numbers in the LSTM's state
    width: of the two layers before it
    learning_rate: of the first epoch
    batch: rows in a gradient step
    epochs: passes over the rows
    held_out: share of the rows that choose the epoch
    seed: of the split, the first weights and the order of the rows

    With `checkpoint: true` a task that is interrupted or killed goes on from its last checkpoint. Raise
    ValueError where the files do not fit each other.
    """
    rows, targets = (np.concatenate([np.load(path) for path in paths]) for paths in (parameters, courses))
    if rows.shape != (len(targets), len(features)) or targets.ndim != 2 or len(rows) < 2:
        shapes = f"{rows.shape}, {targets.shape}"
        raise ValueError(f"rows of {len(features)} parameters and courses differ: {shapes}")
    with pytorch.reproducible():
        train, held = (chosen.numpy() for chosen in pytorch.split(len(rows), held_out, seed))
        inputs, goals = rows[train], targets[train]
        deviation = float(goals.std())
        scale = tabular.Scale(inputs.mean(axis=0), inputs.std(axis=0), float(goals.mean()), deviation)
        cpu = torch.device("cpu")
        settings = pytorch.Settings(learning_rate, epochs, batch, cpu, schedule="cosine", seed=seed)
        with pytorch.seeded(seed):
            network = CourseNetwork(rows.shape[1], targets.shape[1], width, hidden)
        learned, held_rows = (
            pytorch.Rows(
                torch.from_numpy(scale.features(rows[part])).float(),
                torch.from_numpy(scale.target(targets[part])).float(),
            )
            for part in (train, held)
        )
        loss = torch.nn.functional.mse_loss
        trained = pytorch.train(network, learned, held_rows, loss, settings, context)
        predicted = pytorch.outputs(network, held_rows.inputs, 1000, settings.device)
    # as plain arrays, whose courses have their own units
    arrays = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    steps = len(arrays["places"])
    places = arrays["places"] @ arrays["lstm.weight_ih_l0"].T
    followed = tabular.Lstm(
        inner=arrays["lstm.weight_hh_l0"].T,
        places=places + arrays["lstm.bias_ih_l0"] + arrays["lstm.bias_hh_l0"],
        outer=np.append(arrays["tell.weight"][0] * scale.target_scale, scale.own_units(arrays["tell.bias"])),
        low=np.full(steps, -np.inf),
        high=np.full(steps, np.inf),
    )
    layers = tuple((arrays[f"layers.{n}.weight"].T, arrays[f"layers.{n}.bias"]) for n in (0, 2, 4))
    model = tabular.Model(tuple(features), "margin", "silu", scale, layers, course=followed)
    return {
        "model": model.save(context.task_dir / "model.npz"),
        "validation_loss": trained.best.validation_loss,
        "r2": pytorch.r2(held_rows.targets, predicted),
        "epochs": trained.epochs,
        "seconds": trained.seconds,
    }


@diel.module(kind="analysis")
def want(
    model: Path,
    bright: list[Zone],
    dark: list[Zone],
    context: diel.Context,
    level: float = 0.0,
    gap: float = 0.0,
) -> TargetCourse:
    """Make a model that tells how well a course is bright and dark where it should be.

    model: of `training.course`
    bright: zones [from, to] of the course, whose length is 1, where it should be at least level + gap
    dark: zones where it should be at most level − gap; a zone is the places whose middle lies in it

    Raise ValueError where a zone holds no place.
    """
    network = tabular.Model.load(model)
    if network.course is None:
        raise ValueError(f"{model.name} follows no course; expected a model of training.course")
    steps = len(network.course.places)
    low, high = np.full(steps, -np.inf), np.full(steps, np.inf)
    middles = (np.arange(steps) + 0.5) / steps
    for zones, bound, value in ((bright, low, level + gap), (dark, high, level - gap)):
        for begin, end in zones:
            inside = (begin <= middles) & (middles <= end)
            if not inside.any():
                raise ValueError(f"no place of {steps} lies in the zone [{begin}, {end}]; make it wider")
            bound[inside] = value
    judge = replace(network, course=replace(network.course, low=low, high=high))
    return {"model": judge.save(context.task_dir / "model.npz")}
