"""One artifact that is to be on a node's disk, and the path that stands for it until a node is known.

A controller makes a task's texts (inputs, parameters, command line) long before it is known which node runs
the task. A staged artifact stands in them as `/.diel-node/KEY/d/NAME`; the worker puts its own directory in
the place of the beginning. So the controller's quoting for the shell holds for the final path as well.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AT_NODE = "/.diel-node/"
"""What the path of a staged artifact begins with until a node is known."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file or directory that is to be brought to a node."""

    key: str
    """Names the copy: the same content under the same name is the same copy, whichever run made it."""
    source: str
    """Absolute path on the shared file system."""

    @property
    def name(self) -> str:
        return os.path.basename(self.source)


def item_of(source: str, digest: str) -> Item:
    """An artifact by its path and the digest that its record has; the content is not read."""
    source = source.rstrip("/")
    told = f"{digest}\0{os.path.basename(source)}"
    return Item(hashlib.blake2b(told.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest(), source)


def at_node(item: Item) -> str:
    """The path that stands for the copy until a node is known."""
    return f"{AT_NODE}{item.key}/d/{item.name}"


def placed(value: Any, entries: str) -> Any:
    """A JSON value with the copies below `entries` in the place of what stands for them."""
    if isinstance(value, str):
        if AT_NODE not in value:
            return value
        text = value.replace(AT_NODE, entries + "/")
        digest = getattr(value, "digest", None)  # of an artifact, which stays one
        kind: Any = type(value)
        return text if digest is None else kind(text, digest)
    if isinstance(value, Mapping):
        return {key: placed(item, entries) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(placed(item, entries) for item in value)
    return value
