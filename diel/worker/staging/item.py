"""What a task's job says about its nodes' disks: items to copy, shards of inputs, the site's directory.

A staged artifact appears in a task's texts as `/.diel-node/KEY/d/NAME`, long before its node is known; the
worker puts its own directory in the place of the beginning, within the same quotes of the shell.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

AT_NODE = "/.diel-node"
"""The placeholder for the node's own directory until a node is known."""


class Local(NamedTuple):
    """What a site says about its nodes' disks."""

    folder: str = ""
    """May name variables, which each node fills in; empty if the site names no directory."""
    size: int | None = None
    """Bytes that diel may keep there; None for all that is free."""


class Shard(NamedTuple):
    """How an input is split."""

    by: Literal["rank", "task"]
    seed: int = 0
    part: int = 0
    """By task: which of the parts this task gets."""
    parts: int = 1
    digests: tuple[str, ...] = ()
    """Digests of the input's artifacts; an empty text for a value."""
    stage: bool = False
    """Whether a part is copied to the node's disk on first use."""


def flat(value: Sequence[Any]) -> list[Any]:
    """Return the items of a list, or of the lists that are in it: gathered lists of files are one."""
    if value and all(isinstance(item, list | tuple) for item in value):
        return [item for inner in value for item in inner]
    return list(value)


class Item(NamedTuple):
    """A file or directory to copy to a node."""

    key: str
    """Names the copy: the same content under the same name is the same copy, whichever run made it."""
    source: str

    @property
    def name(self) -> str:
        return os.path.basename(self.source)

    def below(self, entries: str) -> str:
        """Return the path of the copy in a node's directory of copies, or in its placeholder (`AT_NODE`)."""
        return f"{entries}/{self.key}/d/{self.name}"


def item_of(source: str, digest: str) -> Item:
    """Return an artifact by its path and its recorded digest; the content is not read."""
    source = source.rstrip("/")
    text = f"{digest}\0{os.path.basename(source)}"
    return Item(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest(), source)


def placed(value: Any, entries: str) -> Any:
    """Return a JSON value with the copies below `entries` in place of their placeholders."""
    if isinstance(value, str):
        if f"{AT_NODE}/" not in value:
            return value
        text = value.replace(f"{AT_NODE}/", f"{entries}/")
        digest = getattr(value, "digest", None)  # of an artifact, which stays one
        kind: Any = type(value)
        return text if digest is None else kind(text, digest, getattr(value, "inside", None))
    if isinstance(value, Mapping):
        return {key: placed(item, entries) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(placed(item, entries) for item in value)
    return value
