"""Artifacts to delete: all their readers have succeeded.

With `keep: false` the controller deletes them as the run goes; `diel clean --intermediate` deletes
those of any output that other stages read, afterwards.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from diel.base.errors import DielError
from diel.base.paths import RunPaths, epoch_of
from diel.store.artifacts import files_of
from diel.store.journal.records import Dropped, Made
from diel.store.journal.snapshot import read_run
from diel.store.journal.stage_history import ranges
from diel.store.project.runs import all_runs, identity_of_run
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link
from diel.tasks.points.domain import Group
from diel.tasks.stage_run import StageRun

Place = tuple[str, str]
"""A stage and one of its outputs."""


class Readers:
    """Counts who has read the outputs of stages: tasks with a result, or left out; none that failed."""

    def __init__(self, links: Iterable[Link]) -> None:
        self.links: dict[Place, list[Link]] = {}
        """Edges by the output that they read."""
        self._into: dict[str, list[tuple[int, Link]]] = {}
        self._counts: dict[tuple[int, Group], int] = {}
        for number, link in enumerate(links):
            assert link.edge.output is not None
            self.links.setdefault((link.edge.upstream, link.edge.output), []).append(link)
            self._into.setdefault(link.edge.downstream, []).append((number, link))
        self._numbers = {id(link): number for into in self._into.values() for number, link in into}

    def reads(self, stage: str) -> bool:
        """Return whether a stage is one of the readers."""
        return stage in self._into

    def count(self, stage: StageRun, index: int) -> list[tuple[Link, Group | None]]:
        """Count a success; return each link that is done with reading, with its group (None: all)."""
        over: list[tuple[Link, Group | None]] = []
        for number, link in self._into.get(stage.name, ()):
            if link.edge.chosen:
                if stage.complete and _all_well(stage):
                    over.append((link, None))
                continue
            group = link.group_of_downstream(index)
            waiting = _waiting(link, group)
            if waiting > 1:  # a single reader's own state says it
                count = self._counts[(number, group)] = self._counts.get((number, group), 0) + 1
                waiting -= count - 1
            if waiting == 1:
                over.append((link, group))
        return over

    def count_ended(self, stage: StageRun) -> None:
        """Count the tasks of a stage that have succeeded so far."""
        for index in range(stage.size if self.reads(stage.name) else 0):
            if ended_well(stage, index):
                self.count(stage, index)

    def done_with(self, place: Place, index: int) -> bool:
        """Return whether nobody needs an output of a task any longer."""
        return all(self._is_over(link, index) for link in self.links[place])

    def _is_over(self, link: Link, index: int) -> bool:
        if not link.down.known or link.picked is None:
            return False
        if link.edge.chosen:
            return _all_well(link.down)
        group = link.group_of_upstream(index)
        if group is None:
            return True  # the reader picks other tasks
        waiting = _waiting(link, group)
        if waiting == 1:
            return all(ended_well(link.down, index) for index in link.dependents(group))
        return self._counts.get((self._numbers[id(link)], group), 0) == waiting


def _waiting(link: Link, group: Group) -> int:
    return link.down.domain.count(dict(zip(link.edge.matched, group, strict=True)))


def ended_well(stage: StageRun, index: int) -> bool:
    """Return whether a task has a result, or was left out by its `when`."""
    return stage.history.state(index).good or index in stage.omitted


def _all_well(stage: StageRun) -> bool:
    return stage.known and all(ended_well(stage, index) for index in range(stage.size))


def reading(links: Iterable[Link]) -> Iterator[Link]:
    """Yield the links whose files can go afterwards: not those that axes and services read again."""
    selected = [link for link in links if link.edge.output is not None and link.edge.published is None]
    again = {(link.edge.upstream, link.edge.output) for link in selected if not link.feeds}
    return (link for link in selected if (link.edge.upstream, link.edge.output) not in again)


def lent(paths: RunPaths) -> bool:
    """Return whether another run took results of this one from the cache: it may still read their files."""
    own = {paths.run_id, identity_of_run(paths.root)}
    for other in all_runs(paths.root.parent):
        try:
            if other.root != paths.root and not own.isdisjoint(read_run(other).history.origins):
                return True
        except DielError:
            return True  # nobody can tell
    return False


class ArtifactCollector:
    """Deletes outputs with `keep: false` once their readers succeeded; while the run goes on, no other run
    takes them from the cache, but what was taken before a resume stays."""

    def __init__(self, runs: Mapping[str, StageRun], links: Iterable[Link], ledger: Ledger) -> None:
        self._runs = runs
        self._ledger = ledger
        loose = {
            (name, label)
            for name, run in runs.items()
            for label, output in run.spec.outputs.items()
            if not output.keep
        }
        readers = (link for link in reading(links) if (link.edge.upstream, link.edge.output) in loose)
        self._readers = Readers(readers if loose else ())
        self._epoch = epoch_of(ledger.segment.name)
        self._is_lent = bool(loose) and self._epoch > 1 and lent(ledger.paths)

    def note_end(self, stage: StageRun, index: int) -> None:
        """Delete the outputs that only an ended task still needed."""
        if not self._readers.reads(stage.name) or not ended_well(stage, index):
            return
        for link, group in self._readers.count(stage, index):
            members = range(link.up.size) if group is None else link.members(group)
            self._drop((link.edge.upstream, str(link.edge.output)), members)

    def note_open(self, stage: StageRun) -> None:
        """Count the tasks that had ended before this controller took over."""
        self._readers.count_ended(stage)

    def catch_up(self) -> None:
        """Delete the outputs that the previous controller had not yet deleted."""
        for place in self._readers.links:
            if any(link.down.ended for link in self._readers.links[place]):
                self._drop(place, range(self._runs[place[0]].size))

    def _drop(self, place: Place, indices: Iterable[int]) -> None:
        """Delete first, record then: if the controller is killed in between, the next one does it again."""
        name, output = place
        stage = self._runs[name]
        dropped = stage.history.dropped.get(output, ())
        gone: list[int] = []
        freed = 0
        for index in indices:
            if index in dropped or not stage.history.state(index).good:
                continue
            if self._is_lent and epoch_of(self._ledger.results.place(name, index)[0]) < self._epoch:
                continue  # another run may use outputs of an earlier controller's workers
            if self._readers.done_with(place, index):
                size = delete(self._ledger.results.record(name, index), name, output, self._ledger.paths.root)
                if size is not None:
                    gone.append(index)
                    freed += size
        if gone:
            self._ledger.append(dropped_record(place, gone, freed))


def dropped_record(place: Place, tasks: Iterable[int], freed: int) -> Dropped:
    """Return the record of tasks whose output was deleted, with the freed bytes."""
    gone = ranges(sorted(tasks))
    return {"event": "dropped", "stage": place[0], "output": place[1], "tasks": gone, "bytes": freed}


def own_files(record: Made, stage: str, output: str, root: Path) -> dict[str, str] | None:
    """Return an artifact's files with their real paths; None where they must stay: they are no files, lie in
    another run, or share their place with another output of the task."""
    artifacts = record.get("artifacts", {})
    if "run" in record or output not in artifacts:
        return None
    home = os.path.realpath(root / "tasks" / stage)
    places = {name: [f"{root}/{file['path']}" for file in files_of(item)] for name, item in artifacts.items()}
    resolved = {name: {path: os.path.realpath(path) for path in paths} for name, paths in places.items()}
    own = resolved.pop(output)
    foreign = {real for files in resolved.values() for real in files.values()}
    above = {folder for other in foreign for folder in _above(other, home)}
    inside = all(real.startswith(f"{home}/") and real not in above for real in own.values())
    return own if inside and all(foreign.isdisjoint(_above(real, home)) for real in own.values()) else None


def _above(path: str, home: str) -> Iterator[str]:
    """Yield the parent directories of a path below another, and the path itself."""
    while path.startswith(f"{home}/"):
        yield path
        path = os.path.dirname(path)


def delete(record: Made, stage: str, output: str, root: Path) -> int | None:
    """Delete an artifact; return the bytes freed, or None if it must stay (see `own_files`)."""
    files = own_files(record, stage, output, root)
    if files is None:
        return None
    freed = 0
    for path, real in files.items():
        freed += _remove(real)
        if os.path.islink(path):
            os.unlink(path)
    return freed


def _remove(path: str) -> int:
    """Remove a file or directory; return the bytes freed: a file with another hard link stays."""
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
