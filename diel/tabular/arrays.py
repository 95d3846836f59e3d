"""Types of the arrays that tables and models are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Layers = tuple[tuple[Floats, Floats], ...]
"""Weights of shape (in, out) and biases of shape (out,), from the first layer to the last."""
