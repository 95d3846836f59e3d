"""The flow that is to be brought to rest."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="diel[reinforcement] is not installed")

from modules.simulation import kuramoto_sivashinsky as flow


def test_small_waves_grow_and_decay_at_the_rates_of_the_linear_equation() -> None:
    solve, none = flow.Solver(), np.zeros((1, flow.ACTUATORS))
    places = 2 * np.pi * np.arange(flow.POINTS) / flow.POINTS
    for number in (1, 2, 3, 4):
        wave = 2 * np.pi * number / flow.LENGTH
        before = 1e-6 * np.cos(number * places)[None]
        after = solve(before, none, 20)
        time = 20 * flow.STEP
        assert after == pytest.approx(np.exp((wave**2 - wave**4) * time) * before, abs=1e-11)


def test_energy_changes_by_what_waves_feed_on_and_what_they_lose() -> None:
    # d⟨u²⟩/dt = 2(⟨uₓ²⟩ − ⟨uₓₓ²⟩): the nonlinear term only moves energy between waves
    places = 2 * np.pi * np.arange(flow.POINTS) / flow.POINTS
    before = (np.cos(2 * places) + 0.5 * np.sin(3 * places + 1))[None]
    wave = 2 * np.pi * np.fft.rfftfreq(flow.POINTS, 1 / flow.POINTS) / flow.LENGTH
    slope, bend = (np.fft.irfft(factor * np.fft.rfft(before)) for factor in (1j * wave, -(wave**2)))
    expected = 2 * (np.mean(slope**2) - np.mean(bend**2))
    solve = flow.Solver()
    after = solve(before, np.zeros((1, flow.ACTUATORS)), 1)
    assert (np.mean(after**2) - np.mean(before**2)) / flow.STEP == pytest.approx(expected, rel=0.05)


def test_without_forcing_it_stays_chaotic_and_episodes_begin_anew() -> None:
    world = flow.KuramotoSivashinsky(num_envs=8, max_episode_steps=40)
    observations, _ = world.reset(seed=3)
    assert observations.shape == (8, flow.SENSORS)
    rest, rewards = np.zeros((8, flow.ACTUATORS), np.float32), []
    for step in range(1, 41):
        _, reward, terminated, truncated, _ = world.step(rest)
        rewards.append(reward)
        assert not terminated.any()
        assert truncated.all() == (step == 40)
    assert -1.7 < np.mean(rewards) < -1.1  # 1.39 over 20,000 units of time
    before = world.flow
    _, reward, _, truncated, _ = world.step(rest)
    assert not reward.any()
    assert not truncated.any()
    assert np.abs(world.flow - before).max() > 0.1
