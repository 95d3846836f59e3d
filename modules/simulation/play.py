"""Actors that play for a learner, which sends them its policy; and a judge of that policy.

simulation.play         feeds a learner beside it by a stream; gets weights back by the tuple space
simulation.play:judge   plays whole episodes without chance, and others without a policy

An environment is any that Gymnasium knows (M. Towers and others, arXiv:2407.17032), by its name, or by
`FILE:NAME` for one that a file beside this one registers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import gymnasium
import numpy as np
from numpy.typing import NDArray

import diel

if TYPE_CHECKING:  # diel reads annotations as text
    from pydantic import Field

PATIENCE = 300.0
"""Seconds to wait for weights."""


class Game(TypedDict):
    """What an actor did."""

    steps: int
    """Of all its environments together."""
    waited: float
    """Seconds for which it waited for weights."""
    took: float
    """Seconds in all."""


class Judgement(TypedDict):
    """Episodes by the policy, and as many from the same beginnings without one."""

    score: float
    """Mean sum of an episode's rewards."""
    score_without: float
    late: float
    """Mean reward of a step in the second half of the longest possible episode."""
    late_without: float
    least: float
    """The lowest sum of an episode's rewards."""


class Policy:
    """A perceptron with two hidden layers of tanh: actions from observations.

    weights: `weight0`, `bias0`, … of its three layers; with `spread` (the logarithm of the deviation of each
    action) actions are numbers that scatter around the last layer, else there is one unit for each choice.
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self.layers = [(weights[f"weight{n}"].T, weights[f"bias{n}"]) for n in range(3)]
        self.spread = weights.get("spread")

    def best(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Return the best actions, without chance."""
        out = self._out(observations)
        return out.argmax(axis=1) if self.spread is None else out

    def draw(self, observations: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return actions by chance, and the logarithm of the probability (density) of each."""
        out = self._out(observations)
        if self.spread is None:
            logs = out - np.logaddexp.reduce(out, axis=1, keepdims=True)
            actions = (logs + rng.gumbel(size=logs.shape)).argmax(axis=1)
            return actions, np.take_along_axis(logs, actions[:, None], axis=1)[:, 0]
        noise = rng.normal(size=out.shape)
        logs = -0.5 * noise**2 - self.spread - 0.5 * np.log(2 * np.pi)
        return out + np.exp(self.spread) * noise, logs.sum(axis=1)

    def _out(self, observations: NDArray[Any]) -> NDArray[Any]:
        (w1, b1), (w2, b2), (w3, b3) = self.layers
        return np.asarray(np.tanh(np.tanh(observations @ w1 + b1) @ w2 + b2) @ w3 + b3)


@diel.module(kind="simulation")
def play(
    context: diel.Context,
    environment: str,
    learner: str,
    batches: Annotated[int, Field(ge=1)],
    steps: Annotated[int, Field(ge=1)] = 32,
    environments: Annotated[int, Field(ge=1)] = 16,
    lag: Annotated[int, Field(ge=0)] = 1,
    actor: Annotated[int, Field(ge=0)] = 0,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Game:
    """Play batches of steps, and put them into the stream `experience` for a learner.

    environment: Gymnasium's name of it
    learner: begins the keys of weights in the tuple space; give each learner its own
    batches: to play
    steps: of each environment in a batch
    environments: played side by side
    lag: a batch is played with the policy that has learned from all batches but the `lag` before it: with 0,
        actors and learner wait for each other; from 1 on they work at the same time, and the result does not
        depend on which is faster (S. Huang and others, arXiv:2310.00036)
    actor: which one of several
    seed: with it and `actor`, what is drawn is the same

    An item is {number, actor, version, seen, actions, logs, rewards, terminated, ended, valid}: arrays of
    shape (steps, environments, …), `seen` with one more step. After an episode's last step an environment
    begins anew in a step that is not `valid`. Raise TimeoutError where weights do not come, and ValueError
    where what is seen is no vector, or actions are neither choices nor a vector.
    """
    rng, began, waited = np.random.default_rng((seed, actor)), time.perf_counter(), 0.0
    world = gymnasium.make_vec(environment, num_envs=environments)
    observations, _ = world.reset(seed=int(rng.integers(2**31)))
    ended = np.zeros(environments, bool)
    if actor == 0:
        context.space.put((learner, "spaces"), _spaces(world))
    for number in range(batches):
        version, since = max(0, number - lag), time.perf_counter()
        policy = Policy(context.space.read((learner, version), PATIENCE)[1])
        waited += time.perf_counter() - since
        rows = []
        for _ in range(steps):
            actions, logs = policy.draw(observations, rng)
            after, rewards, terminated, truncated, _ = world.step(actions)
            rows.append((observations, actions, logs, rewards, terminated, terminated | truncated, ~ended))
            observations, ended = after, terminated | truncated
        names = ("seen", "actions", "logs", "rewards", "terminated", "ended", "valid")
        item = {name: np.stack(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
        item["seen"] = np.concatenate([item["seen"], observations[None]])
        context.stream("experience").put({"number": number, "actor": actor, "version": version, **item})
    took = time.perf_counter() - began
    return {"steps": batches * steps * environments, "waited": waited, "took": took}


@diel.module(kind="simulation")
def judge(
    environment: str,
    model: Path,
    episodes: Annotated[int, Field(ge=1)] = 100,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Judgement:
    """Play episodes side by side by a policy's best actions, and again without a policy.

    environment: as of `simulation.play`
    model: weights as .npz
    episodes, seed: of each; the beginnings are the same for both

    Without a policy choices are by chance, and actions that are numbers are 0.
    """
    with np.load(model) as file:
        policy = Policy(dict(file))
    ours, late = _episodes(environment, policy, episodes, seed)
    baseline, late_without = _episodes(environment, None, episodes, seed)
    least = ours.min()
    sys.stdout.write(f"{ours.mean():.4g} ({least:.4g} at least); without a policy {baseline.mean():.4g}\n")
    return {
        "score": float(ours.mean()),
        "score_without": float(baseline.mean()),
        "late": late,
        "late_without": late_without,
        "least": float(least),
    }


def _spaces(world: Any) -> dict[str, Any]:
    """Return how many numbers are seen, how many choices or, with `numbers`, numbers an action has."""
    view, acts = world.single_observation_space, world.single_action_space
    numbers = isinstance(acts, gymnasium.spaces.Box)
    one_row = len(view.shape or ()) == 1 and (not numbers or len(acts.shape) == 1)
    if not one_row or not (numbers or isinstance(acts, gymnasium.spaces.Discrete)):
        raise ValueError(f"expected a vector to see, and choices or a vector to do; found {view} and {acts}")
    return {"seen": view.shape[0], "actions": int(acts.shape[0] if numbers else acts.n), "numbers": numbers}


def _episodes(environment: str, policy: Policy | None, count: int, seed: int) -> tuple[NDArray[Any], float]:
    """Return the sum of rewards of each environment's first episode, and its late steps' mean reward."""
    world = gymnasium.make_vec(environment, num_envs=count)
    world.action_space.seed(seed)
    observations, _ = world.reset(seed=seed)
    goes_on, rewards = np.ones(count, bool), []
    while goes_on.any():
        if policy is not None:
            actions = policy.best(observations)
        elif isinstance(world.single_action_space, gymnasium.spaces.Box):
            actions = np.zeros(world.action_space.shape, np.float32)
        else:
            actions = world.action_space.sample()
        observations, reward, terminated, truncated, _ = world.step(actions)
        rewards.append(np.where(goes_on, reward, 0.0))
        goes_on &= ~(terminated | truncated)
    limit = world.spec.max_episode_steps or len(rewards)
    late = np.array(rewards)[limit // 2 :]
    return np.sum(rewards, axis=0), float(late.sum() / (count * (limit - limit // 2)))
