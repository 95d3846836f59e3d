"""What the first worker of each pool looks for before its first task: packages that modules import there."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

from diel.attempt.bundle import Bundle
from diel.check.imports import imported
from diel.plan import Plan


class Imports:
    """Asks in bundles until a worker of the pool has answered: blocks can be lost before."""

    def __init__(self, plan: Plan) -> None:
        self._wanted: dict[str, set[str]] = {}
        for shape, stages in plan.shapes.items():
            for _, _, names in imported(plan.checked, stages):
                self._wanted.setdefault(shape.pool, set()).update(names)

    def ask(self, pool: str, bundle: Bundle) -> Bundle:
        """A bundle with what its worker is to look for, if anything."""
        wanted = self._wanted.get(pool)
        return bundle._replace(imports=tuple(sorted(wanted))) if wanted else bundle

    def note(self, pool: str, future: Future[bytes]) -> None:
        """Asks no more in a pool once a bundle of it was reported."""
        if pool in self._wanted:
            future.add_done_callback(partial(self._answered, pool))

    def _answered(self, pool: str, future: Future[bytes]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._wanted.pop(pool, None)
