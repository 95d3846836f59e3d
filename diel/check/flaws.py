"""What a check has found so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from diel.errors import MAX_PROBLEMS, Problem, SpecError, first_problems
from diel.graph import Key
from diel.load import Document
from diel.spec import Workflow
from diel.spec.forms.points import Points


@dataclass
class Check:
    """A document under examination: its problems, and the points of its axes where they are known."""

    document: Document
    folder: Path
    problems: list[Problem] = field(default_factory=list)
    points: dict[str, Points] = field(default_factory=dict)
    """Listed and computed axes and files, by name; samples and derived axes are not drawn."""

    @property
    def workflow(self) -> Workflow:
        return self.document.spec

    @cached_property
    def stages(self) -> dict[str, tuple[str, ...] | None]:
        """The names of all stages, as names that may have any key behind a dot."""
        return dict.fromkeys(self.workflow.stages)

    def add(self, key: Key, message: str, hint: str = "", offset: int | None = None) -> None:
        """Notes a problem at a key, or inside its text. Raises SpecError beyond what is shown."""
        self.problems.append(self.document.problem(key, message, hint, offset=offset))
        self.stop_at(MAX_PROBLEMS)

    def is_wrong(self, key: Key) -> bool:
        """Whether a problem is told at a key or below it."""
        place = ".".join(map(str, key))
        return any(one.key == place or one.key.startswith(f"{place}.") for one in self.problems)

    def stop_at(self, most: int) -> None:
        """Raises SpecError where there are more problems than so many.

        Of each place the first one is told: what follows from it says nothing new.
        """
        if len(self.problems) > most:
            places = {(problem.line, problem.column): problem for problem in reversed(self.problems)}
            raise SpecError(first_problems(places.values()))
