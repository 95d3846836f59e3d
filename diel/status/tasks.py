"""The stages and tasks of a run: one found by its name, all of them by their state."""

from __future__ import annotations

from diel.errors import UsageError, counted, did_you_mean
from diel.journal.ranges import ranges
from diel.journal.snapshot import Reader
from diel.journal.stage_history import LEFT_BY_AXIS, StageHistory
from diel.states import TaskState
from diel.status.written import stage_names

UNDER_WAY = (TaskState.READY, TaskState.QUEUED, TaskState.RUNNING)


def find_stage(reader: Reader, name: str) -> StageHistory:
    """A stage of a run. Raises UsageError with the nearest name where there is none."""
    stages = reader.history.stages
    if name in stages:
        return stages[name]
    written = stage_names(reader.paths)
    if name in written:
        return StageHistory("analysis", 0, bytearray())
    known = [*stages, *(other for other in written if other not in stages)]
    hint = did_you_mean(name, known) or f"stages: {', '.join(known) or 'none yet'}"
    raise UsageError(f"{reader.paths.run_id} has no stage '{name}'; {hint}")


def find_task(reader: Reader, task: str) -> tuple[str, int]:
    """The stage and index of `simulate/17`, or of a stage that has one task.

    Raises UsageError where there is no such task.
    """
    name, slash, text = task.partition("/")
    stage = find_stage(reader, name)
    run = reader.paths.run_id
    last = stage.total - 1
    if not slash:
        if stage.total != 1:
            known = f"{stage.total} tasks, {name}/0 to {name}/{last}" if stage.total else "no tasks yet"
            raise UsageError(f"{run}: '{name}' has {known}; say which one")
        return name, 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError(f"'{task}' is no task; write STAGE/INDEX, for instance {name}/0")
    index = int(text)
    if index > last:
        known = "no tasks yet" if last < 0 else f"{counted(last + 1, 'task')}, {name}/0 to {name}/{last}"
        raise UsageError(f"{run} has no task '{task}'; '{name}' has {known}")
    return name, index


def never_came(stage: StageHistory) -> list[list[int]]:
    """The tasks at points that never came, as [first, last] pairs."""
    return ranges(index for index, reason in enumerate(stage.left_out) if reason == LEFT_BY_AXIS)


def tasks_by_state(stage: StageHistory, *, under_way: bool = True) -> dict[TaskState, list[list[int]]]:
    """The indices of a stage's tasks in each state, as [first, last] pairs; states without any left out.

    Without `under_way`, what was handed out counts as waiting: its controller is gone. Tasks that never came
    are in no state: see `never_came`.
    """
    found: dict[TaskState, list[int]] = {}
    states = bytes(stage.states) + bytes(max(0, stage.total - len(stage.states)))
    left_out = stage.left_out + bytes(max(0, len(states) - len(stage.left_out)))
    for index, number in enumerate(states):
        state = TaskState(number)
        if left_out[index] == LEFT_BY_AXIS:
            continue
        if not under_way and state in UNDER_WAY:
            state = TaskState.WAITING
        found.setdefault(state, []).append(index)
    return {state: ranges(found[state]) for state in TaskState if state in found}


def count_text(state: TaskState, count: int, tolerated: int) -> str:
    """`3 failed, 1 of them tolerated`: how many tasks are in a state; of those that failed, how many may."""
    text = f"{count:,} {state.label}"
    if state is not TaskState.FAILED or not tolerated:
        return text
    return f"{text}, {'' if tolerated == count else f'{tolerated:,} of them '}tolerated"
