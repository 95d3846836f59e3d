"""Tasks that the words of a command choose by their points: `simulate depth=2.5 seed=1`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from diel.cli.target import FIRST, Target, targets
from diel.errors import DielError, UsageError, counted, did_you_mean
from diel.journal.segment import Reader
from diel.paths import RunPaths
from diel.status import find_task

if TYPE_CHECKING:
    from diel.results import RunReader


def one_task(reader: Reader, words: Sequence[str], usage: str) -> tuple[str, int]:
    """The one task that the words after the run mean: `simulate/33`, or `simulate depth=2.5 seed=1`.

    Raises UsageError where it is none, and with the candidates where there are several.
    """
    groups = targets(words)
    if len(groups) == 2 and groups[1].word.isdecimal():
        raise UsageError(f"write {groups[0].word}/{groups[1].word}, with a slash: a task is STAGE/INDEX")
    if len(groups) != 1:
        said = f"{len(groups)} ({', '.join(map(str, groups))})" if groups else "none"
        raise UsageError(f"expected one task, found {said}: {usage}")
    if not groups[0].at:
        return find_task(reader, groups[0].word)
    from diel.results import RunReader  # reads the workflow: only where points choose

    return the_task(RunReader(reader.paths), groups[0])


def stage_of(run: RunReader, name: str) -> str:
    """A stage's own name. Raises UsageError with the nearest one if there is none."""
    stages = run.workflow.stages
    if name not in stages:
        hint = did_you_mean(name, stages) or f"stages: {', '.join(stages)}"
        raise UsageError(f"{run.paths.run_id} has no stage '{name}'; {hint}")
    return name


def named_tasks(paths: RunPaths, stage: str, indices: Iterable[int]) -> list[str]:
    """Tasks by their points too, if the run's workflow can be read."""
    from diel.results import RunReader  # reads the workflow

    tasks = [f"{stage}/{index}" for index in indices]
    try:
        return list(map(RunReader(paths).named, tasks))
    except DielError:
        return tasks


def tasks_of(run: RunReader, target: Target) -> tuple[str, Sequence[int]]:
    """The stage and tasks that a target means, in order: all of the stage where it says no more.

    Raises UsageError where there are none, with the nearest values that there are.
    """
    name, slash, number = target.word.partition("/")
    stage, domain = stage_of(run, name), run.domain(name)
    if slash and not (number.isascii() and number.isdigit() and len(number) < 19):
        raise UsageError(f"'{target.word}': expected STAGE/INDEX, such as {stage}/0")
    if domain is None:
        raise UsageError(f"'{stage}' has no tasks yet: `diel explain {run.paths.run_id} {stage}` says why")
    tasks: Sequence[int] = range(domain.size)
    if slash:
        tasks = range(int(number), int(number) + 1)
        if tasks[0] >= domain.size:
            has = f"{counted(domain.size, 'task')}, {stage}/0 to {stage}/{domain.size - 1}"
            raise UsageError(f"{run.paths.run_id} has no task '{target.word}'; '{stage}' has {has}")
    if not target.at:
        return stage, tasks
    from diel.results.picked import Typed, tasks_at  # only where points choose

    return stage, tasks_at(run, stage, tasks, {name: Typed(text) for name, text in target.at.items()})


def point_of(run: RunReader, target: Target) -> dict[str, Any]:
    """The values that a target gives, those of the point of its task included."""
    from diel.results.picked import Typed  # only where points choose

    at: dict[str, Any] = {name: Typed(text) for name, text in target.at.items()}
    if "/" in target.word:
        stage, tasks = tasks_of(run, target)
        at |= run.point(stage, tasks[0])
    return at


def the_task(run: RunReader, target: Target) -> tuple[str, int]:
    """The one task that a target means. Raises UsageError with the candidates where there are several."""
    stage, found = tasks_of(run, target)
    if len(found) == 1:
        return stage, found[0]
    points = [run.point(stage, index) for index in found[:FIRST]]
    left = [name for name in run.parameters(stage) if name not in target.at]
    telling = [name for name in left if any(point[name] != points[0][name] for point in points)]
    listed = [f"    {run.named(f'{stage}/{index}')}" for index in found[:FIRST]]
    more = [f"    and {len(found) - FIRST:,} more"] if len(found) > FIRST else []
    add = " ".join(f"{name}=…" for name in telling or left)
    raise UsageError("\n".join((f"{len(found):,} tasks match '{target}'; add {add}", *listed, *more)))
