"""Parsl is loaded without what diel does not use of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from diel.executors.parsl import BlockEngine
from diel.executors.workers import Workers
from diel.paths import RunPaths

LIGHT = "import sys; from diel.executors.light import *; own(); load(); import diel.executors.parsl"


@pytest.mark.parametrize("name", ["typeguard", "requests"])
def test_parsl_comes_without_what_checks_types_and_asks_the_internet(name: str) -> None:
    text = f"{LIGHT}; print({name!r} in sys.modules); import {name}; print({name}.__file__)"
    said = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.split()
    assert said[0] == "False"
    assert said[1].endswith(f"{name}/__init__.py")  # others get the real one


@pytest.mark.parametrize("nodes", [0, 2])
def test_no_server_is_asked_for_this_hosts_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("parsl.addresses.address_by_query", lambda: asked.append("query"))
    engine = BlockEngine(RunPaths(tmp_path), ["127.0.0.1"], lambda label, number, command: "1")
    engine.open("cpu", Workers(1, nodes, (), 60, 8, 60))
    engine.stop()
    assert asked == []


def test_parsl_comes_without_a_database_library_which_others_can_still_load() -> None:
    pytest.importorskip("sqlalchemy", reason="comes with the extra `search`")
    text = f"{LIGHT}; print('sqlalchemy' in sys.modules); import sqlalchemy; print(sqlalchemy.__name__)"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "sqlalchemy"]
