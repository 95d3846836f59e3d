"""A perceptron as plain arrays: trained by any library, read and evaluated by numpy alone.

The file is an `.npz` with the names of `features` and `target`, the `activation`, `feature_mean` and
`feature_scale` of shape (features,), the numbers `target_mean` and `target_scale`, and for each layer, from
the first, `weight_0` of shape (in, out) and `bias_0` of shape (out,), `weight_1`, ….
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import DTypeLike

from diel.errors import counted
from diel.tabular.activation import ACTIVATIONS
from diel.tabular.arrays import Floats, Layers
from diel.tabular.scale import Scale


@dataclass(frozen=True)
class Model:
    """Standardises features, applies its layers, and gives back the target's own units."""

    features: tuple[str, ...]
    """The columns that it reads, in the order of a row."""
    target: str
    """The column that it predicts; `prediction` where its file does not say."""
    activation: str
    """Of the hidden layers: a name in `ACTIVATIONS`."""
    scale: Scale
    layers: Layers

    @classmethod
    def load(cls, path: Path, precision: DTypeLike = np.float32) -> Model:
        """The model in a file. Raises ValueError where it is none, OSError where it cannot be opened.

        precision: of the weights, and so of `predict`. Single precision halves the time, and its 1e-7 is
            far below any model's error.
        """
        try:
            # no pickle, so that reading a model runs no code
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = dict(file)
            model = cls(
                tuple(str(name) for name in arrays["features"]),
                str(arrays.get("target", "prediction")),
                str(arrays["activation"]),
                Scale(
                    arrays["feature_mean"],
                    arrays["feature_scale"],
                    float(arrays["target_mean"]),
                    float(arrays["target_scale"]),
                ),
                tuple(
                    (arrays[f"weight_{n}"].astype(precision), arrays[f"bias_{n}"].astype(precision))
                    for n in range(sum(name.startswith("weight_") for name in arrays))
                ),
            )
            model._check()
            return model
        except (KeyError, ValueError, TypeError, EOFError, BadZipFile, zlib.error) as error:
            raise ValueError(
                f"{path.name} is no model of training.mlp or training.torch_mlp ({error})"
            ) from error

    def _check(self) -> None:
        """Raises ValueError where it could predict nothing."""
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation '{self.activation}'")
        if not self.layers:
            raise ValueError("it has no layers")
        wide = len(self.features)
        if not self.scale.feature_mean.shape == self.scale.feature_scale.shape == (wide,):
            raise ValueError(f"expected the mean and the scale of {wide} features")
        for number, (weight, bias) in enumerate(self.layers):
            if weight.ndim != 2 or len(weight) != wide or bias.shape != weight.shape[1:]:
                shapes = f"weights of shape {weight.shape} and biases of shape {bias.shape}"
                raise ValueError(f"layer {number} has {shapes}, and gets {counted(wide, 'value')}")
            if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
                raise ValueError(f"layer {number} holds what is no finite number")
            wide = weight.shape[1]
        if wide != 1:
            raise ValueError(f"its last layer gives {wide} values for a row, and not one")

    def save(self, path: Path) -> Path:
        """Writes the model, its weights in the precision that they have; the path again."""
        arrays: dict[str, Any] = {
            "features": np.array(self.features),
            "target": np.array(self.target),
            "activation": np.array(self.activation),
            "feature_mean": self.scale.feature_mean,
            "feature_scale": self.scale.feature_scale,
            "target_mean": np.array(self.scale.target_mean),
            "target_scale": np.array(self.scale.target_scale),
        }
        for number, (weight, bias) in enumerate(self.layers):
            arrays[f"weight_{number}"] = weight
            arrays[f"bias_{number}"] = bias
        np.savez(path, **arrays)
        return path

    def rows(self, columns: Mapping[str, Sequence[float]]) -> Floats:
        """Rows of shape (rows, features) from lists of equal length by name; others are passed over.

        Raises ValueError where a feature is missing or the lists differ in length.
        """
        missing = [name for name in self.features if name not in columns]
        if missing:
            raise ValueError(
                f"the model needs the column '{missing[0]}'; found {', '.join(columns) or 'none'}"
            )
        lists = [columns[name] for name in self.features]
        if len({len(values) for values in lists}) != 1:
            raise ValueError(
                f"the columns differ in length: {', '.join(str(len(values)) for values in lists)}"
            )
        return np.array(lists, dtype=float).T

    def predict(self, rows: Floats, batch: int | None = None) -> Floats:
        """Predictions of shape (rows,), float64, for rows of shape (rows, features).

        batch: rows evaluated at a time, which bounds the memory; all at once where absent
        """
        if batch is None or len(rows) <= batch:
            return self._evaluate(rows)
        starts = range(0, len(rows), batch)
        return np.concatenate([self._evaluate(rows[start : start + batch]) for start in starts])

    def _evaluate(self, rows: Floats) -> Floats:
        activation = ACTIVATIONS[self.activation]
        weight, bias = self.layers[-1]
        values: Floats = self.scale.features(rows).astype(weight.dtype)
        for inner, offset in self.layers[:-1]:
            values = activation(values @ inner + offset)
        return self.scale.own_units((values @ weight + bias)[:, 0].astype(np.float64))
