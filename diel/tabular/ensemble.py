"""Models that learned the same: their mean is the prediction, their spread how far to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from diel.tabular.arrays import Floats
from diel.tabular.model import Model


@dataclass(frozen=True)
class Ensemble:
    """One model or several that predict the same column from the same features."""

    members: tuple[Model, ...]

    def __post_init__(self) -> None:
        """Raises ValueError where there is no member, or where they do not predict the same."""
        if not self.members:
            raise ValueError("expected at least one model; found none")
        first = self.members[0]
        for number, member in enumerate(self.members):
            if (member.features, member.target) != (first.features, first.target):
                raise ValueError(
                    f"the models do not predict the same: model 0 predicts {_told(first)}, "
                    f"model {number} predicts {_told(member)}"
                )

    @classmethod
    def load(cls, paths: Sequence[Path], precision: DTypeLike = np.float32) -> Ensemble:
        """The models in some files; `Model.load` says of the precision and of the errors."""
        return cls(tuple(Model.load(path, precision) for path in paths))

    def predict(self, rows: Floats, batch: int | None = None) -> tuple[Floats, Floats]:
        """Mean and spread of the members' predictions, each of shape (rows,); see `Model.predict`."""
        return mean_and_spread([member.predict(rows, batch) for member in self.members], len(rows))


def mean_and_spread(predicted: Sequence[ArrayLike], rows: int) -> tuple[Floats, Floats]:
    """Mean and standard deviation (of the members as they are, not of those that they are drawn from).

    predicted: a list a member, with a prediction a row

    Both have the shape (rows,). Raises ValueError where a member has not as many predictions as rows.
    """
    members = [np.asarray(values, dtype=float) for values in predicted]
    for member in members:
        if len(member) != rows:
            raise ValueError(f"expected {rows} predictions of each member; found {len(member)}")
    return np.mean(members, axis=0), np.std(members, axis=0)


def _told(model: Model) -> str:
    return f"{model.target} from {', '.join(model.features)}"
