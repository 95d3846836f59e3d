"""Models that learn one column of a table from others, for modules: the rows, and one format of the model.

`from diel import tabular` in a module's file. It needs numpy alone; any library may train the model, a
perceptron as plain arrays.

The model's file is an `.npz` with the names of `features` and `target`, the `activation`, `feature_mean` and
`feature_scale` of shape (features,), the numbers `target_mean` and `target_scale`, and for each layer, from
the first, `weight_0` of shape (in, out) and `bias_0` of shape (out,), `weight_1`, …. One that reads
arrangements of atoms has the two arrays of its `Pairs` too, and one that follows a course those of `Lstm`.
"""

import csv
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from diel.base.errors import UsageError, counted
from diel.base.values import cell_value

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Table:
    """Features of shape (rows, features), named, and a target of shape (rows,); all of them finite."""

    names: tuple[str, ...]
    """Names of the features."""
    features: Floats
    target: Floats

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Sequence[float]], target: str, features: Sequence[str] | None = None
    ) -> "Table":
        """Return the table of lists by name, to predict the target from the features: all others if None.
        Raise ValueError where columns are missing, differ in length, or hold something that is not finite."""
        names = _features(list(columns), target, features)
        lengths = {name: len(columns[name]) for name in (target, *names)}
        if len(set(lengths.values())) != 1:
            listing = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise ValueError(f"the columns differ in length: {listing}")
        numbers = {name: [_number(value) for value in columns[name]] for name in (target, *names)}
        for name, values in numbers.items():
            for row, value in enumerate(values):
                if not math.isfinite(value):
                    raise ValueError(
                        f"column '{name}' holds {columns[name][row]} in row {row}; expected a finite number"
                    )
        return cls(tuple(names), np.array([numbers[name] for name in names]).T, np.array(numbers[target]))

    @classmethod
    def from_rows(
        cls, rows: Sequence[Mapping[str, float]], target: str, features: Sequence[str] | None = None
    ) -> "Table":
        """Make a table of a mapping a row. Raise ValueError as `from_columns`, or if a row lacks a column."""
        names = _features(list(rows[0]) if rows else [], target, features)
        for number, row in enumerate(rows):
            missing = [name for name in (target, *names) if name not in row]
            if missing:
                raise ValueError(f"row {number} has no '{missing[0]}'; the first row has")
        columns = {name: [row[name] for row in rows] for name in (target, *names)}
        return cls.from_columns(columns, target, names)

    @classmethod
    def from_files(cls, paths: Sequence[Path], target: str, features: Sequence[str] | None = None) -> "Table":
        """Return the table of CSV files with headers, one below the other, all with the columns of the first.
        Raise ValueError without a file, for one that cannot be read, and for cells that are no numbers."""
        if not paths:
            raise ValueError("table: expected at least one file; found none")
        names, values = _read(paths[0], target, features)
        for path in paths[1:]:
            values += _read(path, target, names)[1]
        array = np.array(values, dtype=float).reshape(-1, len(names) + 1)
        return cls(tuple(names), array[:, 1:], array[:, 0])

    def at_least(self, rows: int, what_for: str = "") -> "Table":
        """Return the same table. Raise ValueError, with `what_for`, if it has fewer rows."""
        if len(self) < rows:
            needed = f"{rows} rows, {what_for}" if what_for else f"{rows} rows"
            raise ValueError(f"expected at least {needed}; found {len(self)}")
        return self

    def take(self, rows: NDArray[np.integer[Any]]) -> "Table":
        """Return some of the rows, by their places."""
        return Table(self.names, self.features[rows], self.target[rows])

    def save_predictions(self, path: Path, predicted: Floats) -> Path:
        """Write a CSV file of the features, `observed` (the target) and `predicted`; return the path."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*self.names, "observed", "predicted"])
            writer.writerows(np.column_stack([self.features, self.target, predicted]).tolist())
        return path

    def __len__(self) -> int:
        return len(self.target)


def _features(
    columns: Sequence[str], target: str, features: Sequence[str] | None, where: str = ""
) -> list[str]:
    """Return the features. Raise ValueError if a column is missing."""
    names = [name for name in columns if name != target] if features is None else list(features)
    for name in (target, *names):
        if name not in columns:
            raise ValueError(f"{where}there is no column '{name}'; the columns are {', '.join(columns)}")
    if not names or target in names:
        raise ValueError(f"{where}expected features other than the target '{target}'; found {names}")
    return names


def _number(value: Any) -> float:
    """Return a value as a number, NaN if it is not one."""
    try:
        return float(cell_value(value, "float") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return math.nan


def _read(path: Path, target: str, features: Sequence[str] | None) -> tuple[list[str], list[list[float]]]:
    """Return the features, and for each row the target and the features."""
    from diel.workflow.models.forms.rows import read_csv  # here: its room loads slowly

    try:
        header, rows, lines = read_csv(path)
    except UsageError as error:
        raise ValueError(f"table: {error}") from None
    names = _features(header, target, features, f"table: {path.name}: ")
    places = [(name, header.index(name)) for name in (target, *names)]
    values = zip(rows, lines, strict=True)
    return names, [_row(row, places, f"table: {path.name}, line {line}") for row, line in values]


def _row(row: list[str], places: list[tuple[str, int]], where: str) -> list[float]:
    numbers = [_number(row[place]) for _, place in places]
    for number, (name, place) in zip(numbers, places, strict=True):
        if not math.isfinite(number):
            raise ValueError(f"{where}, column '{name}', holds {row[place]!r}; expected a finite number")
    return numbers


ROWS = 512
"""That are followed at a time: their gates stay in the processor's cache."""


@dataclass(frozen=True)
class Lstm:
    """What follows the layers of a model, which give it a hidden state (before tanh) and a cell."""

    inner: Floats
    """Shape (hidden, 4 hidden): what the hidden state adds to the gates."""
    places: Floats
    """Shape (steps, 4 hidden): what each place along the course adds."""
    outer: Floats
    """Shape (hidden + 1,): weights of the value at a place, and its offset."""
    low: Floats
    """Shape (steps,): what is wanted there at least, −inf where nothing is."""
    high: Floats

    def __post_init__(self) -> None:
        """Raise ValueError where the arrays do not fit each other."""
        steps, hidden = len(self.places), len(self.inner)
        shapes = ((hidden, 4 * hidden), (steps, 4 * hidden), (hidden + 1,), (steps,), (steps,))
        for (name, array), shape in zip(vars(self).items(), shapes, strict=True):
            if array.shape != shape or np.isnan(array).any():
                raise ValueError(f"a course's {name}: expected numbers of shape {shape}, found {array.shape}")

    def follow(self, begun: Floats) -> Floats:
        """Return courses of shape (rows, steps) from the layers' outputs, shape (rows, 2 hidden)."""
        hidden = len(self.inner)
        inner, places, outer = (array.astype(begun.dtype) for array in (self.inner, self.places, self.outer))
        slope = np.repeat(np.array([0.5, 0.5, 1, 0.5], begun.dtype), hidden)  # σ(x) = ½ + ½ tanh(½ x)
        shift = np.repeat(np.array([0.5, 0.5, 0, 0.5], begun.dtype), hidden)
        inner, places = inner * slope, places * slope
        outputs = np.empty((len(begun), len(places)), begun.dtype)
        for start in range(0, len(begun), ROWS):
            part = slice(start, start + ROWS)
            state, cell = np.tanh(begun[part, :hidden]), begun[part, hidden:]
            for step, place in enumerate(places):
                gates = state @ inner
                gates += place
                np.tanh(gates, out=gates)
                gates *= slope
                gates += shift
                let_in, keep, new, out = (gates[:, n * hidden : (n + 1) * hidden] for n in range(4))
                cell = keep * cell + let_in * new
                state = out * np.tanh(cell)
                outputs[part, step] = state @ outer[:-1]
        outputs += outer[-1]
        return outputs

    def margins(self, courses: Floats) -> Floats:
        """Return how far courses are within their bounds at the worst place, (rows,): above 0, all."""
        within = np.minimum(courses - self.low, self.high - courses)
        worst: Floats = within.min(axis=1)
        return worst


_SITES = 52
"""At most: a float holds whole numbers of so many bits."""


@dataclass(frozen=True)
class Pairs:
    """What a network sees of two kinds of atoms on a lattice: the composition, and the pair correlations,
    nearest shell first.

    An arrangement is a whole number: bit i says whether the second kind is at site i. With σ = −1 and 1 for
    the kinds, the correlation of a shell is the mean of σ_i σ_j over its pairs (J. M. Sanchez, F. Ducastelle
    and D. Gratias, Physica A 128, 334 (1984)). All shells of a periodic crystal share their waves, so that
    one product of matrices gives all of them: Σ_ij A_ij σ_i σ_j = Σ_k λ_k (v_k · σ)² (A. G. Khachaturyan,
    Prog. Mater. Sci. 22, 1 (1978)).
    """

    waves: Floats
    """Shape (sites, sites): the shells' common eigenvectors, the even one first."""
    weights: Floats
    """Shape (sites, shells): what a wave's square adds to a shell's correlation."""

    @classmethod
    def of(cls, sites: ArrayLike, period: ArrayLike) -> "Pairs":
        """Return the pairs of a crystal.

        sites: whole numbers of shape (sites, 3), in any unit of length
        period: after how many of these the crystal repeats itself, along each axis

        Raise ValueError for less than two sites or more than 52, and where their surroundings differ.
        """
        places, repeat = np.asarray(sites, int), np.asarray(period, int)
        if places.ndim != 2 or places.shape[1] != 3 or not 2 <= len(places) <= _SITES:
            raise ValueError(f"expected 2 to {_SITES} sites of three whole numbers; found {places.shape}")
        apart = (places[:, None] - places) % repeat
        squares = (np.minimum(apart, repeat - apart) ** 2).sum(axis=2)
        shells = [(squares == square).astype(float) for square in np.unique(squares)[1:]]
        if any(np.ptp(shell.sum(axis=0)) for shell in shells):
            raise ValueError("the sites have different surroundings: they are no crystal of one kind of site")
        # weights that nothing relates: where the sum of shells has equal eigenvalues, each shell has them too
        weights = np.sqrt(np.arange(2, len(shells) + 2))
        mixed = sum(weight * shell for weight, shell in zip(weights, shells, strict=True))
        _, waves = np.linalg.eigh(mixed)
        order = np.argsort(-np.abs(waves.sum(axis=0)), kind="stable")
        waves = waves[:, order] * np.sign(waves[0, order[0]])
        values = [np.einsum("ik,ij,jk->k", waves, shell, waves) / shell.sum() for shell in shells]
        return cls(waves, np.array(values).T)

    @property
    def names(self) -> tuple[str, ...]:
        return ("share", *(f"pair_{n}" for n in range(1, self.weights.shape[1] + 1)))

    def see(self, arrangements: Floats) -> Floats:
        """Return the second kind's share and the correlations, (rows, 1 + shells), of integers, (rows,)."""
        count = len(self.waves)
        numbers = arrangements.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : -(-count // 8)]
        bits = np.unpackbits(numbers, axis=1, count=count, bitorder="little")
        spins = bits.astype(np.float32)
        spins *= 2
        spins -= 1
        features = spins @ self.waves.astype(np.float32)
        share = 0.5 + features[:, :1] * np.float32(0.5 / np.sqrt(count))
        np.square(features, out=features)
        return np.concatenate([share, features @ self.weights.astype(np.float32)], axis=1)


Layers = tuple[tuple[Floats, Floats], ...]
"""Weights of shape (in, out) and biases of shape (out,), from the first layer to the last."""


def _logistic(values: Floats) -> Floats:
    # by tanh, which does not overflow
    return 0.5 * (1 + np.tanh(0.5 * values))  # type: ignore[no-any-return]


def _gelu(values: Floats) -> Floats:
    """Return its formula with tanh (D. Hendrycks and K. Gimpel, arXiv:1606.08415), as PyTorch trained it."""
    inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)
    return 0.5 * values * (1 + np.tanh(inner))  # type: ignore[no-any-return]


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda values: np.maximum(values, 0, out=values),
    "tanh": lambda values: np.tanh(values, out=values),
    "logistic": _logistic,
    "silu": lambda values: values * _logistic(values),
    "gelu": _gelu,
}
"""By the names in model files and parameters. Each may write into the array that it is given."""

CHUNK = 2048
"""Rows that are evaluated at a time: what lies between the layers stays in the processor's cache."""


@dataclass(frozen=True)
class Scale:
    """Means and deviations of a table's columns: standardised, they have mean 0 and variance 1."""

    feature_mean: Floats
    """Array of shape (features,), as `feature_scale`."""
    feature_scale: Floats
    target_mean: float
    target_scale: float

    @classmethod
    def of(cls, table: Table) -> "Scale":
        """Return the scale on which the columns of the table have mean 0 and variance 1."""
        features, target = table.features, table.target
        return cls(
            features.mean(axis=0), _deviation(features), float(target.mean()), float(_deviation(target))
        )

    def features(self, rows: Floats) -> Floats:
        """Return features of shape (rows, features), standardised."""
        return np.asarray((rows - self.feature_mean) / self.feature_scale)

    def target(self, values: Floats) -> Floats:
        """Return values of the target, standardised."""
        return np.asarray((values - self.target_mean) / self.target_scale)

    def own_units(self, values: Floats) -> Floats:
        """Return a result of `target` in the target's units again."""
        return np.asarray(values * self.target_scale + self.target_mean)


def _deviation(values: Floats) -> Floats:
    spread = values.std(axis=0)
    return np.where(spread > 0, spread, 1.0)  # a constant column carries nothing, but does no harm


@dataclass(frozen=True)
class Model:
    """Standardises features, applies its layers, and gives back the target's own units."""

    features: tuple[str, ...]
    """The columns that it reads, in the order of a row."""
    target: str
    """The column that it predicts; `prediction` if its file does not say."""
    activation: str
    """The hidden layers' function: a name in `ACTIVATIONS`."""
    scale: Scale
    layers: Layers
    pairs: Pairs | None = None
    """The first layer's inputs if the one feature is an arrangement; the scale is theirs then."""
    course: Lstm | None = None
    """The network behind the last layer; a prediction is then the course's margin."""

    @classmethod
    def load(cls, path: Path, precision: DTypeLike = np.float32) -> "Model":
        """Return the model in a file. Raise ValueError if it is not one, OSError if it cannot be opened.

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
                Pairs(arrays["pair_waves"], arrays["pair_shells"]) if "pair_waves" in arrays else None,
                Lstm(*(arrays[f"course_{field.name}"] for field in fields(Lstm)))
                if "course_inner" in arrays
                else None,
            )
            model._check()
            return model
        except (KeyError, ValueError, TypeError, EOFError, BadZipFile, zlib.error) as error:
            raise ValueError(
                f"{path.name} is not a model of training.mlp or training.torch_mlp ({error})"
            ) from error

    def _check(self) -> None:
        """Raise ValueError if it cannot predict anything."""
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation '{self.activation}'")
        if not self.layers:
            raise ValueError("it has no layers")
        wide = len(self.features)
        if self.pairs is not None:
            if wide != 1:
                raise ValueError(f"expected one feature, the arrangement; found {wide}")
            wide = len(self.pairs.names)
        if not self.scale.feature_mean.shape == self.scale.feature_scale.shape == (wide,):
            raise ValueError(f"expected the mean and the scale of {wide} features")
        for number, (weight, bias) in enumerate(self.layers):
            if weight.ndim != 2 or len(weight) != wide or bias.shape != weight.shape[1:]:
                shapes = f"weights of shape {weight.shape} and biases of shape {bias.shape}"
                raise ValueError(f"layer {number} has {shapes}, and gets {counted(wide, 'value')}")
            if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
                raise ValueError(f"layer {number} holds a number that is not finite")
            wide = weight.shape[1]
        expected = 1 if self.course is None else 2 * len(self.course.inner)
        if wide != expected:
            raise ValueError(f"its last layer gives {wide} values for a row, not {expected}")

    def save(self, path: Path) -> Path:
        """Write the model, its weights in their own precision; return the path."""
        arrays: dict[str, ArrayLike] = {"features": self.features, "target": self.target}
        arrays |= {"activation": self.activation, **vars(self.scale)}
        if self.pairs is not None:
            arrays |= {"pair_waves": self.pairs.waves, "pair_shells": self.pairs.weights}
        if self.course is not None:
            arrays |= {f"course_{name}": array for name, array in vars(self.course).items()}
        for number, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight_{number}": weight, f"bias_{number}": bias}
        np.savez(path, **arrays)  # type: ignore[arg-type]
        return path

    def rows(self, columns: Mapping[str, Sequence[float]]) -> Floats:
        """Return rows of shape (rows, features) from lists of equal length by name; others are passed over.
        Raise ValueError where a feature is missing or the lists differ in length."""
        missing = [name for name in self.features if name not in columns]
        if missing:
            names = ", ".join(columns) or "none"
            raise ValueError(f"the model needs the column '{missing[0]}'; found {names}")
        lists = [columns[name] for name in self.features]
        if len({len(values) for values in lists}) != 1:
            lengths = ", ".join(str(len(values)) for values in lists)
            raise ValueError(f"the columns differ in length: {lengths}")
        return np.array(lists, dtype=float).T

    def predict(self, rows: Floats, batch: int | None = None) -> Floats:
        """Return predictions of shape (rows,), float64, for rows of shape (rows, features). batch: rows
        evaluated at a time, which bounds the memory; by default as many as are quick"""
        size = batch or CHUNK
        if len(rows) <= size:
            return self._evaluate(rows)
        predicted = np.empty(len(rows))
        for start in range(0, len(rows), size):
            predicted[start : start + size] = self._evaluate(rows[start : start + size])
        return predicted

    def _evaluate(self, rows: Floats) -> Floats:
        activation = ACTIVATIONS[self.activation]
        weight, bias = self.layers[-1]
        features = rows if self.pairs is None else self.pairs.see(rows[:, 0])
        values: Floats = self.scale.features(features).astype(weight.dtype)
        for inner, offset in self.layers[:-1]:
            values = activation(values @ inner + offset)
        values = values @ weight + bias
        if self.course is not None:
            return self.course.margins(self.course.follow(values)).astype(np.float64)
        return self.scale.own_units(values[:, 0].astype(np.float64))


@dataclass(frozen=True)
class Ensemble:
    """One model or several that predict the same column from the same features. Their mean is the prediction,
    their spread how far to trust it."""

    members: tuple[Model, ...]

    def __post_init__(self) -> None:
        """Raise ValueError if there is no member, or if they do not predict the same."""
        if not self.members:
            raise ValueError("expected at least one model; found none")
        for number, member in enumerate(self.members):
            first, other = (
                f"{model.target} from {', '.join(model.features)}" for model in (self.members[0], member)
            )
            if first != other:
                what = f"model 0 predicts {first}, model {number} predicts {other}"
                raise ValueError(f"the models do not predict the same: {what}")

    @classmethod
    def load(cls, paths: Sequence[Path], precision: DTypeLike = np.float32) -> "Ensemble":
        """Return the models in some files; `Model.load` describes precision and errors."""
        return cls(tuple(Model.load(path, precision) for path in paths))

    def predict(self, rows: Floats, batch: int | None = None) -> tuple[Floats, Floats]:
        """Return mean and spread of the members' predictions, each of shape (rows,); see `Model.predict`."""
        return mean_and_spread([member.predict(rows, batch) for member in self.members], len(rows))


def mean_and_spread(predicted: Sequence[ArrayLike], rows: int) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the members, each of shape (rows,).

    predicted: a list a member, with a prediction a row

    The deviation is that of these members, not of all that they could be drawn from. Raise ValueError where
    a member has not as many predictions as rows.
    """
    members = [np.asarray(values, dtype=float) for values in predicted]
    for member in members:
        if len(member) != rows:
            raise ValueError(f"expected {rows} predictions of each member; found {len(member)}")
    return np.mean(members, axis=0), np.std(members, axis=0)
