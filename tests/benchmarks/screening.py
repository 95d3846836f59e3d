"""A screen beside a bare loop of its model's arithmetic, at the same batch, in processor time."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import diel
from diel import tabular
from modules.inference.screen import screen

BATCH = 8192
STATES = 200 * BATCH


def network(wide: int, units: int) -> tabular.Model:
    """An untrained one of two hidden layers."""
    rng = np.random.default_rng(0)
    shapes = [(wide, units), (units, units), (units, 1)]
    layers = tuple((rng.normal(size=shape), rng.normal(size=shape[1])) for shape in shapes)
    scale = tabular.Scale(np.zeros(wide), np.ones(wide), 0.0, 1.0)
    return tabular.Model(tuple(f"x{n}" for n in range(wide)), "y", "tanh", scale, layers)


def screening(runs: int, show: Callable[[str, str, str], None]) -> None:
    """Pairs of both, by turns; set OMP_NUM_THREADS=1, for neither to use the other core."""
    with tempfile.TemporaryDirectory(prefix="diel-benchmark-") as made:
        context = diel.Context(task_dir=Path(made))
        for wide, units in ((2, 16), (2, 32), (6, 64)):
            path = network(wide, units).save(context.task_dir / f"{units}.npz")
            model, ranges = tabular.Model.load(path), {f"x{n}": [0.0, 1.0] for n in range(wide)}
            ready = np.random.default_rng(0).random((BATCH, wide))
            for method in ("uniform", "sobol", "grid"):
                shares, rates = [], []
                for _ in range(runs):
                    began = time.process_time()
                    for _ in range(STATES // BATCH):
                        model.predict(ready)
                    bare = (time.process_time() - began) / STATES
                    began = time.process_time()
                    found = screen(
                        path,
                        context,
                        ranges=ranges,
                        points=STATES,
                        method=method,
                        batch=BATCH,
                    )
                    rates.append(found["count"] / (time.process_time() - began))
                    shares.append(bare * rates[-1])
                what = f"{method}, {wide} features, 2 layers of {units}"
                figure = f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%}), "
                show(what, ">= 90 %", f"{figure}{statistics.median(rates) / 1e6:.1f} million states/s")
