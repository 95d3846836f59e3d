"""Standardising: what a network sees has mean 0 and variance 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diel.tabular.arrays import Floats
from diel.tabular.table import Table


@dataclass(frozen=True)
class Scale:
    """Means and deviations of a table's columns."""

    feature_mean: Floats
    """Of shape (features,), as `feature_scale`."""
    feature_scale: Floats
    target_mean: float
    target_scale: float

    @classmethod
    def of(cls, table: Table) -> Scale:
        """The scale on which the columns of the table have mean 0 and variance 1."""
        return cls(
            table.features.mean(axis=0),
            _deviation(table.features),
            float(table.target.mean()),
            float(_deviation(table.target)),
        )

    def features(self, rows: Floats) -> Floats:
        """Features of shape (rows, features), standardised."""
        scaled: Floats = (rows - self.feature_mean) / self.feature_scale
        return scaled

    def target(self, values: Floats) -> Floats:
        """Values of the target, standardised."""
        scaled: Floats = (values - self.target_mean) / self.target_scale
        return scaled

    def own_units(self, values: Floats) -> Floats:
        """What `target` made, in the target's units again."""
        restored: Floats = values * self.target_scale + self.target_mean
        return restored


def _deviation(values: Floats) -> Floats:
    spread = values.std(axis=0)
    return np.where(spread > 0, spread, 1.0)  # a constant column carries nothing, but does no harm
