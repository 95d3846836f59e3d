"""Models that learn one column of a table from others, for modules: the rows, and one format of the model.

`from diel import tabular` in a module's file. It needs numpy alone; any library may train the model.
"""

from __future__ import annotations

from diel.tabular.activation import ACTIVATIONS
from diel.tabular.arrays import Floats, Layers
from diel.tabular.ensemble import Ensemble, mean_and_spread
from diel.tabular.model import Model
from diel.tabular.scale import Scale
from diel.tabular.table import Table

__all__ = ["ACTIVATIONS", "Ensemble", "Floats", "Layers", "Model", "Scale", "Table", "mean_and_spread"]
