"""The items that one rank or task gets of an input that is shared out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diel.errors import ModuleError
from diel.files import put
from diel.staging.bring import Brought, Check, bring, no_check
from diel.staging.disk import StagingError
from diel.staging.item import Item, item_of
from diel.staging.local import Local, own_disk
from diel.staging.shard import Shard, items_of, part_of

NOTES = ".staging-"
"""What the files begin with in which processes of a task tell its worker what they copied."""

_notes: list[Brought] = []


def draw(
    name: str,
    value: Any,
    shard: Shard,
    rank: int,
    ranks: int,
    epoch: int,
    local: Local,
    environ: Mapping[str, str],
) -> list[Any]:
    """One part of an input in an epoch: paths, values, or numbers of rows.

    Where the input is staged, what is missing on the node's disk is brought there first; where that
    fails, the paths are those of the shared file system. Raises ModuleError for a part or an epoch
    that there is not, and for what cannot be shared out.
    """
    part, parts = (rank, ranks) if shard.by == "rank" else (shard.part, shard.parts)
    items = items_of(name, value)
    numbers = part_of(range(len(items)), part, parts, shard.seed, epoch)
    if isinstance(items, range):
        return numbers
    chosen = [items[number] for number in numbers]
    if isinstance(value, list | tuple):
        files = [bool(shard.digests) and bool(shard.digests[number]) for number in numbers]
        digests = [shard.digests[number] if shard.digests else "" for number in numbers]
    else:  # of a directory: its own digest stands for those of its files, by their path in it
        files = [True] * len(numbers)
        within = shard.digests[0] if shard.digests else ""
        digests = [f"{within}/{os.path.relpath(path, value)}" if within else "" for path in chosen]
    if shard.stage and chosen:
        wanted = [
            item_of(str(path), digest) if digest else None
            for path, digest in zip(chosen, digests, strict=True)
        ]
        chosen = _staged(chosen, wanted, local, environ, f"{name}/{part}/{epoch}")
    return [Path(item) if file else item for item, file in zip(chosen, files, strict=True)]


def _staged(
    chosen: Sequence[Any],
    wanted: Sequence[Item | None],
    local: Local,
    environ: Mapping[str, str],
    tag: str,
) -> list[Any]:
    items = [item for item in wanted if item is not None]
    if not items:
        return list(chosen)
    brought, entries = fetch(items, local, environ, tag=tag)
    note(brought)
    if not entries:
        return list(chosen)
    return [
        path if item is None else f"{entries}/{item.key}/d/{item.name}"
        for path, item in zip(chosen, wanted, strict=True)
    ]


def fetch(
    items: Sequence[Item], local: Local, environ: Mapping[str, str], check: Check = no_check, tag: str = ""
) -> tuple[Brought, str]:
    """Brings artifacts to this node's disk; where the copies are, or an empty text.

    Empty with a warning where that cannot be, and without one where there is nothing to gain: the
    artifacts lie on the disk that would be taken, and nobody has named it.
    """
    try:
        disk = own_disk(local, environ)
        if not disk.named and _same_disk(items, disk.root):
            return Brought(found=len(items)), ""
        return bring(disk, items, check, tag), disk.entries
    except StagingError as error:
        return Brought(warning=str(error)), ""
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return Brought(warning=f"{where}{error.strerror}"), ""


def _same_disk(items: Sequence[Item], root: str) -> bool:
    device = os.stat(root).st_dev
    return all(os.stat(item.source).st_dev == device for item in items)


def note(brought: Brought) -> None:
    """Keeps what was brought, to be told at the end of the task."""
    _notes.append(brought)


def take_notes() -> list[Brought]:
    """What was copied since the last call because somebody asked for a part."""
    taken = list(_notes)
    _notes.clear()
    return taken


def leave_notes(task_dir: str, *, all_of_them: bool = False) -> None:
    """Tells the worker of the task what this process copied, or also what it found."""
    for number, brought in enumerate(take_notes()):
        if not (all_of_them or brought.copied or brought.warning):
            continue
        place = f"{task_dir}/{NOTES}{os.uname().nodename}-{os.getpid()}-{number}.json"
        put(place, json.dumps(brought.document()))


def read_notes(task_dir: str) -> list[Brought]:
    """What processes of a task told; each is told once."""
    found = []
    for entry in sorted(os.listdir(task_dir)):
        if entry.startswith(NOTES) and entry.endswith(".json"):
            path = os.path.join(task_dir, entry)
            found.append(Brought(**json.loads(Path(path).read_text(encoding="utf-8"))))
            os.unlink(path)
    return found


def read_shards(environ: Mapping[str, str]) -> tuple[dict[str, Shard], dict[str, Any], Local]:
    """The shards, inputs and disk of the task that a program runs in.

    Raises ModuleError where it runs in none that has any.
    """
    try:
        document = json.loads(Path(environ["DIEL_SHARDS"]).read_text(encoding="utf-8"))
        inputs = json.loads(Path(environ["DIEL_INPUTS"]).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError) as error:
        raise ModuleError(
            "no input to share out here: this is for the command of a task, of which an input has `shard`"
        ) from error
    shards = {
        name: Shard(**{**told, "digests": tuple(told["digests"])})
        for name, told in document["shards"].items()
    }
    return shards, inputs, Local(**document["local"])


def write_shards(path: str, shards: Mapping[str, Shard], local: Local) -> None:
    """Leaves a task's shards for the programs that it starts."""
    told = {
        name: {field: getattr(shard, field) for field in Shard.__slots__} for name, shard in shards.items()
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"shards": told, "local": {"folder": local.folder, "size": local.size}}, file)
