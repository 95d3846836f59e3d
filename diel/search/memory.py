"""What a searcher knows, kept in its run's folder: a shortcut, for what was drawn slowly is not drawn again.

The journal is what counts: of a file that does not fit, all is asked and told again.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from diel.files import replacing
from diel.journal.axis_history import Course
from diel.search.searcher import Searcher
from diel.version import __version__

SLOW = 0.25
"""Seconds of drawing that are worth a file."""


class Memory:
    """The file of one course."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spent = 0.0

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Count the time that something is drawn in."""
        began = time.monotonic()
        yield
        self._spent += time.monotonic() - began

    def keep(self, searcher: Searcher, course: Course) -> None:
        """Write what it knows, if that took long."""
        if self._spent < SLOW or not searcher.version:
            return
        self._spent = 0.0
        with suppress(Exception):  # the disk may be full; a package's own may hold what cannot be pickled
            content = pickle.dumps((__version__, searcher.version, course.told, searcher))
            self._path.parent.mkdir(exist_ok=True)
            with replacing(self._path) as file:
                file.write(content)

    def find(self, new: Searcher, course: Course) -> tuple[Searcher, int]:
        """A searcher, and how much of a course it knows: the kept one, or a new one that knows nothing."""
        try:
            version, own, told, searcher = pickle.loads(self._path.read_bytes())  # noqa: S301 - its own run wrote it
        except Exception:  # nothing was kept, or another version of a library cannot read it
            return new, 0
        fits = (version, own, told) == (__version__, new.version, course.told[: len(told)])
        if not fits or type(searcher) is not type(new):
            return new, 0
        searcher.search = new.search  # it may have been given more trials since
        return searcher, len(told)
