"""What a check has found so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from diel.errors import Problem
from diel.graph import Key
from diel.load import Document
from diel.points import Points
from diel.spec import Workflow


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

    def add(self, key: Key, message: str, hint: str = "", offset: int | None = None) -> None:
        """Notes a problem at a key, or inside its text."""
        self.problems.append(self.document.problem(key, message, hint, offset=offset))
