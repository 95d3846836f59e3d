"""Lines of metrics: what is a number at a step, and what all of them say."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.tasks.metrics import Metric, Metrics


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
        ('{"m": 1e400}\n{"m": 1, "m": 2}\n{"m": 3}\n', [(0, 3.0)]),
        ("[" * 100_000 + "\n" + '{"m": 1}\n', [(0, 1.0)]),
    ],
)
def test_what_a_task_wrote_is_a_number_at_a_step_or_left_out(
    tmp_path: Path, text: str, found: list[tuple[int, float]]
) -> None:
    (tmp_path / "m").write_text(text)
    assert list(Metrics(tmp_path / "m").read("m")) == found


def test_all_that_was_reported_comes_in_its_order_with_steps_and_times(tmp_path: Path) -> None:
    lines = [
        '{"epoch": 3, "loss": 0.5, "phase": "warm", "time": 7}',
        '{"loss": NaN}',
        '{"acc": 1',
        '{"acc": 1}',
    ]
    (tmp_path / "m").write_text("\n".join(lines) + "\n")
    found = list(Metrics(tmp_path / "m").all())
    assert found[:2] == [Metric("loss", 3, 0.5, 7.0), Metric("phase", 3, "warm", 7.0)]
    assert [(metric.name, metric.step) for metric in found[2:]] == [("loss", 1), ("acc", 0)]
    assert found[2].value != found[2].value  # a loss that diverged is one
