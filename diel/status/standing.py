"""Who drives a run, and whether anybody does."""

from __future__ import annotations

from dataclasses import dataclass

from diel.journal.history import History
from diel.paths import RunPaths
from diel.project.lease import Lease, is_alive, is_being_taken, last_word, read_lease
from diel.project.submission import Submission, awaited, newest_submission
from diel.states import RunState


@dataclass(frozen=True)
class Driving:
    """A run's state, and who drives it."""

    held: tuple[Lease, float] | None
    """The lease and the age of its heartbeat in seconds."""
    alive: bool
    coming: Submission | None
    """The controller that was asked for and has not come yet."""
    state: RunState


def standing(paths: RunPaths, history: History) -> Driving:
    """Who drives a run, as its files tell."""
    # In the order in which a controller comes: one that has passed a look is seen by the next.
    asked = awaited(paths, history)
    taking = is_being_taken(paths)
    held = read_lease(paths)
    alive = history.ended is None and held is not None and is_alive(*held)
    if alive and held is not None and last_word(paths, held[0].epoch) == "handover":
        alive = False  # on another host its heartbeat is still young
    coming = None if alive else asked
    taken = held is not None or newest_submission(paths) is not None
    state = RunState.PENDING if coming is not None else run_state(history, alive, taken=taken)
    if state is RunState.INTERRUPTED and taking:
        state = RunState.PENDING
    return Driving(held, alive, coming, state)


def run_state(history: History, alive: bool, *, taken: bool = True) -> RunState:
    """The state of a run: one without its controller is interrupted, whatever its journal says last.

    A run that no controller has taken yet is pending.
    """
    if history.state in (RunState.PENDING, RunState.RUNNING) and not alive:
        return RunState.INTERRUPTED if taken else RunState.PENDING
    return history.state
