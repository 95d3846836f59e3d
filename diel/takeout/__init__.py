"""A run in the formats of other tools, written by their own libraries: one file for each tool."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from diel.errors import DielError, UsageError
from diel.files import filling
from diel.results import RunReader

__all__ = ["TOOLS", "take_out"]
Writer = Callable[[RunReader, Path, Path], list[str]]
"""Writes a run into the first directory, which becomes the second; returns what there is to say about it."""


class Tool(NamedTuple):
    """One that reads what diel writes for it."""

    file: str
    """What it is given to read; a pattern where names are the run's."""
    extra: str
    """The extra of diel with its library; empty if it takes none."""
    next: str
    """What its user does next."""


TOOLS = {
    "mlflow": Tool("mlflow.db", "mlflow", "mlflow server --backend-store-uri sqlite:///{folder}/mlflow.db"),
    "optuna": Tool("optuna.db", "search", "optuna-dashboard sqlite:///{folder}/optuna.db"),
    "tensorboard": Tool("tensorboard", "tensorboard", "tensorboard --logdir {folder}/tensorboard"),
    "rocrate": Tool("ro-crate-metadata.json", "rocrate", "rocrate-validator validate {folder}"),
    "wfformat": Tool("wfformat.json", "", 'wfcommons.Instance("{folder}/wfformat.json")'),
}


def take_out(run: RunReader, name: str, folder: Path) -> list[str]:
    """Write a run for a tool into a directory, beside what others have there; return what to say. Raise
    UsageError where the tool's library is not installed, where the run has nothing for it, and where the
    directory has such a file already; DielError where the disk is full."""
    tool = TOOLS[name]
    target = folder.absolute()
    if (target / tool.file).exists():
        raise UsageError(
            f"{folder / tool.file} is there already, and stays as it is: name another directory, or remove it"
        )
    try:
        # An extra, and slow to import: only when this tool is meant.
        write: Writer = import_module(f"diel.takeout.{name}").write
    except ImportError as error:
        get = f"pip install 'diel[{tool.extra}]'"
        raise UsageError(f"--to {name} needs {error.name}: {get}") from error
    try:
        with filling(target, last=tool.file) as part:
            said = write(run, part, target)
    except Exception as error:
        if _is_full(error):
            raise DielError(f"no room is left in {folder}: make some; nothing was written") from error
        raise
    return [*said, f"next: {tool.next.format(folder=folder)}"]


def _is_full(error: BaseException | None) -> bool:
    """Whether a disk is full, by this or what caused it: libraries wrap what SQLite says."""
    while error is not None:
        full = isinstance(error, sqlite3.Error) and "full" in str(error)
        if full or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
            return True
        error = error.__cause__ or error.__context__
    return False


def hasten(engine: Any) -> None:
    """Have an engine's connections from now on hand their writes to the system, and not wait for the disk."""
    from sqlalchemy import event  # an extra

    engine.dispose()
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
