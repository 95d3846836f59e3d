"""Programs of a machine that a test makes up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from diel.doctor import machine

Install = Callable[[str, str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes shell scripts, which are all the programs and launchers that are found."""

    def find(name: str) -> str | None:
        return str(tmp_path / name) if (tmp_path / name).exists() else None

    def make(name: str, script: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    monkeypatch.setattr(machine, "find_program", find)
    monkeypatch.setenv("PATH", str(tmp_path))
    return make
