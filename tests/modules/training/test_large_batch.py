"""Large batches: rates that follow them, and optimizers with a rate for each layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="diel[torch] is not installed")
pytest.importorskip("pytorch_optimizer", reason="diel[torch] is not installed")

import diel  # noqa: E402
from modules.training.large_batch import compare, large_batch, make_optimizer, rate_of  # noqa: E402

DRAW = np.random.default_rng(0)
LABELS = DRAW.integers(3, size=300)
ROWS = DRAW.normal(size=(300, 6)) + 2 * np.eye(6)[LABELS]


@pytest.mark.parametrize("optimizer", ["sgd", "lars", "larc", "lamb", "soap"])
def test_each_optimizer_learns_and_counts_its_steps(optimizer: Any, context: diel.Context) -> None:
    rate = 0.01 if optimizer in ("lamb", "soap") else 0.1
    result = large_batch(
        ROWS,
        LABELS,
        context,
        optimizer,
        batch=21,
        learning_rate=rate,
        hidden=[8],
        epochs=12,
        loss_to_reach=1.0,
    )
    assert result["accuracy"] > 0.6
    assert result["steps"] == 12 * (210 // 21)
    assert 0 < result["steps_to_loss"] <= result["steps"]
    assert result["rows_to_loss"] == 21 * result["steps_to_loss"]
    assert result["peak_rate"] == pytest.approx(rate * 21 / 32)


def test_a_rate_that_is_too_large_is_a_result(context: diel.Context) -> None:
    result = large_batch(ROWS, LABELS, context, "sgd", batch=21, learning_rate=1e9, hidden=[8], epochs=3)
    assert result["accuracy"] < 0.7
    assert result["steps_to_loss"] == 0


def test_a_rate_grows_from_that_of_a_small_batch_and_falls_to_nothing() -> None:
    rates = [rate_of(done, 0.2, 0.1, 0.8) for done in (0.0, 0.1, 0.2, 0.6, 1.0)]
    assert rates == pytest.approx([0.1, 0.45, 0.8, 0.4, 0.0])


def test_larc_moves_no_layer_by_more_than_its_share_and_none_faster_than_plain_descent() -> None:
    for slope in (1e-3, 1e3):
        network = torch.nn.Linear(4, 3)
        before = network.weight.detach().clone()
        network.weight.grad = torch.full((3, 4), slope)
        network.bias.grad = torch.zeros(3)
        make_optimizer("larc", network, 0.5, 0.0, 0.0, 0.01).step()
        moved, size = float((network.weight.detach() - before).norm()), float(before.norm())
        assert moved == pytest.approx(min(0.01 * size, 0.5 * slope * 12**0.5), rel=1e-3)


def test_the_table_has_mean_and_scatter_over_seeds(
    context: diel.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    names, batches = ["sgd"] * 4, [32, 32, 64, 64]
    result = compare(context, names, ["linear"] * 4, batches, [0.9, 0.8, 0.5, 0.5], [10, 20, 0, 30])
    first, second = result["rows"]
    assert (first["mean"], first["steps_to_loss"]) == (pytest.approx(0.85), 15)
    assert first["deviation"] == pytest.approx(0.0707, abs=1e-4)
    assert second["steps_to_loss"] is None  # one seed did not reach it
    assert capsys.readouterr().out.splitlines() == [
        "accuracy                batch 32        batch 64",
        "sgd, linear        0.850 ± 0.071   0.500 ± 0.000",
    ]


def test_rows_that_do_not_fit_are_refused(context: diel.Context) -> None:
    with pytest.raises(ValueError, match="a class for each of 300 rows"):
        large_batch(ROWS, LABELS[:2], context)
    with pytest.raises(ValueError, match="not finite"):
        large_batch(ROWS * np.nan, LABELS, context)
