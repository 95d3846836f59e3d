"""The schedulers that are installed: by their entry points, and those that answer on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from diel.errors import UsageError
from diel.extensions import SCHEDULERS, class_named, names_in
from diel.scheduler.job import SchedulerBusy
from diel.scheduler.nodes import Dialect
from diel.scheduler.scheduler import Scheduler


def scheduler_named(name: str) -> Scheduler:
    """The scheduler that a site names. Raises UsageError where it is not installed, or cannot be used."""
    kind: type[Scheduler] = class_named(SCHEDULERS, name, Scheduler)
    return kind()


def usable_schedulers() -> Iterator[tuple[str, Scheduler]]:
    """All that are installed, by name; one that cannot be loaded is no affair of those who do not name it."""
    for name in names_in(SCHEDULERS):
        try:
            yield name, scheduler_named(name)
        except UsageError:
            continue


def find_dialects() -> dict[str, Dialect]:
    """The schedulers that answer here, by name; those behind another's commands last.

    No longer than a minute, where all servers are down; at once where there are no commands.
    """
    found = {}
    for name, scheduler in usable_schedulers():
        try:
            dialect = scheduler.dialect()
        except SchedulerBusy:
            continue
        if dialect is not None:
            found[name] = dialect
    return dict(sorted(found.items(), key=lambda item: item[1].wrapper))
