"""What running tasks report, read as their files grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.search.metrics import Metrics


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"m": 1}\n{"m": 2.5}\n', [(0, 1.0), (1, 2.5)]),
        ('{"m": 1, "step": 10}\n{"n": 3}\n{"m": 2', [(10, 1.0)]),
        ('{"m": "text"}\n{"m": NaN}\n{"m": true}\n[]\n5\nno json\n', []),
        (f'{{"m": 1{"0" * 400}}}\n{{"m": -1{"0" * 400}}}\n', []),
        (f'{{"m": 1, "step": 1{"0" * 400}}}\n', [(0, 1.0)]),  # a step that no pruner could count with
        (
            '{"m": 1, "step": -1}\n{"m": 1, "step": true}\n{"m": 1, "step": 7.5}\n',
            [(0, 1.0), (1, 1.0), (2, 1.0)],
        ),
        ("[" * 100_000 + "\n" + '{"m": 1}\n', [(0, 1.0)]),
    ],
)
def test_what_a_task_wrote_is_a_number_at_a_step_or_left_out(
    tmp_path: Path, text: str, found: list[tuple[int, float]]
) -> None:
    (tmp_path / "m").write_text(text)
    assert list(Metrics(tmp_path / "m").read("m")) == found
