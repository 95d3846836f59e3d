"""Stages that were held or stopped before all their tasks were tried: why, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diel.errors import counted
from diel.journal.history import History
from diel.states import TaskState
from diel.status.run import Status

Stopped = tuple[str, Sequence[str], Mapping[str, int]]
"""A stage, by which rule it was stopped and why, and its tasks by the label of their state."""
_UNTRIED = (TaskState.WAITING, TaskState.READY, TaskState.SKIPPED)


def stopped_stages(history: History) -> list[Stopped]:
    return [(name, stage.held, stage.counts()) for name, stage in history.stages.items() if stage.held]


def stopped_of(status: Status) -> list[Stopped]:
    return [(stage.name, stage.held, stage.counts) for stage in status.stages if stage.held]


def stopped_lines(stages: Iterable[Stopped]) -> list[str]:
    """`simulate is held: its first 8 tasks failed alike (app): …; 76 tasks not tried`."""
    lines = []
    for name, (rule, why), counts in stages:
        left = sum(counts[state.label] for state in _UNTRIED)
        how = "is held" if rule in ("hold", "changed") else "was stopped"
        untried = f"; {counted(left, 'task')} not tried" if left else ""
        lines.append(f"{name} {how}: {' '.join(why.split())}{untried}")
    return lines


def answers(status: Status) -> list[str]:
    """The question that a held stage asks, as commands: while the run goes on, and when it has ended."""
    if not any(stage.held and stage.held[0] == "hold" for stage in status.stages):
        return []
    anyway = f"`diel resume {status.run} --anyway`"
    if status.state.live:
        return [
            f"    go on with it? {anyway}; without an answer the run ends when nothing else is left to do"
        ]
    again = (
        f"mend the cause and `diel resume {status.run} --update` (a changed workflow: `diel run` it again)"
    )
    return [f"    {again}, or go on all the same: {anyway}"]


def stopped_steps(run: str, stages: Iterable[Stopped]) -> list[tuple[str, str]]:
    """What to do next: commands, and what each is for."""
    rules = {rule for _, (rule, _), _ in stages}
    steps = [(f"resume {run}", "tries again what failed or was not tried; --update once a file is mended")]
    if "changed" in rules:
        steps = [(f"resume {run}", "goes on once the file is what it was")]
        steps += [(f"resume {run} --update", "takes it as it is now, for all that read it")]
    if "hold" in rules:
        steps.append((f"resume {run} --anyway", "tries the rest all the same, whatever fails"))
    return steps if rules else []
