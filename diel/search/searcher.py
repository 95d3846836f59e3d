"""What every searcher does for diel."""

from __future__ import annotations

from typing import Any, Protocol

from diel.journal.axis_history import Course, TrialState


class Searcher(Protocol):
    """Proposes the trials of one search: the same ones for the same seed and the same calls."""

    def ask(self) -> dict[str, Any] | None:
        """The hyperparameters of the next trial, by name; None where there is none left."""

    def report(self, number: int, step: int, value: float) -> bool:
        """Takes in a value on the way; says whether the trial should be pruned."""

    def is_given_up(self, number: int) -> bool:
        """Whether a report said that a running trial should be pruned."""

    def tell(self, number: int, state: TrialState, values: list[float]) -> None:
        """Takes in the end of a trial."""

    def replay(self, course: Course) -> None:
        """Comes to where the searcher was that made a course, random state included."""
