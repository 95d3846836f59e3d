"""A classifier of micrographs with few real ones to learn from, and two aids: symmetries, synthetic ones."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

import diel
from diel import pytorch

Lattices = list[NDArray[Any]]
"""Of each class: +1 or −1, shape (images, height, width), the same everywhere; without edges."""


class Few(TypedDict):
    """Accuracy on images that the classifier never saw."""

    accuracy: float
    """Share of the test images whose class is found."""
    images: int
    """That it learned from."""


class Bound(TypedDict):
    """What no classifier can beat, but for the noise of two finite samples."""

    accuracy: float


@diel.module(kind="training")
def few(
    real: Lattices,
    synthetic: Lattices,
    test: Lattices,
    way: Literal["real", "symmetries", "synthetic", "both"] = "real",
    steps: Annotated[int, Field(ge=1)] = 300,
    batch: Annotated[int, Field(ge=2)] = 32,
    learning_rate: Annotated[float, Field(gt=0)] = 0.01,
    channels: Annotated[int, Field(ge=1, le=1024)] = 8,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> Few:
    """Train a convolutional network with normalised batches, by as many steps whatever it learns from.

    real, synthetic, test: images of each class, in one order
    way: `real` images only; each moved, turned, mirrored and inverted by chance (`symmetries`); `synthetic`
        images beside the real ones, half of each batch; or `both`
    steps: of Adam
    batch: images in a step
    learning_rate: at first; it falls along half a cosine
    channels: of the first of two convolutions; the second has twice as many
    seed: of the first weights, and of what is drawn
    """
    chance = np.random.default_rng(seed)
    sources = [_labelled(real)] + ([_labelled(synthetic)] if way in ("synthetic", "both") else [])
    with pytorch.reproducible(), pytorch.seeded(seed):
        network = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1, padding_mode="circular"),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1, padding_mode="circular"),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * channels, len(real)),
        )
        descent = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)
        falls = torch.optim.lr_scheduler.CosineAnnealingLR(descent, steps)
        for _ in range(steps):
            drawn = [chance.integers(len(names), size=batch // len(sources)) for _, names in sources]
            images = np.concatenate([array[at] for (array, _), at in zip(sources, drawn, strict=True)])
            names = np.concatenate([array[at] for (_, array), at in zip(sources, drawn, strict=True)])
            if way in ("symmetries", "both"):
                images = moved(images, chance)
            loss = nn.functional.cross_entropy(network(_tensor(images)), torch.as_tensor(names))
            descent.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            descent.step()
            falls.step()
        network.eval()
        images, names = _labelled(test)
        with torch.no_grad():
            predicted = network(_tensor(images)).argmax(dim=1).numpy()
    return {"accuracy": float(np.mean(predicted == names)), "images": sum(len(names) for _, names in sources)}


@diel.module(kind="analysis")
def bound(many: Lattices, test: Lattices) -> Bound:
    """Name test images by their energy of nearest neighbours: the best way for images of an Ising model.

    many: images of each class, from which the distribution of energies is known
    test: as of `training.few`

    The probability of a state depends on the temperature by its energy alone, which is therefore a sufficient
    statistic (R. A. Fisher, Phil. Trans. A 222, 309 (1922)). Its distributions are taken as normal ones.
    """
    samples = [_energy(sample) for sample in many]
    images, names = _labelled(test)
    off = [(_energy(images) - sample.mean()) / sample.std() for sample in samples]
    logs = [-0.5 * distance**2 - np.log(sample.std()) for distance, sample in zip(off, samples, strict=True)]
    return {"accuracy": float(np.mean(np.argmax(logs, axis=0) == names))}


def moved(images: NDArray[Any], chance: np.random.Generator) -> NDArray[Any]:
    """Return each image moved, turned, mirrored and inverted by chance: its class stays."""
    variants = []
    for image in images:
        shifted = np.roll(image, chance.integers(image.shape[0], size=2), (0, 1))
        turned = np.rot90(shifted, int(chance.integers(4)))
        variants.append((turned.T if chance.random() < 0.5 else turned) * chance.choice([-1, 1]))
    return np.stack(variants)


def _labelled(images: Lattices) -> tuple[NDArray[Any], NDArray[np.int64]]:
    return np.concatenate(images), np.repeat(np.arange(len(images)), [len(group) for group in images])


def _tensor(images: NDArray[Any]) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(images), dtype=torch.float32)[:, None]


def _energy(images: NDArray[Any]) -> NDArray[np.float64]:
    along = images * (np.roll(images, 1, axis=1) + np.roll(images, 1, axis=2))
    return np.asarray(-along.mean(axis=(1, 2), dtype=float))
