"""Gangs: tasks that run at the same time are handed out together, or not at all (gang scheduling).

Where streams lead from one to another, their broker is started, and their channels are opened and closed.
"""

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from diel.backends.blocks.dispatcher import Dispatcher
from diel.base.carried import PYTHON
from diel.base.errors import DielError, StreamError
from diel.base.files import put
from diel.base.paths import RunPaths
from diel.base.states import TaskState
from diel.controller.finder import Finder
from diel.controller.stages import Stages
from diel.planning.plan import Plan
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link
from diel.tasks.points.domain import Group
from diel.tasks.stage_run import StageRun
from diel.tasks.stream import StreamLink, members_of
from diel.worker.attempt.addresses import addresses
from diel.worker.attempt.reaper import mark
from diel.workflow.graph import Gang, gangs

if TYPE_CHECKING:
    from diel.streams.client import Connection

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
        self.streaming = StreamManager(plan, ledger, stages.into)
        self._finder = finder
        self._dispatcher = dispatcher
        self._lines = tuple(
            GangLine(gang, tuple(stages.runs[name] for name in reversed(gang.stages)))
            for gang in gangs(plan.graph)
        )
        self._of = {stage.name: line for line in self._lines for stage in line.stages}
        stages.watch_ends(self.streaming.note_end)
        stages.watch_ends(self._note_end)

    def holds(self, stage: StageRun) -> bool:
        return stage.name in self._of

    def take_up(self) -> None:
        """Give tasks of an earlier controller what they need after their adoption: the broker, and ends."""
        for name, index in self._dispatcher.in_flight:
            if name in self._of:
                self.streaming.begin(self._stages.runs[name], index)

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
            self.streaming.begin(stage, index)
            task = self._finder.take(stage, index)
            shape = self._dispatcher.shape(stage, index)
            self._dispatcher.send(stage, shape, self._stages.work_of(stage, index), [task])
        self._judge(line, group)


START_SECONDS = 30.0
"""Seconds that a call waits for the broker."""
AGAIN = 0.2
"""Seconds between the end of a process and its next start; doubles while it ends at once."""
LONGEST = 5.0
STEADY = 10.0
"""Seconds after which the broker counts as started."""
STOP_SECONDS = 5.0
LOOK_EVERY = 1.0
"""Seconds between two looks at the state of the channels."""
MOST_TOLD = 300
"""The most characters of a producer's failure that its readers see."""


class StreamManager:
    """Looks after the broker and the channels of a run."""

    def __init__(self, plan: Plan, ledger: Ledger, into: Mapping[str, list[Link]]) -> None:
        self._plan = plan
        self._ledger = ledger
        self._out_of: dict[str, list[StreamLink]] = {}
        self._into: dict[str, list[StreamLink]] = {}
        for link in chain.from_iterable(into.values()):
            if isinstance(link, StreamLink):
                self._out_of.setdefault(link.up.name, []).append(link)
                self._into.setdefault(link.down.name, []).append(link)
        self._left: dict[tuple[str, str], int] = {}
        """How many producers of a channel have not ended, by stage and channel."""
        self._opened: set[str] = set()
        self._broker: _Broker | None = None
        self._connection: Connection | None = None
        self._looked = 0.0
        self._asked = False
        """Whether the broker was asked for the state of the channels, and has not answered yet."""

    def begin(self, stage: StageRun, index: int) -> None:
        """Make sure that the broker runs and a task's channels are open. Raise StreamError."""
        self._start()
        for link in self._out_of.get(stage.name, ()):
            group = link.group_of_upstream(index)
            if group is not None:
                self._open(link, group)
        for link in self._into.get(stage.name, ()):
            self._open(link, link.group_of_downstream(index))

    def _open(self, link: StreamLink, group: Group) -> None:
        """Open a channel for all who read it: before that, nobody puts or gets."""
        channel = link.channel(group)
        if channel in self._opened:
            return
        self._opened.add(channel)
        alike = [other for other in self._out_of[link.up.name] if other.edge.output == link.edge.output]
        groups = {name: members for other in alike for name, members in other.readers(group).items()}
        spec = link.up.spec.outputs[str(link.edge.output)].stream
        assert spec is not None
        connection = self._connect()
        # An earlier controller may have closed or broken it, where producers failed that run again now.
        connection.open(channel, buffer=spec.buffer, replay=spec.replay, groups=groups)
        for index in link.members(group):
            self._break(alike, index)
        unended = sum(1 for index in link.members(group) if not link.up.history.state(index).ended)
        if unended:
            self._left[(link.up.name, channel)] = unended
        else:
            connection.close(channel)
        for other in alike:
            for index in other.dependents(group):
                if other.down.history.state(index).ended:
                    self._settle(other, index)

    def note_end(self, stage: StageRun, index: int) -> None:
        """Settle what a task that ended for good got; it puts nothing more."""
        links = self._out_of.get(stage.name, ())
        self._break(links, index)
        for link in links:
            self._count_end(link, index)
        for link in self._into.get(stage.name, ()):
            if link.up.known and link.channel(link.group_of_downstream(index)) in self._opened:
                self._settle(link, index)

    def _break(self, links: Iterable[StreamLink], index: int) -> None:
        """Tell readers that the items of a task that ended without a result are not complete."""
        for link in links:
            group = link.group_of_upstream(index)
            if group is not None and link.is_cut(index) and link.channel(group) in self._opened:
                broken = link.broken_by(group, index)
                self._connect().break_off(link.channel(group), broken, self._why(link.up, index))

    def _why(self, stage: StageRun, index: int) -> str:
        state = stage.history.state(index)
        if state != TaskState.FAILED:
            return f"{stage.task(index)} was {state.label}"
        failed = self._ledger.history.failures.get((stage.name, index))
        message = "" if failed is None else failed.get("message", "")
        return f"{stage.task(index)} failed" + (f": {message[:MOST_TOLD]}" if message else "")

    def _count_end(self, link: StreamLink, index: int) -> None:
        group = link.group_of_upstream(index)
        first = next(o for o in self._out_of[link.up.name] if o.edge.output == link.edge.output)
        if group is None or link is not first:
            return  # several may read one output
        place = link.up.name, link.channel(group)
        if place in self._left:
            self._left[place] -= 1
            if not self._left[place]:
                del self._left[place]
                self._connect().close(place[1])

    def _settle(self, link: StreamLink, index: int) -> None:
        channel, group = link.channel(link.group_of_downstream(index)), link.reading_group(index)
        good = link.down.history.state(index).good
        for member in members_of(link.down, index):
            self._connect().settle(channel, group, member, good)

    def _connect(self) -> "Connection":
        if self._connection is None:
            from diel.streams.client import Connection  # only here: most runs have no streams

            self._start()
            self._connection = Connection(self._ledger.paths.root, START_SECONDS)
        return self._connection

    def _start(self) -> None:
        if self._broker is None:
            self._broker = _Broker(self._plan, self._ledger.paths)

    def tend(self) -> None:
        """Have the state of the channels written now and then; wait for nothing."""
        now = time.monotonic()
        if self._connection is not None and not self._asked and now - self._looked > LOOK_EVERY:
            self._looked, self._asked = now, True
            self._connection.tell_facts(self._write_facts)

    def _write_facts(self, facts: dict[str, Any]) -> None:
        """Write the state; runs in the connection's thread, or when no more questions come."""
        with contextlib.suppress(OSError):  # written again at the next look
            put(self._ledger.paths.stream_facts, json.dumps(facts))
        self._asked = False

    def stop(self) -> None:
        if self._broker is None:
            return
        if self._connection is not None:
            with contextlib.suppress(StreamError):
                self._write_facts(self._connection.facts())
            self._connection.disconnect()
        self._broker.stop()
        self._broker = None


class _Broker:
    """The broker's process, which a thread starts again whenever it ends."""

    def __init__(self, plan: Plan, paths: RunPaths) -> None:
        """Start it. Raise DielError if it cannot start."""
        self._paths = paths
        self._environ = mark(paths.root)
        reached: tuple[str, ...] = ("127.0.0.1",)
        self._words = [*PYTHON, "-m", "diel.streams.server", str(paths.root)]
        if plan.executor == "blocks":
            reached = (*addresses(plan.site.address), *reached)
        else:  # tasks in blocks continue without their controller; here they end with it
            self._words += ["--parent", str(os.getpid())]
        self._words += [word for address in dict.fromkeys(reached) for word in ("--address", address)]
        paths.logs.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._process = self._begin()
        self._thread = threading.Thread(target=self._keep, name="diel-broker", daemon=True)
        self._thread.start()

    def _begin(self) -> subprocess.Popen[bytes]:
        try:
            with open(self._paths.broker_log, "ab") as log:
                return subprocess.Popen(
                    self._words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env=self._environ,
                )
        except OSError as error:
            raise DielError(f"cannot start diel.streams: {error}") from error

    def _keep(self) -> None:
        pause = AGAIN
        while True:
            began = time.monotonic()
            self._process.wait()
            pause = AGAIN if time.monotonic() - began > STEADY else min(2 * pause, LONGEST)
            if self._over.wait(pause):
                return
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    self._process = self._begin()
                except DielError:
                    return  # whoever asks it gives up after a while, and says so

    def stop(self) -> None:
        with self._lock:
            self._over.set()
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
