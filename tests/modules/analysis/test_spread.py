"""Values over seeds become means with their scatter."""

from __future__ import annotations

import pytest

from modules.analysis.spread import spread


def test_each_point_has_its_mean_and_scatter(capsys: pytest.CaptureFixture[str]) -> None:
    by = {"precision": ["fp32", "fp32", "bf16", "bf16"]}
    rows = spread(by, accuracy=[0.9, 0.8, 0.7, 0.7])["rows"]
    assert rows[0] == {
        "precision": "fp32",
        "count": 2,
        "accuracy": pytest.approx(0.85),
        "accuracy_scatter": pytest.approx(0.0707, abs=1e-4),
    }
    assert rows[1]["accuracy_scatter"] == 0
    assert "0.850 ± 0.071" in capsys.readouterr().out


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        spread({"precision": ["fp32"]}, accuracy=[0.9, 0.8])
