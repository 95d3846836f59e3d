"""The Kuramoto–Sivashinsky equation with actuators: a chaotic flow in one dimension, to be brought to rest.

∂u/∂t = −u ∂u/∂x − ∂²u/∂x² − ∂⁴u/∂x⁴ + f(x, t) on a ring of length 22, where it is chaotic (P. Cvitanović,
R. L. Davidchack, E. Siminos, SIAM J. Appl. Dyn. Syst. 9, 1 (2010)). f is a sum of four bumps whose strengths
are the actions; eight sensors show u, as in M. A. Bucci and others, Proc. R. Soc. A 475, 20190351 (2019).
u = 0 is a solution, and without forcing an unstable one. Gymnasium makes the environment by the name
`kuramoto_sivashinsky:KuramotoSivashinsky-v0`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import register, spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LENGTH, POINTS = 22.0, 32
STEP, STEPS = 0.1, 5
"""Of the solver, in units of time, and how many of them an action holds for."""
ACTUATORS, SENSORS, WIDTH = 4, 8, 1.6
"""WIDTH: bumps are exp(−d²/2w²) of the distance, less their mean, which would move the flow as a whole."""
STRENGTH = 1.0
"""Of the bump at the largest action, ±1."""
TRANSIENT, LIMIT = 200.0, 200
"""Units of time before an episode, from noise to the attractor; actions in an episode."""


class Solver:
    """Steps of many flows at once, by Fourier modes and an exponential Runge–Kutta scheme of second order
    (S. M. Cox and P. C. Matthews, J. Comput. Phys. 176, 430 (2002), eq. 22)."""

    def __init__(self) -> None:
        wave = 2 * np.pi / LENGTH * np.arange(POINTS // 2 + 1)
        growth = STEP * (wave**2 - wave**4)
        around = growth[:, None] + np.exp(2j * np.pi * (np.arange(32) + 0.5) / 32)  # without 0/0, by a circle
        self.whole = np.exp(growth)
        self.first = STEP * np.mean((np.exp(around) - 1) / around, axis=1).real
        self.second = STEP * np.mean((np.exp(around) - 1 - around) / around**2, axis=1).real
        self.slope = -0.5j * wave * (np.arange(len(wave)) <= POINTS // 3)  # no aliases of squares
        places = LENGTH * np.arange(POINTS) / POINTS
        apart = places - LENGTH * np.arange(ACTUATORS)[:, None] / ACTUATORS
        apart = (apart + LENGTH / 2) % LENGTH - LENGTH / 2
        bumps = np.exp(-(apart**2) / (2 * WIDTH**2))
        self.bumps = np.fft.rfft(bumps - bumps.mean(axis=1, keepdims=True))

    def __call__(self, flow: Floats, actions: Floats, steps: int = STEPS) -> Floats:
        """Take steps of flows, shape (flows, POINTS); actions: (flows, ACTUATORS), in [−1, 1]."""
        modes, force = np.fft.rfft(flow), STRENGTH * actions @ self.bumps
        for _ in range(steps):
            now = self._change(modes) + force
            guess = self.whole * modes + self.first * now
            modes = guess + self.second * (self._change(guess) + force - now)
        return np.asarray(np.fft.irfft(modes, POINTS))

    def _change(self, modes: Any) -> Any:
        """Return −u ∂u/∂x."""
        return self.slope * np.fft.rfft(np.fft.irfft(modes, POINTS) ** 2)


class KuramotoSivashinsky(VectorEnv):  # type: ignore[misc]  # without Gymnasium's types
    """Flows that begin on the attractor. The reward of a step is −⟨u²⟩: without forcing −1.4 on average."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, *, num_envs: int = 1, max_episode_steps: int = LIMIT, **_: Any) -> None:
        self.num_envs, self.limit = num_envs, max_episode_steps
        self.single_action_space = spaces.Box(-1.0, 1.0, (ACTUATORS,), np.float32)
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (SENSORS,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.solve = Solver()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        noise = self.np_random.normal(size=(self.num_envs, POINTS))
        rest = np.zeros((self.num_envs, ACTUATORS))
        flows = self.solve(noise - noise.mean(axis=1, keepdims=True), rest, round(TRANSIENT / STEP))
        self.attractor = flows
        self.flow, self.steps, self.ended = flows.copy(), 0, False
        return self._observation(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        none = np.zeros(self.num_envs, bool)
        if self.ended:  # Gymnasium's rule: the step after the last one only begins anew
            self.flow, self.steps, self.ended = self._drawn(), 0, False
            return self._observation(), np.zeros(self.num_envs), none, none, {}
        self.flow = self.solve(self.flow, np.clip(actions, -1.0, 1.0))
        self.steps += 1
        self.ended = self.steps >= self.limit
        return self._observation(), -np.mean(self.flow**2, axis=1), none, none | self.ended, {}

    def _observation(self) -> Any:
        return self.flow[:, :: POINTS // SENSORS].astype(np.float32)

    def _drawn(self) -> Floats:
        """Draw states of the attractor, moved along the ring, half of them mirrored: −u(−x) solves too."""
        chosen = self.attractor[self.np_random.integers(len(self.attractor), size=self.num_envs)]
        moved = (np.arange(POINTS) + self.np_random.integers(POINTS, size=(self.num_envs, 1))) % POINTS
        drawn: Floats = np.take_along_axis(chosen, moved, axis=1)
        mirrored = self.np_random.random((self.num_envs, 1)) < 0.5
        return np.where(mirrored, -drawn[:, ::-1], drawn)


register("KuramotoSivashinsky-v0", vector_entry_point=KuramotoSivashinsky, max_episode_steps=LIMIT)
