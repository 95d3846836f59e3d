"""How many tasks of a stage may fail, as it is written and as it is counted."""

from __future__ import annotations

import pytest

from diel.spec import Stage
from diel.spec.policy import most_failures


@pytest.mark.parametrize(
    ("written", "tasks", "most"),
    [
        (None, 40, None),
        (0, 40, 0),
        (5, 40, 5),
        ("10%", 40, 4),
        ("12.5 %", 40, 5),
        ("0%", 40, 0),
        ("100%", 3, 3),
    ],
)
def test_a_number_or_a_share_bounds_the_failures_of_a_stage(
    written: object, tasks: int, most: float | None
) -> None:
    stage = Stage.model_validate({"command": ["true"], "max_failures": written})
    assert most_failures(stage.max_failures, tasks) == most
