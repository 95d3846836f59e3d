"""Where and how PyTorch computes: device, threads, learning rate, and nothing left behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from diel import pytorch

CPU = torch.device("cpu")


def settings(**other: Any) -> pytorch.Settings:
    return pytorch.Settings(**{"learning_rate": 0.01, "epochs": 12, "batch": 8, "device": CPU, **other})


def test_a_cosine_falls_from_the_learning_rate_to_nearly_nothing() -> None:
    rates = [settings(schedule="cosine").rate(epoch) for epoch in range(12)]
    assert rates[0] == 0.01
    assert rates == sorted(rates, reverse=True)
    assert rates[6] == pytest.approx(0.005)
    assert 0 < rates[-1] < 0.0002
    assert settings().rate(11) == 0.01


@pytest.mark.parametrize(("said", "threads"), [("2", 2), ("3,1", 3), ("", 1), ("many", 1), ("0", 1)])
def test_it_computes_on_the_tasks_own_cores(said: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    with pytorch.reproducible():
        assert torch.get_num_threads() == threads


def test_a_gpu_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pytorch.find_device("auto") == CPU
    with pytest.raises(
        ValueError, match=r"device: cuda, .* sees no GPU here; .*gpus_per_rank: 1.*device: auto"
    ):
        pytorch.find_device("cuda")
