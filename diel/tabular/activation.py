"""Activation functions, by the names that model files and parameters of modules give them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from diel.tabular.arrays import Floats


def _relu(values: Floats) -> Floats:
    return np.maximum(values, 0, out=values)


def _tanh(values: Floats) -> Floats:
    return np.tanh(values, out=values)


def _logistic(values: Floats) -> Floats:
    # by tanh, which does not overflow
    return 0.5 * (1 + np.tanh(0.5 * values))  # type: ignore[no-any-return]


def _silu(values: Floats) -> Floats:
    return values * _logistic(values)


def _gelu(values: Floats) -> Floats:
    """Its formula with tanh (D. Hendrycks and K. Gimpel, arXiv:1606.08415), as PyTorch trained it."""
    inner = math.sqrt(2 / math.pi) * (values + 0.044715 * values**3)
    return 0.5 * values * (1 + np.tanh(inner))  # type: ignore[no-any-return]


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": _relu,
    "tanh": _tanh,
    "logistic": _logistic,
    "silu": _silu,
    "gelu": _gelu,
}
"""Each may write into the array that it is given."""
