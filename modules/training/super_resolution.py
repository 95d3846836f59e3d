"""A convolutional network that restores periodic fields from means over blocks, and keeps these means.

Residual blocks on the coarse grid, then a rearrangement of channels to points (W. Shi et al.,
arXiv:1609.05158), are added to a bicubic interpolation. At last each block is shifted so that its
mean is the stored one: whatever the network says, means of the restored field are as far from the
true ones as stored ones are, by the bound at most.

training.super_resolution            learns from fields and what is stored of them
training.super_resolution:restore    restores further fields, by the network or without one
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch.nn import functional

import diel
from diel import pytorch

Way = Literal["network", "bicubic", "bicubic_kept", "spectral"]


class SuperResolution(TypedDict):
    """The best epoch: the one with the smallest validation loss."""

    model: Path
    """Weights, as torch.save writes them."""
    validation_loss: float
    """Mean squared error of states held out, by the variance of the fields."""
    bytes: int
    """Of the weights."""


class Restoration(TypedDict):
    """Fine fields."""

    fields: Path
    """.npy, float64, shape (states, rows, columns)."""


class Finer(torch.nn.Module):
    """Fields of shape (rows, fine, fine) from means of shape (rows, coarse, coarse)."""

    def __init__(self, factor: int, width: int, blocks: int, scale: float) -> None:
        super().__init__()
        self.factor = factor
        self.scale: torch.Tensor
        self.register_buffer("scale", torch.tensor(scale))
        self.begin = _convolution(1, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.SiLU(), _convolution(width, width), torch.nn.SiLU(), _convolution(width, width)
            )
            for _ in range(blocks)
        )
        self.end = torch.nn.Sequential(torch.nn.SiLU(), _convolution(width, factor**2))

    def forward(self, means: torch.Tensor) -> torch.Tensor:
        state = self.begin(means[:, None] / self.scale)
        for block in self.blocks:
            state = state + block(state)
        added = functional.pixel_shuffle(self.end(state), self.factor)[:, 0] * self.scale
        return keep(added + bicubic(means, self.factor), means)


@diel.module(kind="training")
def super_resolution(
    fields: list[Path],
    stored: list[Path],
    context: diel.Context,
    width: Annotated[int, Field(ge=1, le=1024)] = 32,
    blocks: Annotated[int, Field(ge=1, le=64)] = 3,
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.003,
    batch: Annotated[int, Field(ge=1)] = 10,
    epochs: Annotated[int, Field(ge=1)] = 8,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> SuperResolution:
    """Train with PyTorch, on each state in eight attitudes, with a rate that falls along half a cosine.

    fields: .npy of shape (states, rows, columns), of vorticity: a mirror changes its sign
    stored: what `analysis.coarsened` made of each
    width: channels
    blocks: of two convolutions each
    learning_rate: of the first epoch
    batch: states in a gradient step
    epochs: passes over the states and their attitudes
    seed: of the first weights, the states held out (a tenth, which choose the epoch) and the order

    With `checkpoint: true` a task that is interrupted or killed goes on from its last checkpoint.
    """
    read = [_read(path) for path in stored]
    factor = read[0][1]
    fine = torch.from_numpy(np.concatenate([np.load(path) for path in fields])).float()
    means = torch.from_numpy(np.concatenate([array for array, _ in read])).float()
    with pytorch.reproducible():
        learned, held = (
            pytorch.Rows(_attitudes(means[part]), _attitudes(fine[part]))
            for part in pytorch.split(len(fine), 0.1, seed)
        )
        scale = float(fine.std())
        with pytorch.seeded(seed):
            network = Finer(factor, width, blocks, scale)
        cpu = torch.device("cpu")
        settings = pytorch.Settings(learning_rate, epochs, batch, cpu, schedule="cosine", seed=seed)
        trained = pytorch.train(
            network, learned, held, lambda a, b: ((a - b) / scale).square().mean(), settings, context
        )
    path = context.task_dir / "model.pt"
    torch.save({"shape": (factor, width, blocks, scale), "weights": network.state_dict()}, path)
    return {"model": path, "validation_loss": trained.best.validation_loss, "bytes": path.stat().st_size}


@diel.module(kind="inference")
def restore(model: Path, stored: Path, context: diel.Context, by: Way = "network") -> Restoration:
    """Restore fields from their stored means.

    model: of `training.super_resolution`
    stored: of `analysis.coarsened`
    by: the network; bicubic interpolation (R. G. Keys, IEEE Trans. Acoust. 29, 1153 (1981), a = −3/4), also
        with means that are kept; or the waves that the coarse grid carries, each divided by what a mean
        leaves of it
    """
    means, factor = _read(stored)
    if by == "spectral":
        restored = spectral(means, factor)
    else:
        coarse = torch.from_numpy(means)
        with pytorch.reproducible(), torch.no_grad():
            if by == "network":
                saved = torch.load(model, weights_only=True)
                network = Finer(*saved["shape"])
                network.load_state_dict(saved["weights"])
                coarse_fields = network(coarse.float()).double()
            else:
                coarse_fields = bicubic(coarse, factor)
            if by != "bicubic":
                coarse_fields = keep(coarse_fields, coarse)  # in double precision
        restored = coarse_fields.numpy()
    path = context.task_dir / "fields.npy"
    np.save(path, restored)
    return {"fields": path}


def bicubic(means: torch.Tensor, factor: int) -> torch.Tensor:
    """Interpolate between the middles of blocks."""
    padded = functional.pad(means[:, None], (2, 2, 2, 2), mode="circular")
    fine = functional.interpolate(padded, scale_factor=factor, mode="bicubic", align_corners=False)
    edge = 2 * factor
    return fine[:, 0, edge:-edge, edge:-edge]


def keep(fine: torch.Tensor, means: torch.Tensor) -> torch.Tensor:
    """Return the nearest field, by squares, whose means over blocks are these."""
    factor = fine.shape[-1] // means.shape[-1]
    off = means - functional.avg_pool2d(fine[:, None], factor)[:, 0]
    return fine + off.repeat_interleave(factor, dim=1).repeat_interleave(factor, dim=2)


def spectral(means: NDArray[Any], factor: int) -> NDArray[np.float64]:
    """Return the trigonometric series with these means over blocks, without the coarse grid's last wave."""
    size = means.shape[-1] * factor
    wave = np.fft.fftfreq(size, 1 / size)
    inside = np.abs(wave) < means.shape[-1] / 2
    shifts = np.exp(-2j * np.pi * np.outer(wave[inside], np.arange(factor)) / size)
    damping = np.conj(shifts).mean(axis=1)  # of a wave, in the mean over the block that begins where it does
    coarse = np.fft.fft2(means) * factor**2
    coarse_waves = np.fft.fftfreq(means.shape[-1], 1 / means.shape[-1])
    carried = np.flatnonzero(np.abs(coarse_waves) < means.shape[-1] / 2)
    fine = np.zeros((len(means), size, size), complex)
    places = np.flatnonzero(inside)
    fine[:, places[:, None], places] = coarse[:, carried[:, None], carried] / np.outer(damping, damping)
    return np.fft.ifft2(fine).real


def _read(path: Path) -> tuple[NDArray[np.float64], int]:
    """Return the means and the factor."""
    with np.load(path) as file:
        return file["places"] * (2 * float(file["bound"])), int(file["factor"])


def _attitudes(fields: torch.Tensor) -> torch.Tensor:
    """Turn and mirror fields, which changes the vorticity's sign: eight times as many."""
    variants = [fields, -fields.transpose(1, 2)]
    variants += [-variant.flip(1) for variant in variants]
    return torch.cat(variants + [-variant.flip(2) for variant in variants])


def _convolution(inputs: int, outputs: int) -> torch.nn.Conv2d:
    return torch.nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="circular")
