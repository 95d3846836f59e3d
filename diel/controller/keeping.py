"""What need not be kept: artifacts whose readers have all ended well.

With `keep: false` the controller deletes them as the run goes; `diel clean --intermediate` deletes
those of any output that other stages read, afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from diel.artifacts import files_of
from diel.controller.ledger import Ledger
from diel.controller.link import Link
from diel.controller.stage_run import StageRun
from diel.domain import Group
from diel.journal.history import ranges
from diel.journal.segment import Record

Place = tuple[str, str]
"""A stage and one of its outputs."""


class Readers:
    """Who reads the outputs of some stages, and how many of them have ended well.

    A task has ended well if it has a result, or was left out by `when`. One that failed may be tried
    again, and then needs what it reads.
    """

    def __init__(self, links: Iterable[Link]) -> None:
        self.links: dict[Place, list[Link]] = {}
        """By what they read."""
        self._into: dict[str, list[tuple[int, Link]]] = {}
        self._counts: dict[tuple[int, Group], int] = {}
        for number, link in enumerate(links):
            assert link.edge.output is not None
            self.links.setdefault((link.edge.upstream, link.edge.output), []).append(link)
            self._into.setdefault(link.edge.downstream, []).append((number, link))
        self._numbers = {id(link): number for into in self._into.values() for number, link in into}

    def reads(self, stage: str) -> bool:
        """Whether a stage is one of the readers."""
        return stage in self._into

    def count(self, stage: StageRun, index: int) -> list[tuple[Link, Group | None]]:
        """Takes in that a task ended well; gives the links by which nothing more is read, each with the
        group of which that holds, None for all upstream tasks."""
        over: list[tuple[Link, Group | None]] = []
        for number, link in self._into.get(stage.name, ()):
            if link.edge.chosen:
                if stage.complete and _all_well(stage):
                    over.append((link, None))
                continue
            group = link.group_of_downstream(index)
            count = self._counts[(number, group)] = self._counts.get((number, group), 0) + 1
            if count == _waiting(link, group):
                over.append((link, group))
        return over

    def done_with(self, place: Place, index: int) -> bool:
        """Whether nobody needs an output of a task any more."""
        return all(self._is_over(link, index) for link in self.links[place])

    def _is_over(self, link: Link, index: int) -> bool:
        if link.down.domain is None or link.picked is None:
            return False
        if link.edge.chosen:
            return _all_well(link.down)
        group = link.group_of_upstream(index)
        if group is None:
            return True  # it reads others
        return self._counts.get((self._numbers[id(link)], group), 0) == _waiting(link, group)


def _waiting(link: Link, group: Group) -> int:
    """How many tasks read a group."""
    assert link.down.domain is not None
    return link.down.domain.count(dict(zip(link.edge.matched, group, strict=True)))


def ended_well(stage: StageRun, index: int) -> bool:
    """Whether a task has a result, or was left out by its `when`."""
    return stage.history.state(index).good or index in stage.omitted


def _all_well(stage: StageRun) -> bool:
    return stage.domain is not None and all(ended_well(stage, index) for index in range(stage.size))


def reading(links: Iterable[Link]) -> Iterator[Link]:
    """The links along which files may go whose maker can do without them afterwards.

    What an axis is made of is read again, whenever its points are, and a service may start again.
    """
    found = [link for link in links if link.edge.output is not None and link.edge.published is None]
    again = {
        (link.edge.upstream, link.edge.output)
        for link in found
        if link.edge.axis is not None or link.edge.stream or link.down.spec.service is not None
    }
    return (link for link in found if (link.edge.upstream, link.edge.output) not in again)


class Keeping:
    """Deletes the artifacts of outputs with `keep: false` once their readers have ended well."""

    def __init__(self, runs: Mapping[str, StageRun], links: Iterable[Link], ledger: Ledger) -> None:
        self._runs = runs
        self._ledger = ledger
        loose = {
            (name, label)
            for name, run in runs.items()
            for label, output in run.spec.outputs.items()
            if not output.keep
        }
        wanted = (link for link in reading(links) if (link.edge.upstream, link.edge.output) in loose)
        self._readers = Readers(wanted if loose else ())

    def note_end(self, stage: StageRun, index: int) -> None:
        """A task ended: what only it still needed can go."""
        if not self._readers.reads(stage.name) or not ended_well(stage, index):
            return
        for link, group in self._readers.count(stage, index):
            members = range(link.up.size) if group is None else link.members(group)
            self._drop((link.edge.upstream, str(link.edge.output)), members)

    def count_end(self, stage: StageRun, index: int) -> None:
        """A task had ended before this controller took over."""
        if self._readers.reads(stage.name) and ended_well(stage, index):
            self._readers.count(stage, index)

    def catch_up(self) -> None:
        """Deletes what the controller before did not come to."""
        for place in self._readers.links:
            if any(link.down.ended for link in self._readers.links[place]):
                self._drop(place, range(self._runs[place[0]].size))

    def _drop(self, place: Place, indices: Iterable[int]) -> None:
        """Deletes, then says so: who is killed in between will find the same to do."""
        name, output = place
        stage = self._runs[name]
        dropped = stage.history.dropped.get(output, ())
        gone: list[int] = []
        freed = 0
        for index in indices:
            if index in dropped or not stage.history.state(index).good:
                continue
            if self._readers.done_with(place, index):
                size = delete(self._ledger.results.record(name, index), name, output, self._ledger.paths.root)
                if size is not None:
                    gone.append(index)
                    freed += size
        if gone:
            self._ledger.append("dropped", **told(place, gone, freed))


def told(place: Place, tasks: Iterable[int], freed: int) -> dict[str, Any]:
    """What a `dropped` record says: of which tasks the output is gone, and the bytes that freed."""
    return {"stage": place[0], "output": place[1], "tasks": ranges(sorted(tasks)), "bytes": freed}


def delete(record: Record, stage: str, output: str, root: Path) -> int | None:
    """Deletes an artifact that a task of this run made; says how many bytes that freed.

    None where there is nothing to delete: it is a value, it lies in another run, or another output of
    the task is in the same place.
    """
    artifacts = record.get("artifacts", {})
    if "run" in record or output not in artifacts:
        return None
    home = os.path.realpath(root / "tasks" / stage)
    others = [
        os.path.realpath(root / file["path"])
        for name, entry in artifacts.items()
        if name != output
        for file in files_of(entry)
    ]
    freed = 0
    for file in files_of(artifacts[output]):
        path = root / file["path"]
        real = os.path.realpath(path)
        within = (
            f"{other}/".startswith(f"{real}/") or f"{real}/".startswith(f"{other}/") for other in others
        )
        if not real.startswith(f"{home}/") or any(within):
            return None
        freed += _remove(real)
        if path.is_symlink():
            path.unlink()
    return freed


def _remove(path: str) -> int:
    """Removes a file or directory; says how many bytes that freed: what has another name stays there."""
    freed = 0
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            freed += sum(_size(f"{folder}/{name}") for name in names)
        shutil.rmtree(path, ignore_errors=True)
    else:
        freed = _size(path)
        with contextlib.suppress(OSError):
            os.unlink(path)
    return freed


def _size(path: str) -> int:
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_size if status.st_nlink == 1 else 0
