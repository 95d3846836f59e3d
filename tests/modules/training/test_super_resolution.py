"""Whatever restores a field keeps its stored means, and waves that a coarse grid carries come back exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import diel

pytest.importorskip("torch", reason="diel[torch] is not installed")
import torch

from modules.analysis.coarsened import coarsened
from modules.analysis.restored import means
from modules.training.super_resolution import _attitudes, keep, restore, spectral, super_resolution

PLACES = np.arange(32) * 2 * np.pi / 32
WAVES = np.stack([np.cos(2 * PLACES + n)[:, None] * np.sin(3 * PLACES - n) for n in range(10)])


def test_waves_that_the_coarse_grid_carries_are_restored_from_their_means() -> None:
    assert spectral(means(WAVES, 4), 4) == pytest.approx(WAVES, abs=1e-12)


def test_a_field_is_shifted_to_its_stored_means_and_no_further() -> None:
    fine, coarse = torch.randn(2, 8, 8).double(), torch.randn(2, 2, 2).double()
    shifted = keep(fine, coarse)
    assert means(shifted.numpy(), 4) == pytest.approx(coarse.numpy(), abs=1e-12)
    assert torch.allclose(keep(shifted, coarse), shifted)


def test_eight_attitudes_of_a_state_all_differ() -> None:
    fields = _attitudes(torch.randn(1, 4, 4))
    assert len({tuple(field.flatten().tolist()) for field in fields}) == 8


def test_a_network_keeps_the_bound_though_it_hardly_learned(tmp_path: Path, context: diel.Context) -> None:
    np.save(tmp_path / "fine.npy", WAVES.astype(np.float32))
    stored = coarsened(tmp_path / "fine.npy", 0.02, context)["stored"]
    model = super_resolution([tmp_path / "fine.npy"], [stored], context, width=4, blocks=1, epochs=1)["model"]
    fields = np.load(restore(model, stored, context)["fields"])
    assert np.abs(means(fields, 4) - means(WAVES, 4)).max() <= 0.02 + 1e-7
    bicubic = np.load(restore(model, stored, context, by="bicubic")["fields"])
    assert np.abs(means(bicubic, 4) - means(WAVES, 4)).max() > 0.02
