"""Parsl is loaded without what diel does not use of it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["diel.executors.parsl", "diel.executors.tether"])
def test_parsl_comes_without_a_database_library_which_others_can_still_load(module: str) -> None:
    pytest.importorskip("sqlalchemy", reason="comes with the extra `search`")
    text = f"import sys, {module}; print('sqlalchemy' in sys.modules); import sqlalchemy; print(sqlalchemy.__name__)"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "sqlalchemy"]
