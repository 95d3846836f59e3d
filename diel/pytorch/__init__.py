"""Training on PyTorch for modules: exact resume, reports for a pruner, precision, reproducible numbers.

`from diel import pytorch` in a module's file. It needs the extra `torch`; nothing else of diel imports it.
"""

from __future__ import annotations

from diel.pytorch.training import (
    HISTORY,
    Best,
    Loss,
    Progress,
    Rows,
    Settings,
    Trained,
    classes,
    find_device,
    outputs,
    r2,
    reproducible,
    seeded,
    split,
    train,
)

__all__ = [
    "HISTORY",
    "Best",
    "Loss",
    "Progress",
    "Rows",
    "Settings",
    "Trained",
    "classes",
    "find_device",
    "outputs",
    "r2",
    "reproducible",
    "seeded",
    "split",
    "train",
]
