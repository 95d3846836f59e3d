"""A learner that is fed by actors while it learns, and feeds them its policy: proximal policy optimization.

J. Schulman and others, arXiv:1707.06347: gradient steps on what actors played go on as long as the policy
stays near the one that played. That one may be older than the learner's: its probabilities come with each
action. Actors and learner work at the same time, as by S. Huang and others, arXiv:2310.00036.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

import diel
from diel import pytorch

PATIENCE = 300.0
"""Seconds to wait for an actor's first message."""
CLIP = 0.2
"""How far the ratio of probabilities may leave 1: ε of eq. 7."""


class LearnedPolicy(TypedDict):
    """The policy after the last batch."""

    model: Path
    """Its weights as .npz: `simulation.play:judge` plays by them."""
    steps: int
    """Of all environments, that it learned from."""
    episode: float
    """Mean sum of rewards over the last 100 episodes that ended, with chance in each action."""
    staleness: float
    """Versions between the policy that played and the one that learned from it, on average."""
    waited: float
    """Part of the time for which it waited for actors."""
    history: Path
    """CSV of the reports, with the columns batch, steps, episode, staleness."""


class Network(nn.Module):
    """A policy and a value, each with two hidden layers of tanh."""

    def __init__(self, seen: int, actions: int, numbers: bool, hidden: int, spread: float) -> None:
        super().__init__()
        self.policy, self.value = _layers(seen, hidden, actions, 0.01), _layers(seen, hidden, 1, 1.0)
        self.spread = nn.Parameter(torch.full((actions,), math.log(spread))) if numbers else None

    def distribution(self, observations: torch.Tensor) -> torch.distributions.Distribution:
        out = self.policy(observations)
        if self.spread is None:
            return torch.distributions.Categorical(logits=out, validate_args=False)
        normal = torch.distributions.Normal(out, self.spread.exp(), validate_args=False)
        return torch.distributions.Independent(normal, 1, validate_args=False)

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the policy's weights, as `simulation.play` takes them."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, layer in enumerate(part for part in self.policy if isinstance(part, nn.Linear)):
            arrays[f"weight{number}"] = layer.weight.detach().numpy().copy()
            arrays[f"bias{number}"] = layer.bias.detach().numpy().copy()
        if self.spread is not None:
            arrays["spread"] = self.spread.detach().numpy().copy()
        return arrays


@diel.module(kind="training")
def ppo(
    context: diel.Context,
    learner: str,
    batches: Annotated[int, Field(ge=1)],
    actors: Annotated[int, Field(ge=1)] = 1,
    lag: Annotated[int, Field(ge=0)] = 1,
    hidden: Annotated[int, Field(ge=1, le=4096)] = 64,
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3,
    discount: Annotated[float, Field(gt=0, lt=1)] = 0.98,
    trace: Annotated[float, Field(ge=0, le=1)] = 0.9,
    epochs: Annotated[int, Field(ge=1)] = 6,
    rows: Annotated[int, Field(ge=2)] = 256,
    spread: Annotated[float, Field(gt=0)] = 0.3,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> LearnedPolicy:
    """Learn from the stream `experience`, and put its policy into the tuple space after each batch.

    learner: begins the keys of weights, as actors have it
    batches: that each actor plays; the learning rate falls to 0 over them
    actors: who put into the stream; a batch is complete when it has come from all, and takes them in order
    lag: as actors have it: weights that none of them needs any longer are taken away
    hidden: units of each hidden layer
    learning_rate: of Adam, at first
    discount: of a reward that is one step later
    trace: λ of the advantages (J. Schulman and others, arXiv:1506.02438, eq. 16)
    epochs: passes over a batch
    rows: in a gradient step, about
    spread: deviation of actions that are numbers, at first
    seed: of the first weights, and of the order of steps

    Report `batch`, `steps` and `episode`. The same seed gives the same policy, whoever is faster.
    """
    began, waited, number, steps, stale = time.perf_counter(), 0.0, 0, 0, 0.0
    scale, episodes, course = Scale(discount), Episodes(), []
    with pytorch.reproducible(), pytorch.seeded(seed):
        spaces = context.space.read((learner, "spaces"), PATIENCE)[1]
        network = Network(**spaces, hidden=hidden, spread=spread)
        descent = torch.optim.Adam(network.parameters(), lr=learning_rate, eps=1e-5, fused=True)
        context.space.put((learner, 0), network.weights())
        for items, time_waited in _complete(context.stream("experience"), actors):
            waited += time_waited
            stale += sum(number - item["version"] for item in items) / len(items)
            batch = {name: np.concatenate([item[name] for item in items], axis=1) for name in ARRAYS}
            episodes.add(batch)
            batch["rewards"] = scale(batch)
            for group in descent.param_groups:
                group["lr"] = learning_rate * (1 - number / batches)
            improve(network, descent, batch, discount=discount, trace=trace, epochs=epochs, rows=rows)
            number += 1
            steps += int(batch["valid"].sum())
            context.space.put((learner, number), network.weights())
            if number > lag:
                context.space.take((learner, number - 1 - lag))
            context.report(batch=number, steps=steps, episode=episodes.mean)
            course.append((number, steps, episodes.mean, stale / number))
    model, history = context.task_dir / "model.npz", context.task_dir / "history.csv"
    np.savez(model, **network.weights())  # type: ignore[arg-type]
    with history.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("batch", "steps", "episode", "staleness"), *course])
    return {
        "model": model,
        "steps": steps,
        "episode": episodes.mean,
        "staleness": stale / max(1, number),
        "waited": waited / (time.perf_counter() - began),
        "history": history,
    }


ARRAYS = ("seen", "actions", "logs", "rewards", "terminated", "ended", "valid")


def improve(
    network: Network,
    descent: torch.optim.Optimizer,
    batch: dict[str, NDArray[Any]],
    *,
    discount: float,
    trace: float,
    epochs: int,
    rows: int,
) -> None:
    """Take gradient steps on a batch: eq. 7's clipped objective, and half the squared error of the value."""
    tensors = {name: torch.as_tensor(np.ascontiguousarray(batch[name])) for name in ARRAYS}
    observations = tensors["seen"].float()
    with torch.no_grad():
        worth = network.value(observations)[..., 0]
    gains = advantages(worth.numpy(), batch, discount=discount, trace=trace)
    valid = tensors["valid"].flatten()
    steps = {
        "seen": observations[:-1].flatten(0, 1)[valid],
        "actions": tensors["actions"].flatten(0, 1)[valid],
        "logs": tensors["logs"].flatten().float()[valid],
        "better": torch.as_tensor(gains).flatten().float()[valid],
        "worth": (torch.as_tensor(gains) + worth[:-1]).flatten().float()[valid],
    }
    steps["better"] = (steps["better"] - steps["better"].mean()) / (steps["better"].std() + 1e-8)
    parts = max(1, round(len(steps["logs"]) / rows))
    for _ in range(epochs):
        for part in torch.randperm(len(steps["logs"])).chunk(parts):
            minibatch = {name: values[part] for name, values in steps.items()}
            logs = network.distribution(minibatch["seen"]).log_prob(minibatch["actions"])
            ratio = (logs - minibatch["logs"]).exp()
            better = minibatch["better"]
            gain = torch.min(ratio * better, ratio.clamp(1 - CLIP, 1 + CLIP) * better)
            off = (network.value(minibatch["seen"])[..., 0] - minibatch["worth"]) ** 2
            descent.zero_grad()
            (0.5 * off.mean() - gain.mean()).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            descent.step()


def advantages(
    values: NDArray[Any], batch: dict[str, NDArray[Any]], *, discount: float, trace: float
) -> NDArray[np.float64]:
    """Return how much better each action was than expected: shape (steps, environments).

    values: of what was seen, shape (steps + 1, environments). An episode that is cut by its limit would have
    gone on: its last state has a value, that of one that terminated has none.
    """
    gains = np.zeros(batch["rewards"].shape)
    later = np.zeros(batch["rewards"].shape[1])
    for step in reversed(range(len(gains))):
        follows = values[step + 1] * ~batch["terminated"][step]
        surprise = batch["rewards"][step] + discount * follows - values[step]
        later = surprise + discount * trace * ~batch["ended"][step] * later
        gains[step] = later
    return gains


class Scale:
    """Divides rewards by the deviation of discounted sums of them so far: values are of the order of one."""

    def __init__(self, discount: float) -> None:
        self.discount, self.sums, self.seen = discount, 0.0, np.zeros(3)

    def __call__(self, batch: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
        for rewards, ended in zip(batch["rewards"], batch["ended"], strict=True):
            sums = self.discount * self.sums + rewards
            self.seen += [len(sums), np.sum(sums), np.sum(sums**2)]
            self.sums = sums * ~ended
        count, total, squares = self.seen
        return np.asarray(batch["rewards"] / np.sqrt(squares / count - (total / count) ** 2 + 1e-8))


class Episodes:
    """Sums of rewards of the last hundred episodes."""

    def __init__(self) -> None:
        self.sums: Any = 0.0
        self.last: list[float] = []

    def add(self, batch: dict[str, NDArray[Any]]) -> None:
        for rewards, ended in zip(batch["rewards"], batch["ended"], strict=True):
            self.sums = self.sums + rewards
            self.last = [*self.last, *self.sums[ended]][-100:]
            self.sums = self.sums * ~ended

    @property
    def mean(self) -> float:
        return float(np.mean(self.last)) if self.last else 0.0


def _complete(stream: Any, actors: int) -> Iterator[tuple[list[Any], float]]:
    """Yield complete batches, in the order of the actors, and the seconds of waiting for each."""
    there: dict[int, list[Any]] = {}
    began = time.perf_counter()
    for item in stream:
        mine = there.setdefault(item["number"], [])
        mine.append(item)
        if len(mine) == actors:
            waited = time.perf_counter() - began
            yield sorted(there.pop(item["number"]), key=lambda experience: experience["actor"]), waited
            began = time.perf_counter()


def _layers(into: int, hidden: int, out: int, last: float) -> nn.Sequential:
    """Make weights orthogonal, so that trainings differ less (L. Engstrom and others, arXiv:2005.12729)."""
    layers = [nn.Linear(into, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, out)]
    for layer, gain in zip(layers, (2**0.5, 2**0.5, last), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
