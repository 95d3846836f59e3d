"""Samples are divided without a loss, and alike for any number of them to train on."""

from __future__ import annotations

import numpy as np
import pytest

from modules.analysis.held_out import held_out

DATA = np.arange(20).reshape(10, 2)
TARGETS = np.arange(10)


def test_each_row_is_on_one_side_with_its_target() -> None:
    parts = held_out(DATA, TARGETS, share=0.3, seed=1)
    assert len(parts["unseen"]) == 3
    assert sorted([*parts["targets"], *parts["unseen_targets"]]) == TARGETS.tolist()
    assert (parts["data"][:, 0] == 2 * parts["targets"]).all()


def test_fewer_rows_to_train_on_leave_the_unseen_ones_as_they_are() -> None:
    few, all_ = held_out(DATA, TARGETS, most=2), held_out(DATA, TARGETS)
    assert (few["unseen"] == all_["unseen"]).all()
    assert set(few["targets"]) < set(all_["targets"])
    assert len(few["data"]) == 2


def test_rows_without_targets_are_refused() -> None:
    with pytest.raises(ValueError, match="10 and 9"):
        held_out(DATA, TARGETS[:9])
