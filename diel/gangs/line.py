"""The tasks of a gang in line: which are ready, and at which places they can be handed out together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from diel.axes.domain import Group
from diel.graph import Gang
from diel.tasks.stage_run import StageRun


@dataclass
class GangLine:
    """A gang's places, one for each point of its common axes; the work of a look is that of what changed."""

    gang: Gang
    stages: tuple[StageRun, ...]
    """Those that get before those that put."""
    begun: dict[Group, int] = field(default_factory=dict)
    """Where some were handed out together: how many of the place's tasks have not ended."""
    _ready: dict[Group, dict[str, dict[int, None]]] = field(default_factory=dict)
    """Tasks that became ready, by place and stage, in order; some may not be ready any more."""
    _changed: dict[Group, None] = field(default_factory=dict)
    _more: dict[Group, None] = field(default_factory=dict)
    """Places that have begun, and where another task is ready."""
    _whole: dict[Group, None] = field(default_factory=dict)
    """Places that have not begun, and where all tasks are ready that must be there together."""

    @property
    def first(self) -> Group | None:
        """The place whose turn it is."""
        return next(iter(self._more or self._whole), None)

    def add(self, stage: StageRun, index: int) -> None:
        """A task became ready."""
        group = self._group(stage, index)
        if group not in self._ready:
            self._ready[group] = {one.name: {} for one in self.stages}
        self._ready[group][stage.name][index] = None
        self._changed[group] = None

    def note_end(self, stage: StageRun, index: int) -> None:
        """A task ended for good: others may not wait for it any more."""
        group = self._group(stage, index)
        self._changed[group] = None
        if group in self.begun:
            self.begun[group] -= 1

    def take_changed(self) -> list[Group]:
        """The places where something became ready or ended since the last look."""
        changed, self._changed = list(self._changed), {}
        return changed

    def mark(self, group: Group, can_go: bool) -> None:
        """Notes whether something at a place can be handed out; forgets one where all have ended."""
        for places in (self._more, self._whole):
            places.pop(group, None)
        if can_go:
            (self._more if group in self.begun else self._whole)[group] = None
        elif self.begun.get(group) == 0:
            del self.begun[group], self._ready[group]

    def begin(self, group: Group) -> None:
        """The first tasks of a place are handed out."""
        if group not in self.begun:
            self.begun[group] = sum(1 for stage in self.stages for _ in self.open_at(stage, group))

    def first_ready(self, stage: StageRun, group: Group, is_ready: Callable[[str, int], bool]) -> int | None:
        """The first task of a stage at a place that is ready, and still is."""
        ready = self._ready.get(group, {}).get(stage.name, {})
        while ready:
            index = next(iter(ready))
            if is_ready(stage.name, index):
                return index
            del ready[index]  # cancelled, pruned, handed out, or without its service
        return None

    def open_at(self, stage: StageRun, group: Group) -> Iterator[int]:
        """The tasks of a stage at a place that have not ended."""
        if stage.domain is None:
            return
        for index in stage.domain.matching(dict(zip(self.gang.axes, group, strict=True))):
            if not stage.history.state(index).ended:
                yield index

    def _group(self, stage: StageRun, index: int) -> Group:
        assert stage.domain is not None
        return stage.domain.group(index, self.gang.axes)
