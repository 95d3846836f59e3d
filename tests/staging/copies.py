"""Files on the shared file system, and what of them lies on a node's disk."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

from diel.worker.staging.disk import Disk
from diel.worker.staging.item import Item, item_of

KIB = 1024


def source(folder: Path, name: str, size: int = 4 * KIB) -> Item:
    """A file on the shared file system; its name stands for its digest."""
    path = folder / "shared" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(name.encode() * (size // len(name)))
    return item_of(str(path), f"digest of {name}")


def names(disk: Disk) -> list[str]:
    return sorted(path.name for path in Path(disk.entries).glob("*/d/*"))


def in_another_process(work: Callable[[], object]) -> int:
    """Runs something in a forked process; its exit code."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode
