"""What a task asks for during a run, where expressions of its stage say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from diel.load import Document
from diel.site import Ask, Site
from diel.site.demand import Demand, Words
from diel.tasks.sources import Scope, Sources


def asking(document: Document, site: Site, words: Words, sources: Sources) -> Callable[[int, int], Ask]:
    """What gives the demand of a task, by its index and the number of its attempt. It raises Misfit.

    `words` gives those that start its ranks.
    """
    demand = Demand(document, site, sources.run.name, words)
    return lambda index, attempt: demand.of(_AtAttempt(Scope(sources, index), attempt))


class _AtAttempt(Mapping[str, Any]):
    """The scope of a task at one of its attempts."""

    def __init__(self, scope: Scope, attempt: int) -> None:
        self._scope = scope
        self._attempt = attempt

    def __getitem__(self, name: str) -> Any:
        value = self._scope[name]
        return {**value, "attempt": self._attempt} if name == "task" else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._scope)

    def __len__(self) -> int:
        return len(self._scope)
