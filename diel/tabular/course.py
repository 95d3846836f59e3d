"""A course that an LSTM follows, from a state that layers made of parameters, and what is wanted of it.

S. Hochreiter and J. Schmidhuber, Neural Comput. 9, 1735 (1997); forget gates by F. A. Gers et al., Neural
Comput. 12, 2451 (2000). The gates are PyTorch's: input, forget, cell, output.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diel.tabular.table import Floats

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
        """Raises ValueError where the arrays do not fit each other."""
        steps, hidden = len(self.places), len(self.inner)
        shapes = ((hidden, 4 * hidden), (steps, 4 * hidden), (hidden + 1,), (steps,), (steps,))
        for (name, array), shape in zip(vars(self).items(), shapes, strict=True):
            if array.shape != shape or np.isnan(array).any():
                raise ValueError(f"a course's {name}: expected numbers of shape {shape}, found {array.shape}")

    def follow(self, begun: Floats) -> Floats:
        """Courses of shape (rows, steps) from what the layers gave, shape (rows, 2 hidden)."""
        hidden = len(self.inner)
        inner, places, outer = (one.astype(begun.dtype) for one in (self.inner, self.places, self.outer))
        slope = np.repeat(np.array([0.5, 0.5, 1, 0.5], begun.dtype), hidden)  # σ(x) = ½ + ½ tanh(½ x)
        shift = np.repeat(np.array([0.5, 0.5, 0, 0.5], begun.dtype), hidden)
        inner, places = inner * slope, places * slope
        found = np.empty((len(begun), len(places)), begun.dtype)
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
                found[part, step] = state @ outer[:-1]
        found += outer[-1]
        return found

    def margins(self, courses: Floats) -> Floats:
        """How far each course is within what is wanted, at its worst place, shape (rows,): above 0 it is
        all within.
        """
        within = np.minimum(courses - self.low, self.high - courses)
        worst: Floats = within.min(axis=1)
        return worst
