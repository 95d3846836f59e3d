"""Gangs: tasks that run at the same time are handed out together, or not at all (gang scheduling)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from diel.axes.domain import Group
from diel.blocks.dispatcher import Dispatcher
from diel.controller.finder import Finder
from diel.controller.stages import Stages
from diel.gangs.stream import Streaming
from diel.graph import Gang, gangs
from diel.plan import Plan
from diel.tasks.ledger import Ledger
from diel.tasks.stage_run import StageRun

Member = tuple[StageRun, int]
"""A task of a gang."""


@dataclass
class GangLine:
    """A gang's places, one for each point of its common axes; a look costs only what changed."""

    gang: Gang
    stages: tuple[StageRun, ...]
    """Consumers before producers."""
    begun: dict[Group, int] = field(default_factory=dict)
    """For places with tasks handed out: how many of them have not ended."""
    _ready: dict[Group, dict[str, dict[int, None]]] = field(default_factory=dict)
    """Tasks that became ready, by place and stage, in order; some may no longer be ready."""
    changed: dict[Group, None] = field(default_factory=dict)
    """Places where something became ready or ended since the last look."""
    _more: dict[Group, None] = field(default_factory=dict)
    """Places that have begun and have another ready task."""
    _whole: dict[Group, None] = field(default_factory=dict)
    """Places that have not begun, whose tasks that must run together are all ready."""

    @property
    def first(self) -> Group | None:
        """The place whose turn it is."""
        return next(iter(self._more or self._whole), None)

    def add(self, stage: StageRun, index: int) -> None:
        group = self._group(stage, index)
        if group not in self._ready:
            self._ready[group] = {one.name: {} for one in self.stages}
        self._ready[group][stage.name][index] = None
        self.changed[group] = None

    def note_end(self, stage: StageRun, index: int) -> None:
        """Let nobody wait any longer for a task that ended for good."""
        group = self._group(stage, index)
        self.changed[group] = None
        if group in self.begun:
            self.begun[group] -= 1

    def mark(self, group: Group, can_go: bool) -> None:
        """Note whether something at a place can be handed out; forget a place where all have ended."""
        for places in (self._more, self._whole):
            places.pop(group, None)
        if can_go:
            (self._more if group in self.begun else self._whole)[group] = None
        elif self.begun.get(group) == 0:
            del self.begun[group], self._ready[group]

    def begin(self, group: Group) -> None:
        if group not in self.begun:
            self.begun[group] = sum(1 for stage in self.stages for _ in self.open_at(stage, group))

    def first_ready(self, stage: StageRun, group: Group, is_ready: Callable[[str, int], bool]) -> int | None:
        """Return the first task of a stage at a place that is still ready."""
        ready = self._ready.get(group, {}).get(stage.name, {})
        while ready:
            index = next(iter(ready))
            if is_ready(stage.name, index):
                return index
            del ready[index]  # cancelled, pruned, handed out, or without what it asks
        return None

    def open_at(self, stage: StageRun, group: Group) -> Iterator[int]:
        if not stage.known:
            return
        for index in stage.domain.matching(dict(zip(self.gang.axes, group, strict=True))):
            if not stage.history.state(index).ended:
                yield index

    def _group(self, stage: StageRun, index: int) -> Group:
        return stage.domain.group(index, self.gang.axes)


class Gangs:
    """Which tasks wait for each other's room. A gang has one place for each point of its common axes."""

    def __init__(
        self, plan: Plan, stages: Stages, ledger: Ledger, finder: Finder, dispatcher: Dispatcher
    ) -> None:
        self._stages = stages
        self._streaming = Streaming(plan, ledger, stages.into)
        self._finder = finder
        self._dispatcher = dispatcher
        self._lines = tuple(
            GangLine(gang, tuple(stages.runs[name] for name in reversed(gang.stages)))
            for gang in gangs(plan.graph)
        )
        self._of = {stage.name: line for line in self._lines for stage in line.stages}
        stages.watch_ends(self._streaming.note_end)
        stages.watch_ends(self._note_end)

    def holds(self, stage: StageRun) -> bool:
        return stage.name in self._of

    def take_up(self) -> None:
        """Give tasks of an earlier controller what they need after their adoption: the broker, and ends."""
        for name, index in self._dispatcher.in_flight:
            if name in self._of:
                self._streaming.begin(self._stages.runs[name], index)

    def tend(self) -> None:
        self._streaming.tend()

    def stop(self) -> None:
        self._streaming.stop()

    def hand_out(self, stage: StageRun, full: set[str], until: float) -> bool:
        """Hand out tasks of a stage's gang that run together, if there is room for all. `full` are the lines
        (see Blocks.line) in which others stand: it adds its own. A gang has its turn with its last stage."""
        line = self._of[stage.name]
        if stage is not line.stages[0]:
            return False
        self._look(line, until)
        while (group := line.first) is not None:
            members = self._next(line, group)
            if not all(self._finder.is_ready(*member) for member in members):
                self._judge(line, group)
                continue
            needed = [*members, *(member for member in self._awaited() if member not in members)]
            lines = {self._dispatcher.backend.line(self._dispatcher.shape(*member)) for member in needed}
            # What has begun goes first: running tasks wait for it, and keep their room meanwhile.
            if (group in line.begun or not lines & full) and self._dispatcher.has_room_for(needed):
                self._send(line, group, members)
                return True
            if self._dispatcher.could_hold(needed):
                full |= lines
            return False
        return False

    def _look(self, line: GangLine, until: float) -> None:
        for stage in line.stages:
            for index in self._finder.gather(stage, until):
                line.add(stage, index)
        changed, line.changed = line.changed, {}
        for group in changed:
            self._judge(line, group)

    def _judge(self, line: GangLine, group: Group) -> None:
        line.mark(group, bool(self._next(line, group)))

    def _next(self, line: GangLine, group: Group) -> list[Member]:
        """Return the tasks to hand out at a place: all that must run together, or one more if these run."""
        if group in line.begun:
            for stage in line.stages:
                if (index := line.first_ready(stage, group, self._finder.is_held)) is not None:
                    return [(stage, index)]
            return []
        return self._together(line, group)

    def _together(self, line: GangLine, group: Group) -> list[Member]:
        """Return the tasks that must run at the same time; none while one of them is not ready."""
        gathered: list[Member] = []
        for stage in line.stages:
            if not stage.known:
                return []
            if stage.name in line.gang.in_waves:
                first = line.first_ready(stage, group, self._finder.is_held)
                if first is not None:
                    gathered.append((stage, first))
                elif not self._is_there(line, stage, group):
                    return []
                continue
            for index in line.open_at(stage, group):
                if not self._finder.is_held(stage.name, index):
                    if (stage.name, index) in self._dispatcher.in_flight:
                        continue  # an earlier controller handed it out
                    return []
                gathered.append((stage, index))
        return gathered

    def _is_there(self, line: GangLine, stage: StageRun, group: Group) -> bool:
        """Return whether a stage that comes in waves already has a task at a place, or will have none."""
        are_out = ((stage.name, i) in self._dispatcher.in_flight for i in line.open_at(stage, group))
        return next(are_out, True) or any(are_out)

    def _awaited(self) -> Iterator[Member]:
        """Tasks for which others that run already wait: they run again soon, and their room is kept."""
        for line in self._lines:
            held = [stage for stage in line.stages if stage.name not in line.gang.in_waves]
            for group in line.begun:
                for stage in held:
                    for index in line.open_at(stage, group):
                        if (stage.name, index) not in self._dispatcher.in_flight:
                            yield stage, index

    def _note_end(self, stage: StageRun, index: int) -> None:
        if (line := self._of.get(stage.name)) is not None:
            line.note_end(stage, index)

    def _send(self, line: GangLine, group: Group, members: list[Member]) -> None:
        line.begin(group)
        for stage, index in members:
            self._streaming.begin(stage, index)
            task = self._finder.take(stage, index)
            shape = self._dispatcher.shape(stage, index)
            self._dispatcher.send(stage, shape, self._stages.work_of(stage, index), [task])
        self._judge(line, group)
