"""Models that learn one column of a table from others, for modules: the rows, and one format of the model.

`from diel import tabular` in a module's file. It needs numpy alone; any library may train the model.
"""

from __future__ import annotations

from diel.tabular.model import ACTIVATIONS, Ensemble, Layers, Lstm, Model, Pairs, Scale, mean_and_spread
from diel.tabular.table import Floats, Table

__all__ = [
    "ACTIVATIONS",
    "Ensemble",
    "Floats",
    "Layers",
    "Lstm",
    "Model",
    "Pairs",
    "Scale",
    "Table",
    "mean_and_spread",
]
