"""Shards: which part of an input one rank or task gets, in an order that is drawn anew for each epoch.

The order of an epoch is the same on every machine. Items are sorted by numbers that Mersenne Twister draws,
one for each, seeded by BLAKE2b (8 bytes, big endian) of the text `SEED/EPOCH`; Python promises that
`random.random()` stays what it is for a seed. Part p of n takes the items p, p + n, p + 2n, … of that order:
over all parts each item comes exactly once an epoch, and the parts differ by one item at most.
"""

from __future__ import annotations

import ast
import hashlib
import os
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from diel.errors import ModuleError

T = TypeVar("T")
_NPY = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class Shard:
    """How an input is shared out."""

    by: Literal["rank", "task"]
    seed: int = 0
    part: int = 0
    """By task: which of the parts this task gets."""
    parts: int = 1
    digests: tuple[str, ...] = ()
    """Of the artifacts that the input is; an empty text for what is a value."""
    stage: bool = False
    """Whether a part is brought to the node's disk once it is asked for."""


def order(count: int, seed: int, epoch: int) -> list[int]:
    """The items of an epoch by number, in its order."""
    text = hashlib.blake2b(f"{seed}/{epoch}".encode(), digest_size=8).digest()
    draw = random.Random(int.from_bytes(text, "big")).random
    keys = [draw() for _ in range(count)]
    return sorted(range(count), key=keys.__getitem__)


def part_of(items: Sequence[T], part: int, parts: int, seed: int, epoch: int) -> list[T]:
    """One part of the items, in the epoch's order.

    Raises ModuleError for a part that there is none of, or a negative epoch.
    """
    if not 0 <= part < parts:
        raise ModuleError(f"part {part} of {parts}: expected 0 to {parts - 1}")
    if epoch < 0:
        raise ModuleError(f"epoch {epoch}: expected 0, 1, 2, …")
    return [items[number] for number in order(len(items), seed, epoch)[part::parts]]


def items_of(name: str, value: Any) -> Sequence[Any]:
    """What an input is shared out as: the items of a list, the files of a directory, the rows of an array.

    Rows are told by their number. Raises ModuleError for anything else.
    """
    if isinstance(value, list | tuple):
        return flat(value)
    if isinstance(value, str | Path):
        path = os.fspath(value)
        if os.path.isdir(path):
            return files_below(path)
        if path.endswith(".npy"):
            return range(_rows(name, path))
    raise ModuleError(
        f"input '{name}' cannot be shared out: expected a list, a directory, or an array in a .npy file; "
        f"found {os.path.basename(value) if isinstance(value, str) else type(value).__name__}"
    )


def flat(value: Sequence[Any]) -> list[Any]:
    """The items of a list, or of the lists that are in it: gathered lists of files are one."""
    if value and all(isinstance(item, list | tuple) for item in value):
        return [item for inner in value for item in inner]
    return list(value)


def files_below(path: str) -> list[str]:
    """The files of a directory and those below it, sorted by their path; hidden ones are left out."""
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if not name.startswith(".")
    )


def _rows(name: str, path: str) -> int:
    """The size of an array's first dimension, from its file's header (NumPy's format, versions 1 to 3)."""
    try:
        with open(path, "rb") as file:
            start = file.read(8)
            wide = start[6:7] != b"\x01"
            (length,) = struct.unpack("<I" if wide else "<H", file.read(4 if wide else 2))
            header = ast.literal_eval(
                file.read(length).decode("utf-8" if start[6:7] == b"\x03" else "latin1")
            )
        if start[:6] == _NPY and header["shape"]:
            return int(header["shape"][0])
    except (OSError, ValueError, KeyError, TypeError, struct.error, SyntaxError) as error:
        raise ModuleError(f"input '{name}': {path} is no array file: {error}") from error
    raise ModuleError(f"input '{name}': {path} is no array with rows")
