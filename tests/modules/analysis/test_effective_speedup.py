"""The effective speedup of a screen, from the journal of its run."""

from __future__ import annotations

from pathlib import Path

import pytest

import diel
from modules.analysis.effective_speedup import effective_speedup

WORKFLOW = """\
diel: 1
name: saved
axes: {x: {range: 2}}
stages:
  simulate: {over: [x], command: ["true"]}
  train: {command: ["true"], after: [simulate]}
  screen: {over: [x], command: ["true"], after: [train]}
"""


def test_the_effective_speedup_is_that_of_the_journal_s_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "saved.yaml").write_text(WORKFLOW)
    run = diel.run(tmp_path / "saved.yaml", runs=tmp_path / "runs", quiet=True)
    result = effective_speedup(run.dir, ["simulate"], ["train"], ["screen"], 1000, [1.0])
    simulating, learning, asking = (
        sum(row["seconds"] for row in records(run, stage)) for stage in ("simulate", "train", "screen")
    )
    assert (result["n_lookup"], result["n_train"]) == (1000, 2)
    assert result["t_sim_s"] == pytest.approx(simulating / 2)
    expected = simulating / 2 * 1002 / (asking + simulating + learning)
    assert result["speedup"] == pytest.approx(expected)
    assert f"effective speedup {expected:.3g}: N_lookup 1,000" in capsys.readouterr().out
    cached = diel.run(tmp_path / "saved.yaml", runs=tmp_path / "runs", quiet=True)
    assert effective_speedup(cached.dir, ["simulate"], ["train"], ["screen"], 1000, [1.0])["speedup"] is None
    assert "came from the cache" in capsys.readouterr().out


def records(run: diel.Run, stage: str) -> list[dict[str, float]]:
    usage = run.usage(stage)
    rows: list[dict[str, float]] = usage.to_dict("records") if hasattr(usage, "to_dict") else usage
    return rows
