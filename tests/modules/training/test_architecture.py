"""Networks whose layers may be there or not, and what a prediction by them costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="diel[torch] is not installed")

import diel
from modules.training.architecture import architecture, compare, pareto

LABELS = np.arange(60) % 3
IMAGES = np.random.default_rng(0).normal(size=(60, 8, 8)) + 3 * LABELS[:, None, None]


def test_the_cost_is_counted_and_widths_of_layers_that_are_not_there_mean_nothing(
    context: diel.Context,
) -> None:
    def trained(**options: Any) -> Any:
        return architecture(IMAGES, LABELS, context, epochs=1, **options)

    linear = trained(convolutions=0, layers=0, widths=[5, 6])
    assert (linear["multiply_adds"], linear["parameters"], linear["shape"]) == (64 * 3, 64 * 3 + 3, "linear")
    deep = trained(convolutions=2, channels=4, kernel=5, layers=1, widths=[7, 9, 9])
    first, second = 64 * 4 * 25, 16 * 4 * 4 * 25
    assert deep["multiply_adds"] == first + second + 4 * 2 * 2 * 7 + 7 * 3
    assert deep["shape"] == "conv 4x5, conv 4x5, 7"


def test_it_learns(context: diel.Context) -> None:
    result = architecture(IMAGES, LABELS, context, layers=1, widths=[8], epochs=25)
    assert result["accuracy"] > 0.8


def test_layers_without_a_width_and_images_halved_to_nothing_are_refused(context: diel.Context) -> None:
    with pytest.raises(ValueError, match="widths: expected 2, found 1"):
        architecture(IMAGES, LABELS, context, layers=2, widths=[4])
    with pytest.raises(ValueError, match=r"3 halve images of \(4, 4\) to nothing"):
        architecture(IMAGES[:, :4, :4], LABELS, context, convolutions=3, layers=0)


def test_a_front_has_what_no_other_one_beats() -> None:
    points = [(10, 0.5, "a"), (20, 0.5, "b"), (20, 0.7, "c"), (30, 0.6, "d"), (40, 0.9, "e")]
    assert [point[2] for point in pareto(points)] == ["a", "c", "e"]


def test_the_area_is_that_under_the_front_of_each_seed(
    context: diel.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    first: dict[str, list[Any]] = {
        "seed": [0, 0, 1],
        "multiply_adds": [1, 10, 1],
        "accuracy": [0.5, 0.9, 0.6],
        "shape": ["a", "b", "c"],
    }
    two: dict[str, list[Any]] = {"seed": [0], "multiply_adds": [100], "accuracy": [1.0], "shape": ["d"]}
    result = compare(context, one=first, two=two)
    assert result["area"]["one"] == pytest.approx([0.7, 0.6])
    assert result["area"]["two"] == [0.0]
    assert result["front"].read_text().splitlines()[1:] == [
        "one,0,1,0.5,a", "one,0,10,0.9,b", "one,1,1,0.6,c", "two,0,100,1.0,d"
    ]  # fmt: skip
    assert "one: area 0.650 ± 0.071 over 2 seeds" in capsys.readouterr().out
