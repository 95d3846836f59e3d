"""A run as a page sees it. Each part of it is read on first use, and kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from diel.errors import DielError
from diel.journal.segment import Reader
from diel.journal.snapshot import look_at
from diel.page.chosen import records_of
from diel.paths import RunPaths
from diel.results import RunReader
from diel.status import Status
from diel.status.run import fold_status
from diel.timeline import Timeline, read_timeline

if TYPE_CHECKING:
    from diel.journal.records import Made


class Seen:
    """A run now. All that panels ask of it may raise DielError: the page then says so in their place."""

    def __init__(
        self,
        paths: RunPaths,
        *,
        public: bool = False,
        reader: Reader | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.paths = paths
        self.public = public
        """Whether hosts, users and paths outside the run are left out."""
        self._reader = reader
        self._timeline = timeline

    @cached_property
    def status(self) -> Status:
        """Whoever looks again gives the reader of the last time, and pays for the newest lines alone."""
        if self._reader is None:
            self._reader = look_at(self.paths)
        else:
            self._reader.catch_up()
        return fold_status(self.paths, self._reader)

    @cached_property
    def readable(self) -> Status | None:
        """The status; None where the journal is damaged: what needs it not is shown all the same."""
        try:
            return self.status
        except DielError:
            return None

    @property
    def alive(self) -> bool:
        return self.readable is not None and self.readable.alive

    @property
    def until(self) -> float:
        """Now for a run that goes on, else when it ended or was last heard of."""
        status, last = self.readable, self.timeline.last
        return last if status is None else max(status.now if status.ended is None else status.ended, last)

    @property
    def stages(self) -> list[str]:
        """The names of its stages, in their order."""
        status = self.readable
        return list(self.timeline.stages) if status is None else [stage.name for stage in status.stages]

    @cached_property
    def timeline(self) -> Timeline:
        if self._timeline is None:
            return read_timeline(self.paths)
        self._timeline.catch_up()
        return self._timeline

    @cached_property
    def run(self) -> RunReader:
        followed = self._reader.history if self.status.alive and self._reader is not None else None
        return RunReader(self.paths, followed, careful=bool(self._reader and self._reader.flaws))

    def take_care(self) -> bool:
        """Reads the run again, without what is damaged in it; False if it was read so already."""
        if self.run.careful:
            return False
        self.run = RunReader(self.paths, careful=True)
        _ = self.run.history  # what is damaged is known then
        vars(self).pop("records", None)
        return True

    @cached_property
    def records(self) -> dict[str, tuple[Mapping[int, Made], str]]:
        """By stage what is drawn of its results, and how that was chosen."""
        return records_of(self.run)
