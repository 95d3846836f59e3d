"""Room for services: whether those that ask them still fit beside all that is up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diel.plan import Plan
from diel.site import rooms
from diel.tasks.service import ServiceLink
from diel.tasks.stage_run import StageRun

_WORKERS = "workers"
"""What services without cores of their own share, beside the pools."""


class Room:
    """The cores of a run's pools; on one machine, all of them, and the workers for services without cores."""

    def __init__(
        self, plan: Plan, runs: Mapping[str, StageRun], asked: Mapping[str, list[ServiceLink]]
    ) -> None:
        """`asked` are the edges to those that ask a service, by its name."""
        self._plan = plan
        self._runs = runs
        self._asked = asked
        workers = 0 if plan.site.scheduled else plan.extra_workers
        self._whole = {**rooms(plan.site), _WORKERS: workers}

    def fits(self, stage: str, services: Iterable[str]) -> bool:
        """Whether the widest consumer has room beside a point of each of these services, `stage` included."""
        held: dict[str, int] = {}
        widest: dict[str, int] = {}
        consumers = {stage}
        for name in services:
            pool, cores, replicas = self._taken_by(name)
            held[pool] = held.get(pool, 0) + cores * replicas
            if not cores:
                held[_WORKERS] = held.get(_WORKERS, 0) + replicas
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
