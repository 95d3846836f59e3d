"""Gangs: tasks that run at the same time are handed out together, or not at all (gang scheduling)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diel.controller.dispatcher import Dispatcher
from diel.controller.finder import Finder, Task
from diel.controller.stage_run import StageRun
from diel.controller.stages import Stages
from diel.domain import Group
from diel.graph import Gang, StageGraph, gangs
from diel.site import Shape

AHEAD = 100
"""Tasks looked at of a stage of which more than one wave may come."""


class Gangs:
    """Which tasks wait for each other's room. A gang has one place for each point of its common axes."""

    def __init__(self, graph: StageGraph, stages: Stages, finder: Finder, dispatcher: Dispatcher) -> None:
        self._of = {name: gang for gang in gangs(graph) for name in gang.stages}
        self._stages = stages
        self._finder = finder
        self._dispatcher = dispatcher
        self._begun: set[tuple[str, Group]] = set()

    def of(self, stage: StageRun) -> Gang | None:
        """The gang of a stage."""
        return self._of.get(stage.name)

    def hand_out(self, gang: Gang, until: float) -> bool:
        """Hands out what there is room for; says whether that was anything."""
        ready: dict[Group, dict[str, dict[int, Task]]] = {}
        for name in gang.stages:
            stage = self._stages.runs[name]
            wanted = AHEAD if name in gang.in_waves else max(1, stage.size)
            for task in self._finder.ready_tasks(stage, wanted, until):
                assert stage.domain is not None
                place = stage.domain.group(task[0], gang.axes)
                ready.setdefault(place, {}).setdefault(name, {})[task[0]] = task
        sent = False
        for place, tasks in ready.items():
            sent = self._hand_out_at(gang, place, tasks) or sent
        for name in gang.stages:
            left = [task for tasks in ready.values() for task in tasks.get(name, {}).values()]
            if left:
                self._finder.hold(self._stages.runs[name], left)
        return sent

    def _hand_out_at(self, gang: Gang, place: Group, tasks: dict[str, dict[int, Task]]) -> bool:
        if (gang.name, place) not in self._begun:
            together = self._together(gang, place, tasks)
            if together is None or not self._has_room(together):
                return False
            self._begun.add((gang.name, place))
            for stage, index in together:
                self._send(stage, tasks[stage.name].pop(index))
            return bool(together)
        sent = False
        for name in gang.stages:
            stage = self._stages.runs[name]
            for index in list(tasks.get(name, ())):
                waiting = [(stage, index), *(one for one in self._awaited() if one != (stage, index))]
                if self._has_room(waiting):
                    self._send(stage, tasks[name].pop(index))
                    sent = True
        return sent

    def _together(
        self, gang: Gang, place: Group, tasks: Mapping[str, Mapping[int, Task]]
    ) -> list[tuple[StageRun, int]] | None:
        """The tasks that must be there at the same time; None while one of them is not ready."""
        found: list[tuple[StageRun, int]] = []
        for name in reversed(gang.stages):  # those that get before those that put
            stage = self._stages.runs[name]
            here = tasks.get(name, {})
            if name in gang.in_waves:
                if not here and next(self._open(gang, stage, place), None) is not None:
                    return None
                found += [(stage, index) for index in list(here)[:1]]
                continue
            for index in self._open(gang, stage, place):
                if index not in here:
                    return None
                found.append((stage, index))
        return found

    def _open(self, gang: Gang, stage: StageRun, place: Group) -> Iterator[int]:
        """The tasks of a stage at a place that have not ended and are not handed out."""
        assert stage.domain is not None
        for index in stage.domain.matching(dict(zip(gang.axes, place, strict=True))):
            if not stage.history.state(index).ended and (stage.name, index) not in self._dispatcher.in_flight:
                yield index

    def _awaited(self) -> Iterator[tuple[StageRun, int]]:
        """Tasks for which others that run already wait: they run again soon, and their room is kept."""
        for name, place in list(self._begun):
            gang = next(gang for gang in self._of.values() if gang.name == name)
            held = [self._stages.runs[one] for one in gang.stages if one not in gang.in_waves]
            for stage in held:
                yield from ((stage, index) for index in self._open(gang, stage, place))

    def _has_room(self, tasks: list[tuple[StageRun, int]]) -> bool:
        shapes: list[tuple[StageRun, Shape]] = [
            (stage, self._dispatcher.shape(stage, index)) for stage, index in tasks
        ]
        return self._dispatcher.has_room_for(shapes)

    def _send(self, stage: StageRun, task: Task) -> None:
        self._stages.streaming.begin(stage, task[0])
        shape = self._dispatcher.shape(stage, task[0])
        self._dispatcher.send(stage, shape, self._stages.recipes[stage.name].job, [task])
