"""A workflow with hyperparameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands.params.projects import FLOW

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def flow(workspace: Path) -> Path:
    path = workspace / "w.yaml"
    path.write_text("diel: 1\nname: w\n" + FLOW)
    (workspace / "p.yaml").write_text("# of today\nrate: 0.5\n")
    return path
