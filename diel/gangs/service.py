"""The services of a run: started when a consumer is ready for them, stopped after the last one.

A service's tasks are its replicas at each of its points. A point comes up as a whole, and with it whatever
services it asks itself: all that a consumer needs, or nothing, so that services never wait for each other's
cores with the consumers of neither able to run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from diel.axes.domain import Group
from diel.errors import ModuleError
from diel.expressions import ExpressionError
from diel.files import put
from diel.plan import Plan
from diel.services.endpoint import Endpoint, make_token, mark_of, read_endpoint, write_endpoint
from diel.site import rooms
from diel.states import TaskState
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link
from diel.tasks.recipe import Recipe
from diel.tasks.results import MissingInput
from diel.tasks.service import ServiceLink
from diel.tasks.stage_run import StageRun

PATIENCE = 10.0
"""Seconds for which a point with a replica that is ready waits for the others."""
SPARE = 2.0
"""Seconds without a consumer after which a point gives its room to others that wait for it."""
WORKERS = "workers"
"""What services without cores of their own share, beside the pools."""
HANDED_OUT = (TaskState.QUEUED, TaskState.RUNNING)

Point = tuple[str, Group]
"""A service, and its coordinates."""


@dataclass
class _Up:
    """A point that is up, comes up, or is being stopped. Times are in time.monotonic seconds."""

    used: float
    """When a consumer was last seen at it, or came to ask for it."""
    answers_since: float | None = None
    """Since when a replica has been ready; None while none is."""
    ready: bool = False
    """Whether consumers may be handed out."""
    why: str = ""
    """Why it is being stopped: `over`, or what the journal says of its pause."""


class Serving:
    """Decides which services are up. `recipes` make the keys of their tasks."""

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        runs: Mapping[str, StageRun],
        into: Mapping[str, list[Link]],
        recipes: Mapping[str, Recipe],
    ) -> None:
        self._ledger = ledger
        self._runs = runs
        self._recipes = recipes
        self._asks: dict[str, list[ServiceLink]] = {}
        self._asked: dict[str, list[ServiceLink]] = {}
        self._renews: dict[str, list[Link]] = {}
        """The edges to services that take newer inputs while they are up, by the stage that makes these."""
        for name, links in into.items():
            for link in links:
                if link.edge.renewed:
                    self._renews.setdefault(link.up.name, []).append(link)
                if isinstance(link, ServiceLink):
                    link.inputs = into[link.up.name]
                    link.key_of = _key_of(recipes[link.up.name])
                    self._asks.setdefault(name, []).append(link)
                    self._asked.setdefault(link.up.name, []).append(link)
        self._room = _Room(plan, runs, self._asked)
        self._up: dict[Point, _Up] = {}
        self._offered: set[Point] = set()
        self._turned_away: set[Point] = set()
        self._before: set[tuple[str, int]] = set()
        """Replicas that an earlier controller has seen to their end."""
        self._sent: dict[Path, str] = {}
        """Marks of the newest inputs of attempts at replicas, by the file that brings them."""
        self._owed: dict[Path, str] = {}
        """Files for replicas' workers that could not be written yet."""
        self._adopted: set[tuple[str, int]] = set()
        """Replicas that an earlier controller left: there may be newer inputs that it did not send."""

    def __bool__(self) -> bool:
        return bool(self._asked)

    @property
    def is_busy(self) -> bool:
        """Whether a service is up, or on its way: what that means for others is seen at the next look."""
        return bool(self._up)

    # --- what the stages tell -----------------------------------------------------------------------

    def note_open(self, stage: StageRun) -> None:
        """A stage's tasks are known, or never will be."""
        if stage.name in self._asked and stage.domain is not None:
            self._begin_anew(stage)
        for link in self._asks.get(stage.name, ()):
            if link.up.domain is not None:
                link.up.look_at(range(link.up.size))  # there may be nobody who asks it

    def _begin_anew(self, stage: StageRun) -> None:
        """What ended well for an earlier controller can be started again, for it left no result; what it
        left running is taken over.
        """
        for index in range(min(stage.size, len(stage.history.states))):
            if stage.history.state(index) in HANDED_OUT:
                self._adopted.add((stage.name, index))
            elif stage.history.state(index) == TaskState.DONE:
                stage.history.set(index, TaskState.WAITING)
                stage.history.attempts.setdefault(index, 1)
                self._before.add((stage.name, index))

    def count_end(self, stage: StageRun, index: int) -> None:
        """Counts a consumer that has ended for an earlier controller."""
        for link in self._asks.get(stage.name, ()):
            link.note_end(index)

    def note_end(self, stage: StageRun, index: int) -> None:
        """A task ended: it may have made newer inputs, or have been the last to ask a service."""
        for renewing in self._renews.get(stage.name, ()):
            if renewing.down.domain is not None:
                self._renew(renewing, index)
        for link in self._asks.get(stage.name, ()):
            point = link.up.name, link.note_end(index)
            if self._is_over(point):
                self._finish(point)
        if stage.name in self._asked:
            self._write_off(stage, index)

    def _write_off(self, service: StageRun, index: int) -> None:
        """Says that a replica is gone whose worker was lost, and so cannot."""
        path = self._ledger.paths.service(service.name, index)
        endpoint = read_endpoint(path)
        if endpoint is not None and not endpoint.is_over:
            try:
                write_endpoint(path, replace(endpoint, state="failed", message="its worker was lost"))
            except OSError as error:
                self._tell_refused(path, error)

    def _renew(self, link: Link, index: int) -> None:
        for other in self._asked.get(link.down.name, ()):
            other.forget_keys()
        for replica in link.woken_by(index):
            if link.down.history.state(replica) in HANDED_OUT:
                self._send(link.down, replica)

    def _send(self, service: StageRun, index: int) -> None:
        try:
            inputs = self._recipes[service.name].resolve(index).inputs
        except (ExpressionError, MissingInput, ModuleError):
            return  # it goes on with what it has
        text = json.dumps(inputs)
        path, mark = self._renewal(service, index), mark_of(text.encode())
        if self._sent.get(path) == mark:
            return
        self._sent[path] = mark
        self._put(path, text)
        up = self._up.get(self._point(service, index))
        if up is not None:
            up.ready = False

    def _renewal(self, service: StageRun, index: int) -> Path:
        return self._ledger.paths.service_renewal(service.name, index, service.history.latest(index))

    def _put(self, path: Path, text: str) -> None:
        """Puts a file in place for a replica's worker; one that cannot be written now is owed."""
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

    def _catch_up(self) -> None:
        """Writes what is owed, and sends what an earlier controller may not have sent."""
        for path, text in list(self._owed.items()):
            self._put(path, text)
        while self._adopted:
            name, index = self._adopted.pop()
            service = self._runs[name]
            assert service.spec.service is not None
            if service.spec.service.reload is not None:
                self._send(service, index)

    # --- what the finder asks -----------------------------------------------------------------------

    def may_start(self, service: StageRun, index: int) -> bool:
        """Whether a task may go on: a replica only where it is wanted.

        If not, those who may want it hear that it could be started.
        """
        if service.spec.service is None:
            return True
        point = self._point(service, index)
        up = self._up.get(point)
        if up is not None:
            self._forget_told(service, index)
            return not up.why
        if point not in self._offered:
            self._offered.add(point)
            self._wake(point)
        return False

    def _forget_told(self, service: StageRun, index: int) -> None:
        """What an attempt was told that never began is not meant for the one that gets its number."""
        paths, number = self._ledger.paths, service.history.attempts.get(index, 0) + 1
        for where in (paths.service_stop, paths.service_renewal):
            path = where(service.name, index, number)
            self._sent.pop(path, None)
            self._owed.pop(path, None)
            path.unlink(missing_ok=True)

    def is_over(self, stage: StageRun, index: int) -> bool:
        """Whether a task is a replica that is not up, and will never be needed."""
        return stage.spec.service is not None and self._is_over(self._point(stage, index))

    def was_up(self, service: StageRun, index: int) -> bool:
        """Whether an earlier controller has seen the replica to its end."""
        return (service.name, index) in self._before

    def ask(self, stage: StageRun, index: int) -> bool:
        """Whether all services that a task asks are ready; if not, they are started, where there is room."""
        links = self._asks.get(stage.name)
        if links is None:
            return True
        asked = ((link, link.group_of_downstream(index)) for link in links)
        direct = [(link.up.name, group) for link, group in asked if not link.is_spared(group)]
        now = time.monotonic()
        known = [self._up.get(point) for point in direct]
        if all(up is not None and up.ready and not up.why for up in known):
            for up in known:
                assert up is not None
                up.used = now
            return True
        self._admit(stage, list(dict.fromkeys(self._needed(stage, index))), now)
        return False

    def _needed(self, stage: StageRun, index: int) -> Iterator[Point]:
        """The points that a task asks, and those that these ask in turn."""
        for link in self._asks.get(stage.name, ()):
            group = link.group_of_downstream(index)
            if link.is_spared(group):
                continue
            yield link.up.name, group
            yield from self._needed(link.up, link.replicas(group)[0])

    def _admit(self, stage: StageRun, points: list[Point], now: float) -> None:
        """Starts points, all of them or none."""
        if any(up.why for point in points if (up := self._up.get(point)) is not None):
            return  # on its way down: whoever waits for it is looked at again then
        missing = [point for point in points if point not in self._up]
        if not missing:
            return
        if self._up and not self._room.fits(stage.name, (name for name, _ in (*self._up, *missing))):
            self._turned_away.update(missing)
            return
        make_token(self._ledger.paths)
        for point in missing:
            self._up[point] = _Up(now)
            service = self._runs[point[0]]
            service.look_at(self._replicas(point))

    # --- now and then -------------------------------------------------------------------------------

    def tend(self, in_use: Iterable[tuple[str, int]]) -> None:
        """Sees which points are ready, which idle, which have come down. `in_use` are tasks that are out."""
        self._catch_up()
        if not self._up:
            return
        now = time.monotonic()
        for name, index in in_use:
            for link in self._asks.get(name, ()):
                up = self._up.get((link.up.name, link.group_of_downstream(index)))
                if up is not None:
                    up.used = now
        for point, up in list(self._up.items()):
            self._tend(point, up, now)

    def _tend(self, point: Point, up: _Up, now: float) -> None:
        service = self._runs[point[0]]
        replicas = self._replicas(point)
        states = [service.history.state(index) for index in replicas]
        if up.why or all(state.ended for state in states):
            if not any(state in HANDED_OUT for state in states):
                self._note_down(point)
            elif up.why:
                self._tell_stop(point, up.why)  # some may have been handed out only now
            return
        if self._is_over(point):
            self._finish(point)
            return
        if not any(state in HANDED_OUT for state in states):
            service.look_at(replicas)
        self._look_ready(point, up, now)
        settings = service.spec.service
        assert settings is not None
        wanted = bool(self._turned_away)
        if up.ready and now - up.used > (min(SPARE, settings.idle) if wanted else settings.idle):
            up.why = (
                f"idle for {now - up.used:.0f} s" if not wanted else "its room is wanted by another service"
            )
            up.ready = False
            self._tell_stop(point, up.why)

    def _look_ready(self, point: Point, up: _Up, now: float) -> None:
        """Whether consumers may go on: all replicas are ready, or one is and the others take long.

        None may before each that is ready was given its newest inputs: their results claim these.
        """
        service = self._runs[point[0]]
        left = [index for index in self._replicas(point) if not service.history.state(index).ended]
        endpoints = {index: found for index in left if (found := self._endpoint(service, index)) is not None}
        answering = len(endpoints)
        if not answering or any(self._lacks(service, *each) for each in endpoints.items()):
            up.answers_since, up.ready = None, False
            return
        up.answers_since = up.answers_since if up.answers_since is not None else now
        if not up.ready and (answering == len(left) or now - up.answers_since > PATIENCE):
            up.ready, up.used = True, now
            self._wake(point)

    def _endpoint(self, service: StageRun, index: int) -> Endpoint | None:
        """Where a replica answers; None where it does not."""
        if service.history.state(index) not in HANDED_OUT:
            return None
        found = read_endpoint(self._ledger.paths.service(service.name, index))
        own = found is not None and found.is_ready and found.attempt == service.history.latest(index)
        return found if own else None

    def _lacks(self, service: StageRun, index: int, endpoint: Endpoint) -> bool:
        """Whether a replica has yet to be given its newest inputs."""
        sent = self._sent.get(self._renewal(service, index))
        return sent is not None and sent != endpoint.inputs

    # --- coming down --------------------------------------------------------------------------------

    def _is_over(self, point: Point) -> bool:
        name, group = point
        return all(link.is_done(group) for link in self._asked[name])

    def _finish(self, point: Point) -> None:
        """Stops a point for good."""
        up = self._up.get(point)
        if up is not None:
            up.why, up.ready = "over", False
            self._tell_stop(point, "over")
        service = self._runs[point[0]]
        if service.domain is not None:
            service.look_at(self._replicas(point))  # those that are not up never will be

    def _tell_stop(self, point: Point, why: str) -> None:
        service = self._runs[point[0]]
        for index in self._replicas(point):
            if service.history.state(index) in HANDED_OUT:
                path = self._ledger.paths.service_stop(service.name, index, service.history.latest(index))
                if not path.exists():
                    self._put(path, why)

    def _note_down(self, point: Point) -> None:
        """A point is down: its room is free, and whoever came to ask for it meanwhile asks again."""
        del self._up[point]
        waiting, self._turned_away = self._turned_away, set()
        for other in {*waiting, point}:
            self._wake(other)

    # --- points -------------------------------------------------------------------------------------

    def _point(self, service: StageRun, index: int) -> Point:
        assert service.domain is not None
        return service.name, service.domain.group(index, service.spec.over)

    def _replicas(self, point: Point) -> range:
        return self._asked[point[0]][0].replicas(point[1])

    def _wake(self, point: Point) -> None:
        """Looks again at those who ask a point."""
        for link in self._asked[point[0]]:
            if link.down.domain is not None:
                link.down.look_at(link.dependents(point[1]))


def _key_of(recipe: Recipe) -> Callable[[int], str]:
    return lambda index: recipe.resolve(index).key


class _Room:
    """The cores of a run's pools; on one machine, all of them, and the workers for services without cores."""

    def __init__(
        self, plan: Plan, runs: Mapping[str, StageRun], asked: Mapping[str, list[ServiceLink]]
    ) -> None:
        """`asked` are the edges to those that ask a service, by its name."""
        self._plan = plan
        self._runs = runs
        self._asked = asked
        workers = 0 if plan.site.scheduled else plan.extra_workers
        self._whole = {**rooms(plan.site), WORKERS: workers}

    def fits(self, stage: str, services: Iterable[str]) -> bool:
        """Whether the widest consumer has room beside a point of each of these services, `stage` included."""
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
        """The pool of a stage, the cores of one task, and how many tasks come up together."""
        planned = self._plan.stages[name]
        service = self._runs[name].spec.service
        pool = planned.pool if self._plan.site.scheduled else ""
        return pool, planned.cores, 1 if service is None else service.replicas
