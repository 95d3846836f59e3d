"""Runs, stages and tasks in the words of a command: which are meant, and what a shell can complete."""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from diel.base.errors import DielError, UsageError, did_you_mean
from diel.base.paths import RunPaths, runs_dir
from diel.base.values import value_text
from diel.cli.options import Decorator
from diel.observe.status.stage import find_task, index_of, stage_names
from diel.store.journal.segment import Reader
from diel.store.journal.snapshot import read_run
from diel.store.journal.stage_history import StageHistory
from diel.store.project.runs import all_runs, find_run

if TYPE_CHECKING:
    from diel.observe.results import RunReader

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
FIRST = 20
"""The most tasks of a stage to offer: a shell then completes to `simulate/`, and shows a few."""
_VALUE = re.compile(r"[A-Za-z_][\w.]*=")
_COMMA = re.compile(r",\s*(?=[A-Za-z_][\w.]*=)")


def run_and_rest(runs: Path, words: Sequence[str]) -> tuple[RunPaths, tuple[str, ...]]:
    """Return the first word's run, and the other words; `last` and all words if that is no run. Raise
    UsageError where there is no run at all, and where a word looks like a run's name only."""
    if not words:
        return find_run(runs), ()
    try:
        return find_run(runs, words[0]), tuple(words[1:])
    except UsageError as error:
        # STAGE, STAGE.VALUE or STAGE/INDEX: a run's name ends in a dash and a number
        stage = words[0].partition("/")[0].partition(".")[0].partition("=")[0]
        if words[0] == "last" or not stage.isidentifier():
            raise
        try:
            paths = find_run(runs)
        except UsageError:
            raise error from None
        _refuse_unknown(paths, words[0], stage)
        return paths, tuple(words)


def _refuse_unknown(newest: RunPaths, word: str, stage: str) -> None:
    """Raise UsageError for a word that is no run, and stands nowhere in the newest one's workflow."""
    with suppress(OSError):  # whoever reads the run says what is wrong with it
        if re.search(rf"\b{stage}\b", newest.workflow.read_text("utf-8", "replace")):
            return
        stages, runs = stage_names(newest), newest.root.parent
        named = [*stages, *(paths.run_id for paths in all_runs(runs))]
        hint = did_you_mean(stage, named) or f"its stages: {', '.join(stages)}; `diel list` shows the runs"
        raise UsageError(f"no run '{word}' in {runs}, and {newest.run_id} has no stage '{stage}'; {hint}")


class Target(NamedTuple):
    """A stage or task in the words of a command, with the values that choose among a stage's tasks."""

    word: str
    """`simulate`, `simulate/33` or, where outputs are meant, `simulate.energy`."""
    at: dict[str, str]
    """`depth=2.5 seed=1`."""

    def __str__(self) -> str:
        return " ".join((self.word, *(f"{name}={value}" for name, value in self.at.items())))


def targets(words: Sequence[str]) -> list[Target]:
    """Words in their groups: each NAME=VALUE belongs to the stage before it. Also as they are shown, with
    commas. Raise UsageError where values come first."""
    listed: list[Target] = []
    for word in words:
        if not _VALUE.match(word):
            listed.append(Target(word, {}))
            continue
        if not listed:
            raise UsageError(f"'{word}' says at which point, and comes after a stage: STAGE {word}")
        for part in _COMMA.split(word.rstrip(",")):
            name, _, value = part.partition("=")
            choose(listed[-1].at, name, value)
    return listed


def choose(at: dict[str, Any], name: str, value: Any) -> None:
    """Add a value that chooses among tasks. Raise UsageError where there is another one of that name."""
    earlier, text = value_text(at.setdefault(name, value)), value_text(value)
    if earlier != text:
        raise UsageError(f"{name}={earlier} and {name}={text} exclude each other: leave one of them out")


def is_file(target: str) -> bool:
    """Return whether FILE|RUN means a workflow file."""
    return target.endswith((".yaml", ".yml")) or Path(target).is_file()


def complete_run(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    names = ["last", *(paths.run_id for paths in all_runs(runs_dir(context.params.get("runs"))))]
    return [name for name in names if name.startswith(incomplete)]


run_argument: Decorator = click.argument("run", default="last", shell_complete=complete_run)


def complete_stage(
    context: click.Context, parameter: click.Parameter, incomplete: str, *, task: bool = False
) -> list[str]:
    """[RUN] STAGE, and with a slash, or for a `task`, [RUN] TASK."""
    words = context.params.get("words") or ()
    runs = [] if words else complete_run(context, parameter, incomplete)
    offer: Callable[..., Iterable[str]] = _tasks if task or "/" in incomplete else _stages
    names = offer(context, words[0] if words else "last", incomplete)
    return [*runs, *(name for name in names if name.startswith(incomplete))]


complete_task = partial(complete_stage, task=True)


def words_argument(metavar: str, complete: Complete = complete_stage, *, required: bool = False) -> Decorator:
    """Return the words of a command that `run_and_rest` takes."""
    return click.argument("words", nargs=-1, required=required, metavar=metavar, shell_complete=complete)


def _tasks(context: click.Context, run: str, incomplete: str) -> list[str]:
    words = []
    for name, stage in _stages(context, run, incomplete).items():
        words += [name] if stage.total <= 1 else [f"{name}/{i}" for i in range(stage.total)[:FIRST]]
        index = incomplete.removeprefix(f"{name}/")
        if index != incomplete and index.isdecimal() and FIRST <= int(index) < stage.total:
            words.append(incomplete)
    return [task for task in words if task.startswith(incomplete)]


def _stages(context: click.Context, run: str, incomplete: str) -> dict[str, StageHistory]:
    """Return the stages of a run; none if it cannot be read, since completion must not print errors."""
    try:
        paths = find_run(runs_dir(context.params.get("runs")), run)
        begun = read_run(paths).history.stages
    except DielError:
        return {}
    later = [name for name in stage_names(paths) if name not in begun]
    return begun | {name: StageHistory("analysis", 0, bytearray()) for name in later}


def one_task(reader: Reader, words: Sequence[str], usage: str) -> tuple[str, int]:
    """Return the one task of the words after the run: `simulate/33`, or `simulate depth=2.5 seed=1`. Raise
    UsageError where it is none, and with the candidates where there are several."""
    groups = targets(words)
    if len(groups) == 2 and groups[1].word.isdecimal():
        raise UsageError(f"write {groups[0].word}/{groups[1].word}, with a slash: a task is STAGE/INDEX")
    if len(groups) != 1:
        several = f"{len(groups)} ({', '.join(map(str, groups))})" if groups else "none"
        raise UsageError(f"expected one task, found {several}: {usage}")
    if not groups[0].at:
        return find_task(reader, groups[0].word)
    from diel.observe.results import RunReader  # reads the workflow: only where points choose

    return the_task(RunReader(reader.paths), groups[0])


def named_tasks(paths: RunPaths, stage: str, indices: Iterable[int]) -> list[str]:
    """Tasks by their points too, if the run's workflow can be read."""
    from diel.observe.results import RunReader  # reads the workflow

    tasks = [f"{stage}/{index}" for index in indices]
    try:
        return list(map(RunReader(paths).named, tasks))
    except DielError:
        return tasks


def tasks_of(run: "RunReader", target: Target) -> tuple[str, Sequence[int]]:
    """Return the stage and tasks of a target, in order: all of the stage where it says no more. Raise
    UsageError where there are none, with the nearest values that there are."""
    stage, slash, _ = target.word.partition("/")
    run.check_stage(stage)
    domain = run.domain(stage)
    if domain is None:
        raise UsageError(f"'{stage}' has no tasks yet: `diel explain {run.paths.run_id} {stage}` says why")
    tasks: Sequence[int] = range(domain.size)
    if slash:
        tasks = (index_of(run.paths.run_id, target.word, domain.size),)
    if not target.at:
        return stage, tasks
    from diel.observe.results.rows import TypedText, tasks_at  # only where points choose

    return stage, tasks_at(run, stage, tasks, {name: TypedText(text) for name, text in target.at.items()})


def point_of(run: "RunReader", target: Target) -> dict[str, Any]:
    """Return the values of a target, with those of its task's point."""
    from diel.observe.results.rows import TypedText  # only where points choose

    at: dict[str, Any] = {name: TypedText(text) for name, text in target.at.items()}
    if "/" in target.word:
        stage, tasks = tasks_of(run, target)
        at |= run.point(stage, tasks[0])
    return at


def the_task(run: "RunReader", target: Target) -> tuple[str, int]:
    """Return the one task of a target. Raise UsageError with the candidates where there are several."""
    stage, tasks = tasks_of(run, target)
    if len(tasks) == 1:
        return stage, tasks[0]
    points = [run.point(stage, index) for index in tasks[:FIRST]]
    free = [name for name in run.parameters(stage) if name not in target.at]
    telling = [name for name in free if any(point[name] != points[0][name] for point in points)]
    listed = [f"    {run.named(f'{stage}/{index}')}" for index in tasks[:FIRST]]
    more = [f"    and {len(tasks) - FIRST:,} more"] if len(tasks) > FIRST else []
    names = telling or (free if more else [])
    add = " ".join(["add", *(f"{name}=…" for name in names)]) if names else "write one by its number"
    raise UsageError("\n".join((f"{len(tasks):,} tasks match '{target}'; {add}", *listed, *more)))
