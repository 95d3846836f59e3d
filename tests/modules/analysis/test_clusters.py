"""Clusters without labels find where order ends."""

from __future__ import annotations

import numpy as np
import pytest

from modules.analysis.clusters import clusters, infinite

TEMPERATURES = [1.0, 2.0, 3.0, 4.0]


def lattices(chaotic: list[float], seed: int = 0) -> list[np.ndarray[tuple[int, ...], np.dtype[np.int8]]]:
    """Twenty snapshots for each share of those that are disordered; the others point up or down."""
    rng = np.random.default_rng(seed)
    snapshots = []
    for share in chaotic:
        disordered = rng.choice([-1, 1], (20, 8, 8))
        ordered = rng.choice([-1, 1], (20, 1, 1)) * np.where(rng.random((20, 8, 8)) < 0.05, -1, 1)
        snapshots.append(
            np.where((np.arange(20) < 20 * share)[:, None, None], disordered, ordered).astype(np.int8)
        )
    return snapshots


def test_the_transition_is_where_half_of_the_snapshots_are_disordered() -> None:
    result = clusters(TEMPERATURES, lattices([0.0, 0.25, 0.75, 1.0]))
    assert result["disordered"] == pytest.approx([0.0, 0.25, 0.75, 1.0])
    assert result["transition"] == pytest.approx(2.5)
    assert 0.3 < result["explained"] < 1


def test_temperatures_without_a_transition_are_refused() -> None:
    with pytest.raises(ValueError, match="rises through a half"):
        clusters(TEMPERATURES, lattices([0.0, 0.1, 0.2, 0.3]))


def test_finite_sizes_are_extrapolated_and_held_against_what_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = [16.0, 32.0, 64.0]
    result = infinite(sizes, [2.0 + 3 / size for size in sizes], known=2.5)
    assert (result["transition"], result["error"]) == pytest.approx((2.0, -0.2))
    assert capsys.readouterr().out == "transition at infinite size: 2.0000, -20.00 % from 2.5\n"
    with pytest.raises(ValueError, match="two sizes or more"):
        infinite([16.0], [2.3])
