"""Training in PyTorch over MPI ranks: data, pipeline and tensor parallel, in any product.

`from diel.pytorch import parallel` in a module's file; `training.parallel` shows how the pieces fit.
"""

from __future__ import annotations

from diel.pytorch.parallel.feed import Feed, Samples, sharded, shuffled, tensor
from diel.pytorch.parallel.networks import build
from diel.pytorch.parallel.placed import Placed, Scaler, Ways, type_of
from diel.pytorch.parallel.training import train
from diel.pytorch.parallel.world import Mesh, Ranks, joined

__all__ = [
    "Feed",
    "Mesh",
    "Placed",
    "Ranks",
    "Samples",
    "Scaler",
    "Ways",
    "build",
    "joined",
    "sharded",
    "shuffled",
    "tensor",
    "train",
    "type_of",
]
