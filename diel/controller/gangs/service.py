"""The services of a run: started when a consumer is ready for them, stopped after the last one.

A service's tasks are its replicas at each of its points. A point comes up as a whole, and with it whatever
services it asks itself: all that a consumer needs, or nothing, so that services never wait for each other's
cores with the consumers of neither able to run.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from diel.base.errors import ModuleError
from diel.base.files import put
from diel.base.states import TaskState
from diel.planning.plan import Plan
from diel.site.shape import rooms
from diel.streams.services.endpoint import (
    INPUTS,
    STOP,
    Endpoint,
    endpoint_file,
    make_token,
    message_file,
    read_endpoint,
    write_endpoint,
)
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link
from diel.tasks.points.domain import Group
from diel.tasks.recipe import Recipe
from diel.tasks.results import MissingInput
from diel.tasks.service import HANDED_OUT, ServiceLink, Turn, tie, turns_of
from diel.tasks.stage_run import StageRun
from diel.workflow.expressions import ExpressionError

PATIENCE = 10.0
"""Seconds for which a point with a ready replica waits for the others."""
SPARE = 2.0
"""Seconds without a consumer after which a point gives its room to others that wait for it."""
WORKERS = "workers"
"""The pool of services without cores of their own, beside the site's pools."""


@dataclass(eq=False)
class _Point:
    """A service at one point of its axes. Times are in time.monotonic seconds."""

    service: StageRun
    group: Group
    links: list[ServiceLink]
    """The edges to those that ask it."""
    offered: bool = False
    """Whether its possible consumers were looked at since it could be started."""
    used: float = 0.0
    """When a consumer was last seen at it, or came to ask for it."""
    answers_since: float | None = None
    """Since when a replica has been ready; None if none is."""
    ready: bool = False
    """Whether it is up, so consumers can be handed out."""
    why: str = ""
    """Why it is being stopped: `over`, or the journal's reason for its pause."""

    @property
    def replicas(self) -> range:
        return self.links[0].replicas(self.group)

    @property
    def states(self) -> list[TaskState]:
        return [self.service.history.state(index) for index in self.replicas]

    @property
    def is_over(self) -> bool:
        """Whether nobody will ask it any longer."""
        return all(link.is_done(self.group) for link in self.links)

    def wake(self) -> None:
        """Look again at those who ask it."""
        for link in self.links:
            if link.down.known:
                link.down.look_at(link.dependents(self.group))


class ServiceManager:
    """Decides which services are up. `recipes` make the keys of their tasks."""

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        runs: Mapping[str, StageRun],
        into: Mapping[str, list[Link]],
        recipes: Mapping[str, Recipe],
    ) -> None:
        self._plan, self._runs = plan, runs
        self._ledger = ledger
        self._recipes = recipes
        self._asks: dict[str, list[ServiceLink]] = {}
        self._asked: dict[str, list[ServiceLink]] = {}
        self._renews: dict[str, list[Link]] = {}
        """The edges to services that take newer inputs while they are up, by the stage that makes these."""
        tie([*chain(*into.values())], lambda stage, index: recipes[stage].served(index))
        for name, links in into.items():
            for link in links:
                if link.edge.renewed:
                    self._renews.setdefault(link.up.name, []).append(link)
                if isinstance(link, ServiceLink):
                    self._asks.setdefault(name, []).append(link)
                    self._asked.setdefault(link.up.name, []).append(link)
        workers = 0 if plan.site.scheduled else plan.extra_workers
        self._whole = {**rooms(plan.site), WORKERS: workers}
        """The cores of pools; on one machine, all of them, and the workers for services without cores."""
        self._points: dict[tuple[str, Group], _Point] = {}
        self._up: dict[_Point, None] = {}
        self._turned_away: set[_Point] = set()
        self._before: set[tuple[str, int]] = set()
        """Replicas whose end an earlier controller recorded."""
        self._sent: dict[Path, str] = {}
        """Keys of the newest inputs of replicas' attempts, by the file that brings them."""
        self._turns = turns_of(plan.graph, chain(*into.values()))
        for turn in self._turns:
            turn.link.turn = turn.now
        self._owed: dict[Path, str] = {}
        """Files for replicas' workers that could not be written yet."""

    def are_others(self, tasks: Iterable[tuple[str, int]]) -> bool:
        """Return whether any of these tasks is no service's."""
        return any(name not in self._asked for name, _ in tasks)

    @property
    def is_busy(self) -> bool:
        """Whether a service is up or starting: the next look sees what that means for others."""
        return bool(self._up)

    def _at(self, service: StageRun, group: Group) -> _Point:
        place = service.name, group
        if place not in self._points:
            self._points[place] = _Point(service, group, self._asked[service.name])
        return self._points[place]

    def _of(self, service: StageRun, index: int) -> _Point:
        return self._at(service, service.domain.group(index, service.spec.over))

    def note_open(self, stage: StageRun) -> None:
        """Note that a stage's tasks are known, or never will be."""
        if stage.name in self._asked and stage.known:
            self._begin_anew(stage)
        for renewing in self._renews.get(stage.name, ()):
            for link in self._asked.get(renewing.down.name, ()):
                link.down.look_at_all()
        for link in self._asks.get(stage.name, ()):
            for index in range(min(stage.size, len(stage.history.states))):
                if stage.history.state(index).ended:  # for an earlier controller
                    link.note_end(index)
            link.up.look_at_all()  # there may be nobody who asks it
        for turn in self._turns:
            if stage.name in turn.consumers:
                for index in range(min(stage.size, len(stage.history.states))):
                    if stage.history.state(index) in HANDED_OUT or stage.history.state(index).ended:
                        turn.note(stage, index)
                turn.given = dict.fromkeys(turn.given, -1)

    def _begin_anew(self, stage: StageRun) -> None:
        """Take over what an earlier controller left; a replica that succeeded can start again."""
        for index in range(min(stage.size, len(stage.history.states))):
            if stage.history.state(index) in HANDED_OUT:
                for turn in self._turns:  # there may be newer inputs that were not sent
                    if turn.link.down is stage:
                        turn.given[stage.domain.group(index, turn.link.edge.matched)] = -1
            elif stage.history.state(index) == TaskState.DONE:
                stage.history.set(index, TaskState.WAITING)
                stage.history.attempts.setdefault(index, 1)
                self._before.add((stage.name, index))

    def note_end(self, stage: StageRun, index: int) -> None:
        """Note the end of a task: it may have made newer inputs, or have been a service's last consumer."""
        for renewing in self._renews.get(stage.name, ()):
            if renewing.down.known:
                self._renew(renewing, index)
            self._wake_next_round(renewing, index)
        for link in self._asks.get(stage.name, ()):
            point = self._at(link.up, link.note_end(index))
            if point.is_over:
                self._finish(point)
        for turn in self._turns:
            if stage.name in turn.consumers:
                self._pass_on(turn, turn.note(stage, index))
        if stage.name in self._asked:
            self._write_off(stage, index)

    def _write_off(self, service: StageRun, index: int) -> None:
        """Record that a replica is gone whose lost worker cannot say so."""
        path = endpoint_file(self._ledger.paths, service.name, index)
        endpoint = read_endpoint(path)
        if endpoint is not None and not endpoint.is_over:
            try:
                write_endpoint(path, endpoint._replace(state="failed", message="its worker was lost"))
            except OSError as error:
                self._tell_refused(path, error)

    def _renew(self, link: Link, index: int) -> None:
        for other in self._asked.get(link.down.name, ()):
            other.forget_keys()
        for replica in link.woken_by(index):
            if link.down.history.state(replica) in HANDED_OUT:
                self._send(link.down, replica)

    def _wake_next_round(self, renewing: Link, index: int) -> None:
        """Look at the consumers that wait for what their service reads of the round that a task is in."""
        for turn in self._turns:
            if turn.link is renewing:
                group, number = turn.place(renewing.up, index)
                for stage in turn.consumers.values():
                    stage.look_at(turn.tasks(stage, group, number + 1))

    def _pass_on(self, turn: Turn, group: Group) -> None:
        """Where it is another round's turn, give a service newer inputs, and look at those who may ask it."""
        if turn.given[group] == (number := turn.now(group)):
            return
        turn.given[group] = number
        service = turn.link.down
        for other in self._asked[service.name]:
            other.forget_keys()
        for replica in turn.tasks(service, group, number):
            if service.history.state(replica) in HANDED_OUT:
                self._send(service, replica)
        for stage in turn.consumers.values():
            stage.look_at(turn.tasks(stage, group, number))

    def _send(self, service: StageRun, index: int) -> None:
        try:
            newest = self._recipes[service.name].resolve(index)
        except (ExpressionError, MissingInput, ModuleError):
            return  # it continues with what it has
        path = self._renewal(service, index)
        if self._sent.get(path) != newest.key:
            self._sent[path] = newest.key
            self._put(path, json.dumps({"key": newest.key, "inputs": newest.inputs}))
            self._of(service, index).ready = False

    def _renewal(self, service: StageRun, index: int) -> Path:
        return message_file(self._ledger.paths, service.name, index, service.history.latest(index), INPUTS)

    def _put(self, path: Path, text: str) -> None:
        """Put a file in place for a replica's worker; if that fails, try again later."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            put(path, text)
        except OSError as error:
            if path not in self._owed:
                self._tell_refused(path, error)
            self._owed[path] = text
        else:
            self._owed.pop(path, None)

    def _tell_refused(self, path: Path, error: OSError) -> None:
        name = path.relative_to(self._ledger.paths.root)
        self._ledger.trouble(f"{name} cannot be written: {error.strerror}")

    def may_start(self, service: StageRun, index: int) -> bool:
        """Return whether a replica is wanted, or a consumer has its turn; else tell who may want it."""
        if service.spec.service is None:
            return all(
                turn.has_come(service, index) for turn in self._turns if service.name in turn.consumers
            )
        point = self._of(service, index)
        if point in self._up:
            self._forget_told(service, index)
            return not point.why
        if not point.offered:
            point.offered = True
            point.wake()
        return False

    def _forget_told(self, service: StageRun, index: int) -> None:
        """Remove messages to an attempt that never began: they are not for the next one with its number."""
        paths, number = self._ledger.paths, service.history.attempts.get(index, 0) + 1
        for word in (STOP, INPUTS):
            path = message_file(paths, service.name, index, number, word)
            self._sent.pop(path, None)
            self._owed.pop(path, None)
            path.unlink(missing_ok=True)

    def is_over(self, stage: StageRun, index: int) -> bool:
        """Return whether a task is a replica that is not up and will never be needed."""
        return stage.spec.service is not None and self._of(stage, index).is_over

    def was_up(self, service: StageRun, index: int) -> bool:
        """Return whether an earlier controller recorded the end of the replica."""
        return (service.name, index) in self._before

    def ask(self, stage: StageRun, index: int) -> bool:
        """Return whether all services that a task asks are ready; if not, starts them if there is room."""
        links = self._asks.get(stage.name)
        if links is None:
            return True
        groups = ((link, link.group_of_downstream(index)) for link in links)
        direct = [self._at(link.up, group) for link, group in groups if not link.is_spared(group)]
        now = time.monotonic()
        if all(point.ready and not point.why for point in direct):
            for point in direct:
                point.used = now
            return True
        self._admit(stage, list(dict.fromkeys(self._needed(stage, index))), now)
        return False

    def _needed(self, stage: StageRun, index: int) -> Iterator[_Point]:
        """Yield the points that a task asks, and those that these ask in turn."""
        for link in self._asks.get(stage.name, ()):
            group = link.group_of_downstream(index)
            if not link.is_spared(group):
                yield self._at(link.up, group)
                yield from self._needed(link.up, link.replicas(group)[0])

    def _admit(self, stage: StageRun, points: list[_Point], now: float) -> None:
        """Start points, all of them or none."""
        if any(point.why for point in points):
            return  # stopping: whoever waits for it is looked at again then
        missing = [point for point in points if point not in self._up]
        if not missing:
            return
        together = (point.service.name for point in (*self._up, *missing))
        if self._up and not self._has_room(stage.name, together):
            self._turned_away.update(missing)
            return
        make_token(self._ledger.paths)
        for point in missing:
            self._up[point] = None
            point.used = now
            point.service.look_at(point.replicas)

    def _has_room(self, stage: str, services: Iterable[str]) -> bool:
        """Return whether the widest consumer has room beside a point of each service, `stage` included."""
        held: dict[str, int] = {}
        widest: dict[str, int] = {}
        consumers = {stage}
        for name in services:
            pool, cores, replicas = self._taken_by(name)
            held[pool] = held.get(pool, 0) + cores * replicas
            if not cores:
                held[WORKERS] = held.get(WORKERS, 0) + replicas
            consumers |= {link.down.name for link in self._asked[name]}
        for name in consumers:
            pool, cores, _ = self._taken_by(name)
            widest[pool] = max(widest.get(pool, 0), cores)
        return all(many + widest.get(pool, 0) <= self._whole[pool] for pool, many in held.items())

    def _taken_by(self, name: str) -> tuple[str, int, int]:
        planned = self._plan.stages[name]
        pool = planned.pool if self._plan.site.scheduled else ""
        return pool, planned.cores, self._runs[name].spec.replicas

    def tend(self, in_use: Iterable[tuple[str, int]]) -> None:
        """Look which points are ready, idle or down. `in_use` are tasks that were handed out."""
        for path, text in list(self._owed.items()):
            self._put(path, text)
        for turn in self._turns:
            for group, number in [*turn.given.items()]:
                if number < 0 or group in turn.adopted:
                    self._pass_on(turn, group)
        if not self._up:
            return
        now = time.monotonic()
        for name, index in in_use:
            for link in self._asks.get(name, ()):
                self._at(link.up, link.group_of_downstream(index)).used = now
        for point in list(self._up):
            self._tend(point, now)

    def _tend(self, point: _Point, now: float) -> None:
        states, settings = point.states, point.service.spec.service
        assert settings is not None
        if point.why or all(state.ended for state in states):
            if not any(state in HANDED_OUT for state in states):
                self._note_down(point)
            elif point.why:
                self._tell_stop(point)  # some may have been handed out only now
            return
        if point.is_over:
            self._finish(point)
            return
        if not any(state in HANDED_OUT for state in states):
            point.service.look_at(point.replicas)
        self._look_ready(point, now)
        is_contended, idle = bool(self._turned_away), now - point.used
        if point.ready and idle > (min(SPARE, settings.idle) if is_contended else settings.idle):
            point.why = "another service needs its room" if is_contended else f"idle for {idle:.0f} s"
            point.ready = False
            self._tell_stop(point)

    def _look_ready(self, point: _Point, now: float) -> None:
        """Note whether consumers can start: all replicas, or one for long, are ready with newest inputs."""
        live = [index for index, state in zip(point.replicas, point.states, strict=True) if not state.ended]
        endpoints = [(index, self._endpoint(point.service, index)) for index in live]
        answering = [(index, endpoint) for index, endpoint in endpoints if endpoint is not None]
        if not answering or any(self._lacks(point.service, *replica) for replica in answering):
            point.answers_since, point.ready = None, False
            return
        point.answers_since = point.answers_since if point.answers_since is not None else now
        if not point.ready and (len(answering) == len(live) or now - point.answers_since > PATIENCE):
            point.ready, point.used = True, now
            point.wake()

    def _endpoint(self, service: StageRun, index: int) -> Endpoint | None:
        if service.history.state(index) not in HANDED_OUT:
            return None
        endpoint = read_endpoint(endpoint_file(self._ledger.paths, service.name, index))
        own = endpoint is not None and endpoint.is_ready and endpoint.attempt == service.history.latest(index)
        return endpoint if own else None

    def _lacks(self, service: StageRun, index: int, endpoint: Endpoint) -> bool:
        """Return whether a replica has yet to be given its newest inputs."""
        sent = self._sent.get(self._renewal(service, index))
        return not endpoint.inputs or (sent is not None and sent not in (endpoint.inputs, endpoint.refused))

    def _finish(self, point: _Point) -> None:
        if point in self._up:
            point.why, point.ready = "over", False
            self._tell_stop(point)
        if point.service.known:
            point.service.look_at(point.replicas)  # those that are not up never will be

    def _tell_stop(self, point: _Point) -> None:
        for index, state in zip(point.replicas, point.states, strict=True):
            if state in HANDED_OUT:
                number = point.service.history.latest(index)
                path = message_file(self._ledger.paths, point.service.name, index, number, STOP)
                if not path.exists():
                    self._put(path, point.why)

    def _note_down(self, point: _Point) -> None:
        """Free the room of a point that is down; consumers that came meanwhile ask again."""
        del self._up[point]
        point.ready, point.why, point.answers_since = False, "", None
        waiting, self._turned_away = self._turned_away, set()
        for other in {*waiting, point}:
            other.wake()
