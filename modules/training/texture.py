"""A generator of textures that learns the odds of a site from the sites around it: a Markov random field.

G. R. Cross and A. K. Jain, IEEE Trans. Pattern Anal. Mach. Intell. 5, 25 (1983). A network gives the odds of
a site's two values from its 24 neighbours; it is trained by the pseudo-likelihood (J. Besag, The Statistician
24, 179 (1975)), for which each site of each image is a sample, so that few images are enough; and sampled by
Gibbs' method. Textures are supposed to be the same in all directions, and periodic.
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

import diel
from diel import pytorch

RADIUS = 2
"""Of the neighbourhood, in sites along each axis: sites RADIUS + 1 apart do not know each other."""


class Texture(TypedDict):
    """Images that nobody made before."""

    images: NDArray[np.int8]
    """+1 or −1, shape (count, height, width)."""
    loss: float
    """In nats a site, for sites of the real images."""


@diel.module(kind="training")
def texture(
    images: NDArray[Any],
    count: Annotated[int, Field(ge=1)] = 200,
    hidden: Annotated[int, Field(ge=1, le=4096)] = 16,
    steps: Annotated[int, Field(ge=1)] = 200,
    learning_rate: Annotated[float, Field(gt=0)] = 0.02,
    sweeps: Annotated[int, Field(ge=1)] = 60,
    seed: Annotated[int, Field(ge=0, lt=4294967296)] = 0,
) -> Texture:
    """Learn the texture of a few images, and make many.

    images: +1 or −1, shape (images, height, width); sides that 3 divides
    count: images to make
    hidden: units of the network
    steps: of Adam, each on all sites
    learning_rate: of Adam, at first; it falls along half a cosine
    sweeps: of Gibbs' method over all sites, from chance
    seed: of the first weights, and of what is drawn

    Raise ValueError for images of another shape or with other values.
    """
    apart = RADIUS + 1
    if images.ndim != 3 or any(side % apart for side in images.shape[1:]) or (abs(images) != 1).any():
        raise ValueError(f"expected images of ±1 with sides that {apart} divides; found {images.shape}")
    with pytorch.reproducible(), pytorch.seeded(seed):
        real = torch.as_tensor(images, dtype=torch.float32)
        means = kernel()
        network = nn.Sequential(nn.Linear(len(means), hidden), nn.Tanh(), nn.Linear(hidden, 1))
        descent = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)
        falls = torch.optim.lr_scheduler.CosineAnnealingLR(descent, steps)
        surroundings, loss = around(real, means), torch.tensor(0.0)
        for _ in range(steps):
            loss = nn.functional.softplus(-real * odds(network, surroundings)).mean()
            descent.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            descent.step()
            falls.step()
        samples = torch.randint(0, 2, (count, *real.shape[1:])).float() * 2 - 1
        with torch.no_grad():
            for _, down, along in product(range(sweeps), range(apart), range(apart)):
                # draw each site anew from what is around it, a ninth of the sites at once
                chance = odds(network, around(samples, means, down, along, apart)).sigmoid()
                samples[:, down::apart, along::apart] = (torch.rand(chance.shape) < chance).float() * 2 - 1
    return {"images": samples.numpy().astype(np.int8), "loss": loss.item()}


def kernel() -> torch.Tensor:
    """Return means over neighbours at one distance in all directions: shape (distances, 1, side, side)."""
    places = torch.arange(-RADIUS, RADIUS + 1)
    squares = places[:, None] ** 2 + places[None, :] ** 2
    distances = sorted(set(squares.flatten().tolist()) - {0})
    rings = torch.stack([squares == square for square in distances]).float()
    return (rings / rings.sum(dim=(1, 2), keepdim=True))[:, None]


def around(
    images: torch.Tensor, means: torch.Tensor, down: int = 0, along: int = 0, every: int = 1
) -> torch.Tensor:
    """Return the surroundings of sites from (down, along) on: shape (images, rows, columns, distances)."""
    wider = nn.functional.pad(images[:, None], (RADIUS,) * 4, mode="circular")
    return nn.functional.conv2d(wider[:, :, down:, along:], means, stride=every).movedim(1, -1)


def odds(network: nn.Module, surroundings: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of a site's odds to be +1: odd, as +1 and −1 are alike but for their names."""
    log_odds: torch.Tensor = (network(surroundings) - network(-surroundings))[..., 0]
    return log_odds
