"""Ways to train are compared with the serial one, and with what their messages should take."""

from __future__ import annotations

import pytest

from modules.analysis.ways import ways

COLUMNS = {
    "way": ["serial", "data", "pipeline"],
    "ranks": [1, 2, 2],
    "step_ms": [100.0, 80.0, 75.0],
    "loss": [0.5, 0.5, 0.500001],
    "sent_mib": [0.0, 8.0, 1.0],
    "messages": [0.0, 1.0, 2.0],
    "message_s": [[0.01], [0.01], [0.002]],
    "bubble": [0.0, 0.0, 0.2],
}


def test_efficiency_and_prediction_are_those_of_the_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    result = ways(**COLUMNS)  # type: ignore[arg-type]
    assert [row["efficiency"] for row in result["rows"]] == pytest.approx([1, 0.625, 2 / 3])
    # half of the work and a sum; half of the work at four fifths of the time and two messages
    assert [row["predicted_ms"] for row in result["rows"]] == pytest.approx([100, 60, 66.5])
    assert result["difference"] == pytest.approx(2e-6)
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_the_server_is_compared_by_samples(capsys: pytest.CaptureFixture[str]) -> None:
    server = {"rows_per_second": 1000.0, "loss": 0.4, "sent_bytes": 2**21}
    row = ways(**COLUMNS, server=server, batch=50, steps=2)["rows"][-1]  # type: ignore[arg-type]
    assert row["step_ms"] == 50
    assert row["efficiency"] == 1
    assert row["sent_mib"] == 1
    assert "server" in capsys.readouterr().out
