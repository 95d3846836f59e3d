"""Checkpoints that any mesh can go on from.

Each rank writes its own share by `torch.distributed.checkpoint`, which files weights and the optimizer's
state by their names in the whole network: a mesh of another shape reads the parts that it needs (decision
065).
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as read
from torch.distributed.checkpoint.state_dict_saver import save as write

from diel.files import put
from diel.pytorch.parallel.placed import Placed

NOTE = "training.json"
"""What all ranks have in common: the last file of a checkpoint that is written."""
_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def save(folder: Path, placed: Placed, optimizer: torch.optim.Optimizer, note: dict[str, Any]) -> None:
    """Leaves a checkpoint, which counts once its note is there. All ranks must call it."""
    world = placed.world
    if world.rank == 0:
        shutil.rmtree(folder, ignore_errors=True)  # half of one, of an attempt that was killed
        folder.mkdir(parents=True)
    world.agree(None)
    writer = FileSystemWriter(folder, sync_files=False)
    with _quiet():
        write(_state(placed, optimizer), storage_writer=writer, no_dist=world.comm is None)
    if world.rank == 0:
        put(folder / NOTE, json.dumps(note))
    world.agree(None)


def load(folder: Path, placed: Placed, optimizer: torch.optim.Optimizer) -> None:
    """Goes on from a checkpoint of any mesh. All ranks must call it, and it fails on all or on none.

    Raises ValueError where it is damaged, which may leave some of its weights, or not of this network.
    """
    if flaw := placed.world.agree(_flaw_of(folder)):
        raise ValueError(flaw)
    state = _state(placed, optimizer)
    try:
        with _quiet():
            read(state, storage_reader=FileSystemReader(folder), no_dist=placed.world.comm is None)
    except (CheckpointException, ValueError, RuntimeError) as error:
        first = "".join(str(error).strip().splitlines()[-1:])
        raise ValueError(f"{folder} is damaged, or of another network or optimizer: {first}") from error
    set_model_state_dict(placed.part, state["network"])
    set_optimizer_state_dict(placed.part, optimizer, state["optimizer"], options=_FLAT)


def _flaw_of(folder: Path) -> str:
    """Why the list of what a checkpoint holds cannot be read: PyTorch's own reading tells that at length."""
    try:
        FileSystemReader(folder).read_metadata()
    except Exception as error:  # whatever a pickle's damage leads to
        return f"{folder / '.metadata'} is damaged: {type(error).__name__}: {error}"
    return ""


def complete(folder: Path) -> list[Path]:
    """A checkpoint itself, or those in a folder of them, that of most steps first."""
    if (folder / NOTE).is_file():
        return [folder]
    found = [path for path in folder.glob("step-*") if (path / NOTE).is_file()]
    return sorted(found, key=steps_of, reverse=True)


def steps_of(checkpoint: Path) -> int:
    """Steps before a checkpoint, as its name says."""
    return int(checkpoint.name.removeprefix("step-"))


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch warns a single rank that it is alone."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield


def _state(placed: Placed, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {
        "network": get_model_state_dict(placed.part),
        "optimizer": get_optimizer_state_dict(placed.part, optimizer, options=_FLAT),
    }
