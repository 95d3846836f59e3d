"""Which launcher starts a task's ranks, and its words: the stage chooses, else its pool, else the site."""

from __future__ import annotations

import re

from diel.site.shape import nodes_of
from diel.site.site import Site
from diel.spec import Resources


def chosen_launcher(site: Site, pool: str, wanted: Resources) -> tuple[str, ...] | str:
    """The launcher of a task: its name, or its words where the site file gives it none."""
    return wanted.launcher or site.pools[pool].launcher or site.launcher


def launcher_words(site: Site, pool: str, wanted: Resources) -> tuple[str, ...]:
    """The words that start a task's ranks; empty for a name that the site does not have.

    {hosts} stays: only the worker knows the nodes that the task was given.
    """
    chosen = chosen_launcher(site, pool, wanted)
    words = site.launchers.get(chosen, ()) if isinstance(chosen, str) else chosen
    nodes = nodes_of(wanted)
    places = {
        "{ranks}": str(wanted.processes),
        "{nodes}": str(nodes),
        "{ranks_per_node}": str(wanted.ranks_per_node or -(-wanted.processes // nodes)),
        "{cores_per_rank}": str(wanted.cores_per_rank),
    }
    put_in = re.compile(rf"(?<!\$)({'|'.join(map(re.escape, places))})")  # the shell's `${{NAME}}` stays
    return tuple(put_in.sub(lambda place: places[place[1]], word) for word in words)
