"""What a network sees of an arrangement of two kinds of atoms on a lattice: its composition, and how often
neighbours are alike.

An arrangement is a whole number: bit i says whether the second kind is at site i. With σ = −1 and 1 for the
kinds, the correlation of a shell is the mean of σ_i σ_j over its pairs (J. M. Sanchez, F. Ducastelle and
D. Gratias, Physica A 128, 334 (1984)). All shells of a periodic crystal share their waves, so that one
product of matrices gives all of them: Σ_ij A_ij σ_i σ_j = Σ_k λ_k (v_k · σ)² (A. G. Khachaturyan, Prog.
Mater. Sci. 22, 1 (1978)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from diel.tabular.table import Floats

SITES = 52
"""At most: a float holds whole numbers of so many bits."""


@dataclass(frozen=True)
class Pairs:
    """The composition and the pair correlations, nearest shell first."""

    waves: Floats
    """Shape (sites, sites): the shells' common eigenvectors, the even one first."""
    weights: Floats
    """Shape (sites, shells): what a wave's square adds to a shell's correlation."""

    @classmethod
    def of(cls, sites: ArrayLike, period: ArrayLike) -> Pairs:
        """Those of a crystal.

        sites: whole numbers of shape (sites, 3), in any unit of length
        period: after how many of these the crystal repeats itself, along each axis

        Raises ValueError for less than two sites or more than 52, and where their surroundings differ.
        """
        places, repeat = np.asarray(sites, int), np.asarray(period, int)
        if places.ndim != 2 or places.shape[1] != 3 or not 2 <= len(places) <= SITES:
            raise ValueError(f"expected 2 to {SITES} sites of three whole numbers; found {places.shape}")
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
        """The second kind's share and the correlations, (rows, 1 + shells), of whole numbers, (rows,)."""
        count = len(self.waves)
        numbers = arrangements.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : -(-count // 8)]
        bits = np.unpackbits(numbers, axis=1, count=count, bitorder="little")
        spins = bits.astype(np.float32)
        spins *= 2
        spins -= 1
        seen = spins @ self.waves.astype(np.float32)
        share = 0.5 + seen[:, :1] * np.float32(0.5 / np.sqrt(count))
        np.square(seen, out=seen)
        return np.concatenate([share, seen @ self.weights.astype(np.float32)], axis=1)
