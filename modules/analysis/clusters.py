"""Where matter changes its phase, from snapshots that nobody labelled: principal components, then clusters.

L. Wang, Discovering phase transitions with unsupervised learning, Phys. Rev. B 94, 195105 (2016).

analysis.clusters            the temperature at which half of the snapshots are of the disordered phase
analysis.clusters:infinite   the limit of such temperatures for an infinite system
"""

from __future__ import annotations

import sys
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.isotonic import IsotonicRegression

import diel


class Clusters(TypedDict):
    """The snapshots of all temperatures together."""

    transition: float
    """Where half of the snapshots are of the middle cluster."""
    disordered: list[float]
    """Share of the snapshots of that cluster, at each temperature."""
    explained: float
    """Share of the variance that the first principal component has."""


class Infinite(TypedDict):
    """A straight line over the inverse size."""

    transition: float
    """At infinite size."""
    error: float
    """Of the limit, relative, with its sign; 0 where nothing is known."""


@diel.module(kind="analysis")
def clusters(temperature: list[float], snapshots: list[NDArray[Any]], seed: int = 0) -> Clusters:
    """Divide snapshots into three clusters along their first principal component.

    Two clusters are ordered, one way or the other; the one between them is disordered.

    temperature: ascending
    snapshots: of each temperature, shape (snapshots, ...); the clusters are found without the temperatures
    seed: of the clustering

    Raise ValueError where the disordered share does not rise through a half.
    """
    values = np.concatenate([group.reshape(len(group), -1) for group in snapshots]).astype(float)
    reduced = PCA(1, svd_solver="randomized", random_state=seed)
    along = reduced.fit_transform(values)
    clustering = KMeans(3, n_init=10, random_state=seed).fit(along)
    middle = int(np.argsort(clustering.cluster_centers_[:, 0])[1])
    parts = np.split(clustering.labels_ == middle, np.cumsum([len(group) for group in snapshots])[:-1])
    share = [float(np.mean(part)) for part in parts]
    rising = IsotonicRegression().fit_transform(temperature, share)
    after = int(np.searchsorted(rising, 0.5))
    if not 0 < after < len(rising):
        wrong = f"expected a disordered share that rises through a half; found {share}"
        raise ValueError(f"{wrong}: take other bounds")
    (low, high), (cool, warm) = rising[after - 1 : after + 1], temperature[after - 1 : after + 1]
    transition = cool + (0.5 - low) / (high - low) * (warm - cool)
    explained = float(reduced.explained_variance_ratio_[0])
    return {"transition": float(transition), "disordered": share, "explained": explained}


@diel.module(kind="analysis")
def infinite(size: list[float], transition: list[float], known: float | None = None) -> Infinite:
    """Extrapolate temperatures of finite systems, and print the limit.

    size: of each, as a length
    known: the true one, if there is any

    A temperature at which a quantity reaches a fixed value is off by 1/size, to leading order, where the
    correlation length grows as 1/|T − T_c|, as Ising's in two dimensions does (M. E. Fisher and M. N. Barber,
    Phys. Rev. Lett. 28, 1516 (1972)). Raise ValueError for fewer than two sizes.
    """
    if len(set(size)) < 2 or len(size) != len(transition):
        raise ValueError("expected a temperature for each of two sizes or more")
    _, limit = np.polyfit(1 / np.array(size), transition, 1)
    error = float(limit / known - 1) if known else 0.0
    of = f", {100 * error:+.2f} % from {known}" if known else ""
    sys.stdout.write(f"transition at infinite size: {limit:.4f}{of}\n")
    return {"transition": float(limit), "error": error}
