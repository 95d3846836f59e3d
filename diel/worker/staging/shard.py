"""Shards: which part of an input one rank or task gets, in a new random order for each epoch.

Items are sorted by numbers that Mersenne Twister draws, one for each, seeded by BLAKE2b (8 bytes, big endian)
of the text `SEED/EPOCH`: the same on every machine. Part p of n takes the items p, p + n, p + 2n, … of that
order: over all parts each item comes exactly once an epoch, and the parts differ by one item at most.
"""

import ast
import hashlib
import json
import os
import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from diel.base.errors import ModuleError
from diel.worker.staging.disk import fetch, note
from diel.worker.staging.item import Local, Shard, flat, item_of

T = TypeVar("T")
_NPY = b"\x93NUMPY"


def order(count: int, seed: int, epoch: int) -> list[int]:
    """Return the items of an epoch by number, in its order."""
    text = hashlib.blake2b(f"{seed}/{epoch}".encode(), digest_size=8).digest()
    draw = random.Random(int.from_bytes(text, "big")).random
    keys = [draw() for _ in range(count)]
    return sorted(range(count), key=keys.__getitem__)


def part_of(items: Sequence[T], part: int, parts: int, seed: int, epoch: int) -> list[T]:
    """Return one part of the items, in the epoch's order. Raise ModuleError for a wrong part or epoch."""
    if not 0 <= part < parts:
        raise ModuleError(f"part {part} of {parts}: expected 0 to {parts - 1}")
    if epoch < 0:
        raise ModuleError(f"epoch {epoch}: expected 0, 1, 2, …")
    return [items[number] for number in order(len(items), seed, epoch)[part::parts]]


def items_of(name: str, value: Any) -> Sequence[Any]:
    """Return the items to split: of a list, a directory, or an array's rows by number. Raise ModuleError."""
    if isinstance(value, list | tuple):
        return flat(value)
    if isinstance(value, str | Path):
        path = os.fspath(value)
        if os.path.isdir(path):
            return files_below(path)
        if path.endswith(".npy"):
            return range(_rows(name, path))
    raise ModuleError(
        f"input '{name}' cannot be split: expected a list, a directory, or an array in a .npy file; "
        f"found {os.path.basename(value) if isinstance(value, str) else type(value).__name__}"
    )


def files_below(path: str) -> list[str]:
    """Return the files of a directory and those below it, sorted by their path; hidden ones are left out."""
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if not name.startswith(".")
    )


def _rows(name: str, path: str) -> int:
    """Return the size of an array's first dimension, from its header (NumPy's format, versions 1 to 3)."""
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
        raise ModuleError(f"input '{name}': {path} is not an array file: {error}") from error
    raise ModuleError(f"input '{name}': {path} is not an array with rows")


def draw(
    name: str,
    value: Any,
    shard: Shard,
    rank: int,
    ranks: int,
    epoch: int,
    local: Local | None,
    environ: Mapping[str, str],
) -> list[Any]:
    """Draw one part of an input in an epoch: paths, values, or numbers of rows. Raise ModuleError. What is
    staged is brought to the node's disk first; where that fails, the paths are those of the run."""
    part, parts = (rank, ranks) if shard.by == "rank" else (shard.part, shard.parts)
    items = items_of(name, value)
    numbers = part_of(range(len(items)), part, parts, shard.seed, epoch)
    if isinstance(items, range):
        return numbers
    chosen, is_list = [items[number] for number in numbers], isinstance(value, list | tuple)
    if not shard.digests:
        digests = [""] * len(chosen)
    elif is_list:
        digests = [shard.digests[number] for number in numbers]
    else:  # a directory: its own digest covers those of its files, by their path in it
        digests = [f"{shard.digests[0]}/{os.path.relpath(path, value)}" for path in chosen]
    places = chosen
    if shard.stage:
        places = _staged(chosen, digests, local or Local(), environ, f"{name}/{part}/{epoch}")
    return [
        Path(item) if digest or not is_list else item for item, digest in zip(places, digests, strict=True)
    ]


def _staged(
    chosen: list[Any], digests: list[str], local: Local, environ: Mapping[str, str], tag: str
) -> list[Any]:
    """Return the chosen items, with copies in place of artifacts."""
    pairs = zip(chosen, digests, strict=True)
    needs = [item_of(str(path), digest) if digest else None for path, digest in pairs]
    items = [item for item in needs if item is not None]
    if not items:
        return chosen
    brought, entries = fetch(items, local, environ, tag=tag)
    note(brought)
    copies = (None if item is None or not entries else item.below(entries) for item in needs)
    return [copy or path for copy, path in zip(copies, chosen, strict=True)]


def read_shards(environ: Mapping[str, str]) -> tuple[dict[str, Shard], dict[str, Any], Local]:
    """Read the shards, inputs and disk of a program's task. Raise ModuleError without any."""
    try:
        document = json.loads(Path(environ["DIEL_SHARDS"]).read_text(encoding="utf-8"))
        inputs = json.loads(Path(environ["DIEL_INPUTS"]).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError) as error:
        raise ModuleError(
            "no input to split here: this is for the command of a task with an input that has `shard`"
        ) from error
    entries = document["shards"].items()
    shards = {name: Shard(**{**facts, "digests": tuple(facts["digests"])}) for name, facts in entries}
    return shards, inputs, Local(**document["local"])


def write_shards(path: str, shards: Mapping[str, Shard], local: Local) -> None:
    """Leave a task's shards for the programs that it starts."""
    document = {"shards": {name: shard._asdict() for name, shard in shards.items()}, "local": local._asdict()}
    Path(path).write_text(json.dumps(document), encoding="utf-8")
