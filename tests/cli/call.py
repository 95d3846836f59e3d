"""Calling `diel` in this process."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from diel.cli import main


@dataclass(frozen=True)
class Called:
    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *words: str) -> Called:
    """The exit code and what was printed."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(words)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return Called(int(end.value.code or 0), out, err)
