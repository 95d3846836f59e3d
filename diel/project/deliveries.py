"""What runs have put in place for people: each file is written down in its run before it is put there.

So a run delivers a file once. What somebody edited since, or a newer run has delivered, stays; what no run
has made is put aside; a directory is that of one run, without what an earlier one had there.
"""

from __future__ import annotations

import fcntl
import filecmp
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from diel.paths import RunPaths
from diel.project.runs import all_runs

Look = tuple[int, int]
"""Size and time of the last change, in nanoseconds."""


class Delivered(NamedTuple):
    """A file that a run has put in place, or is about to."""

    target: str
    tree: str
    """The directory that it is part of, if that is exported as a whole."""
    source: str
    look: Look
    """Of the source, which its copy has too."""
    before: Look | None
    """Of what was there before; None for nothing."""


class Deliveries:
    """What one run has delivered, and what runs after it have."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._mine = {one.target: one for one in _read(paths)}
        self._earlier: dict[str, list[Delivered]] = {}
        self._others: dict[Path, tuple[int, list[Delivered]]] = {}

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let no other run deliver meanwhile, where the file system knows locks."""
        with open(self._paths.root.parent / ".exports.lock", "w", encoding="ascii") as file:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def keeps(self, source: str, target: str, tree: str) -> str:
        """Return why what is at a place stays there; an empty text where a file is to be put there."""
        there = look(target)
        for run in self._all(newer=True) if there or tree else ():
            if any(one.target == target or (tree and one.tree == tree) for one in self._of(run)):
                return f"{target} is as {run.run_id} delivered it, which is newer; this run has {source}"
        if there is None or not self._before(target) or self._is_made(source, target):
            return ""
        mine = self._mine.get(target)
        if mine is not None and (mine.before == there or mine.source != source):  # never put there; made anew
            return ""
        return f"{target} was changed since; remove it, and `diel resume {self._paths.run_id}` puts it back"

    def put_aside(self, target: str, source: str) -> str:
        """Rename what is at a place if no run has made it; return what to tell of that, or an empty text."""
        if look(target) is None or self._is_made(source, target):
            return ""
        names = (f"{target}~{number or ''}" for number in count())
        aside = next(name for name in names if not os.path.lexists(name))
        os.rename(target, aside)
        return f"{target} was not as a run has put it there: it is {os.path.basename(aside)} now"

    def _before(self, target: str) -> list[Delivered]:
        """What was put at a place so far: by earlier runs, and by this one."""
        mine, there = self._mine.get(target), look(target)
        if all(one.look != there for one in (*self._earlier.get(target, ()), *([mine] if mine else []))):
            self._earlier = {}  # an earlier run may still be going
            for one in (one for run in self._all(newer=False) for one in self._of(run)):
                self._earlier.setdefault(one.target, []).append(one)
        return [*self._earlier.get(target, ()), *([mine] if mine else [])]

    def _is_made(self, source: str, target: str) -> bool:
        """Whether a file is as a run has put it there, or has the content of what is to be put there."""
        there, before = look(target), self._before(target)
        if any(one.look == there for one in before):
            return True
        return any(are_equal(path, target) for path in {source, *(one.source for one in before)})

    def note(self, source: str, target: str, tree: str) -> None:
        """Write down that a file is put in place now."""
        now = look(source)
        assert now is not None
        one = Delivered(target, tree, source, now, look(target))
        with open(self._paths.exports, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(json.dumps(one) + "\n")
        self._mine[target] = one

    def left_over(self, tree: str, source: str) -> list[str]:
        """Return what earlier deliveries left in a directory, which is now `source`, if that is one."""
        found = [one for run in self._all(newer=False) for one in self._of(run)]
        others = [one for one in found if self._mine.get(one.target, one) is one]
        others += [one for one in self._mine.values() if source and not one.source.startswith(f"{source}/")]
        return [one.target for one in others if one.tree == tree and look(one.target) == one.look]

    def _all(self, *, newer: bool) -> list[RunPaths]:
        runs = all_runs(self._paths.root.parent)
        place = [run.root.name for run in runs].index(self._paths.root.name)
        return runs[place + 1 :] if newer else runs[:place]

    def _of(self, run: RunPaths) -> list[Delivered]:
        size = (look(run.exports) or (0, 0))[0]
        known = self._others.get(run.root)
        if known is None or known[0] != size:
            known = self._others[run.root] = size, _read(run)
        return known[1]


def look(path: str | Path) -> Look | None:
    """Return size and time of a file; None where there is none. Raise OSError."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def are_equal(one: str, other: str) -> bool:
    """Whether two files have one content; not if one is gone."""
    with suppress(OSError):
        return filecmp.cmp(one, other, shallow=False)
    return False


def _read(run: RunPaths) -> list[Delivered]:
    found = []
    with suppress(FileNotFoundError), open(run.exports, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            with suppress(ValueError, TypeError):  # the last one may be cut
                target, tree, source, now, before = json.loads(line)
                before = None if before is None else tuple(before)
                found.append(Delivered(target, tree, source, tuple(now), before))
    return found
