"""Training on PyTorch for modules: exact resume, reports for a pruner, precision, reproducible numbers.

`from diel import pytorch` in a module's file. It needs the extra `torch`; nothing else of diel imports it.
"""

from __future__ import annotations

from diel.pytorch.place import find_device, reproducible, seeded
from diel.pytorch.progress import HISTORY, Best, Progress
from diel.pytorch.rows import Rows, r2, split
from diel.pytorch.settings import Settings
from diel.pytorch.training import Loss, Trained, outputs, train

__all__ = [
    "HISTORY",
    "Best",
    "Loss",
    "Progress",
    "Rows",
    "Settings",
    "Trained",
    "find_device",
    "outputs",
    "r2",
    "reproducible",
    "seeded",
    "split",
    "train",
]
