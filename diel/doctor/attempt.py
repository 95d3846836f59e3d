"""Starting a program to see what it says."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 60.0
"""Seconds that a program which is tried may take."""


def attempt(
    words: Sequence[str], folder: Path | None = None, patience: float | None = None
) -> tuple[int, str]:
    """Exit code and output of a program; what does not start or end counts as failed."""
    limit = PATIENCE if patience is None else patience
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"did not end within {limit:.0f} s"
    except OSError as error:
        return 1, error.strerror or str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last(output: str) -> str:
    """The last line of an output that says something."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"
