"""What services hold of a backend while they are up, besides the tasks that ask them."""

from __future__ import annotations

from collections import Counter
from math import ceil

from diel.attempt.bundle import Bundle
from diel.plan import Plan
from diel.site import Shape


class Holding:
    """The services that are handed out."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._held: dict[int, tuple[Shape, int]] = {}

    def take(self, bundle: Bundle, shape: Shape, cores: int) -> None:
        """Note a bundle if it is a service's."""
        if bundle.work.service is not None:
            self._held[bundle.number] = shape, cores

    def ended(self, number: int) -> None:
        self._held.pop(number, None)

    @property
    def cores(self) -> int:
        return sum(cores for _, cores in self._held.values())

    def room_beside(self, shape: Shape) -> int:
        """How many tasks of a shape all blocks of its pool could run, beside services."""
        pool, own, blocks = self._plan.site.pools[shape.pool], 0, 0
        for other, count in Counter(shape for shape, _ in self._held.values()).items():
            if other == shape:
                own = count
            elif other.pool == shape.pool:
                blocks += ceil(count / other.slots(pool))
        return (pool.blocks - blocks) * shape.slots(pool) - own
