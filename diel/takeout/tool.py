"""The tools that a run can be handed to; what they read gets into a directory whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from diel.errors import UsageError
from diel.files import filling
from diel.results import Recorded

Writer = Callable[[Recorded, Path, Path], list[str]]
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


def take_out(run: Recorded, name: str, folder: Path) -> list[str]:
    """Writes a run for a tool into a directory, beside what others have there; returns what to say.

    Raises UsageError where the tool's library is not installed, where the run has nothing for it, and
    where the directory has such a file already.
    """
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
    with filling(target, last=tool.file) as part:
        said = write(run, part, target)
    return [*said, f"next: {tool.next.format(folder=folder)}"]
