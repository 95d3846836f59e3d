"""How far a controller is, measured cheaply; and what a run prints as it begins and ends."""

import time
from collections import deque
from dataclasses import dataclass

from diel.base.errors import counted
from diel.base.paths import here
from diel.base.states import RunState, TaskState
from diel.base.values import format_duration
from diel.controller.controller import Controller
from diel.observe.status.axis import AxisStatus, axes_of
from diel.observe.status.columns import columns, one_line, paint, paint_state
from diel.observe.status.run import ended_status, is_hopeless, is_live
from diel.observe.status.sections import SECTIONS, next_steps
from diel.observe.status.stage import StageStatus, count_text
from diel.planning.plan import Plan
from diel.site.shape import cores_of
from diel.store.journal.history import History
from diel.store.journal.records import BlockFacts, Made
from diel.store.journal.stage_history import StageHistory
from diel.store.table import short_path, shown, texts
from diel.tasks.results import artifact_path

WINDOW = 15.0
"""Seconds over which a stage's rate is measured."""
SAMPLE = 0.5
LOOK = 0.5
"""Seconds between two looks at the metrics of running trials, which are files."""
MAX_VALUES = 10
MAX_WIDTH = 60
MAX_LINE = 1000
"""Characters of a value that stands alone."""


@dataclass(frozen=True)
class Row(StageStatus):
    """One stage of a live display."""

    rate: float | None = None
    """Recent results per second; None if nothing was computed."""
    complete: bool = False


class Meter:
    """Reads a controller's progress from inside its process."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.plan = controller.plan
        self._began: float | None = None
        self._before: dict[str, float] = {}
        self._samples: dict[str, deque[tuple[float, int]]] = {}
        self._axes: tuple[float, tuple[AxisStatus, ...]] = (0.0, ())

    def axes(self, history: History, *, last: bool = False) -> tuple[AxisStatus, ...]:
        """Return the searches and loops, read now and then, and at the end of the run."""
        now = time.monotonic()
        if history.axes and (last or now - self._axes[0] >= LOOK):
            paths = self._controller.paths
            self._axes = (now, axes_of(paths, history, time.time(), driven=history.ended is None))
        return self._axes[1]

    def begin(self, history: History) -> None:
        """Note what earlier controllers of the run did: it does not count for the speed of this one."""
        if self._began is None:
            self._began = time.monotonic()
            self._before = {name: stage.seconds for name, stage in history.stages.items()}

    def rows(self, history: History) -> list[Row]:
        """Return a row for each stage, in the order of the graph."""
        now = time.monotonic()
        running = self._running(history)
        return [
            self._row(name, history.stage(name), running.get(name, 0), now) for name in self.plan.graph.order
        ]

    def _row(self, name: str, stage: StageHistory, running: int, now: float) -> Row:
        run, counts = self._controller.stages.get(name), stage.counts()
        return Row(
            name=name,
            kind=stage.kind,
            total=self.plan.stages[name].tasks if run is None or not run.known else stage.expected,
            counts=counts | {"running": running},
            rate=self._rate(name, counts["done"], now),
            complete=run is not None and run.complete,
        )

    def _running(self, history: History) -> dict[str, int]:
        """Return the tasks that run now: one for each of the oldest bundles that workers have room for.

        Workers seldom report what they began, but they run a bundle's tasks one after the other, and bundles
        in the order in which they were handed out. In blocks only the journal knows what has begun.
        """
        if self.plan.executor == "blocks":
            return {n: stage.states.count(TaskState.RUNNING) for n, stage in history.stages.items()}
        room = self.plan.capacity
        counts: dict[str, int] = {}
        for sent in self._controller.sent.values():
            room -= sent.cores
            if room < 0:
                break
            counts[sent.stage.name] = counts.get(sent.stage.name, 0) + 1
        return counts

    def _rate(self, name: str, done: int, now: float) -> float | None:
        samples = self._samples.setdefault(name, deque())
        if not samples or now - samples[-1][0] >= SAMPLE:
            samples.append((now, done))
        while now - samples[0][0] > WINDOW:
            samples.popleft()
        then, before = samples[0] if samples else (now, done)
        return (done - before) / (now - then) if done > before and now > then else None

    def time_left(self, history: History) -> tuple[float, str] | None:
        """Return seconds to the end, and how sure that is; None until something was measured.

        Sure (empty) where every stage was measured; `~` where one has yet to begin and is taken to be like
        the others; `≤` where a loop or search may end before all its points were there; `≥` where the number
        of a stage's tasks is not known yet. Run times are weighed by cores and scaled by how fast this
        controller got through those that are done, so that whatever else costs time is in it.
        """
        if self._began is None:
            return None
        stages = history.stages.values()
        timed = sum(stage.timed for stage in stages)
        usual = sum(stage.seconds for stage in stages) / timed if timed else 0.0
        done = remaining = 0.0
        sure = ""
        for name, plan in self.plan.stages.items():
            stage = history.stage(name)
            done += (stage.seconds - self._before.get(name, 0.0)) * plan.cores
            run, open_ = self._controller.stages.get(name), plan.tasks
            if run is not None and (run.void or run.known):
                open_ = 0 if run.void else max(0, run.size - run.ended)
            if open_ is None:
                sure = "≥"
            elif open_:
                early = run is not None and any(adaptive.axis.may_end_early for adaptive in run.adaptive)
                sure = sure or ("≤" if early else "" if stage.timed else "~")
                remaining += open_ * (stage.seconds / stage.timed if stage.timed else usual) * plan.cores
        return ((time.monotonic() - self._began) * remaining / done, sure) if done > 0 else None

    def time_left_text(self, history: History) -> str:
        """Return `2m05s left`, `~ 2m05s left` for a guess, empty if unknown."""
        estimate = self.time_left(history)
        return "" if estimate is None else f"{estimate[1]} {format_duration(estimate[0])} left".lstrip()


def blocks_text(plan: Plan, history: History) -> str:
    """Return the blocks of a run: `2 blocks, 16 cores`, `waiting for a block: job 123 pending (Priority)`."""
    live = [block for block in history.blocks.values() if is_live(block) and not block["ending"]]
    pending = [block for block in live if block["state"] == "pending"]
    held = [block for block in live if block["state"] != "pending"]
    parts = []
    if held:
        cores = sum(_cores(plan, block) for block in held)
        parts.append(f"{counted(len(held), 'block')}, {counted(cores, 'core')}")
    if pending:
        first = min(pending, key=lambda block: not is_hopeless(block))
        reason = f" ({one_line(first['reason'])})" if first["reason"] else ""
        more = f" and {len(pending) - 1:,} more" if len(pending) > 1 else ""
        waiting = f"job {first['job']} pending{reason}{more}"
        parts.append(waiting if held else f"waiting for a block: {waiting}")
    if history.silent:
        parts.append(f"the scheduler does not answer: {one_line(history.silent)}")
    return ", ".join(parts)


def _cores(plan: Plan, block: BlockFacts) -> int:
    """Return the cores of a block, by its shape; a shape that only retries have counts as its pool's."""
    pool = plan.site.pools.get(block["pool"])
    if pool is None:
        return 0
    shapes = {stage.shape.label: stage.shape for stage in plan.stages.values()}
    shape = shapes.get(block["shape"])
    return (shape.block_nodes(pool) if shape is not None else pool.block_nodes) * cores_of(pool)


def start_line(controller: Controller) -> str:
    """Return the run and its size."""
    plan = controller.plan
    counts = [stage.tasks for stage in plan.stages.values() if stage.tasks is not None]
    stages = "one stage" if len(plan.stages) == 1 else f"{len(plan.stages)} stages"
    number = f"{'up to ' if plan.may_end_early else ''}{counted(sum(counts), 'task')}"
    number += "" if len(counts) == len(plan.stages) else " and more"
    return f"{controller.paths.run_id}: {number} in {stages}, on site {plan.site.name}"


def summary(controller: Controller, state: RunState, seconds: float, *, quiet: bool) -> list[str]:
    """Return how a run ended, the values of the last stages, and what to do next."""
    history = controller.history
    stages = history.stages.values()
    counts = {s: sum(stage.counts()[s.label] for stage in stages) for s in TaskState}
    tolerated = sum(len(stage.tolerated) for stage in stages)
    cached = counts[TaskState.CACHED]
    done = f"{counted(counts[TaskState.DONE] + cached, 'task')} done"
    parts = [f"{done} ({cached:,} cached)" if cached else done]
    parts += [
        count_text(other, counts[other], tolerated)
        for other in (TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)
        if counts[other]
    ]
    run = paint(controller.paths.run_id, bold=True)
    lines = [f"{run} {paint_state(state)} after {format_duration(seconds)}: {', '.join(parts)}"]
    if state is not RunState.SUCCEEDED:
        lines += [f"{name}: no tasks, {stage.void}" for name, stage in history.stages.items() if stage.void]
    failed = (
        run for run in controller.stages.values() if run.known and run.history.states.count(TaskState.FAILED)
    )
    lines += [f"{run.name}: {reason} failed" for run in failed if (reason := run.shared_failures())]
    if quiet:
        return lines
    steps = []
    if state is not RunState.SUCCEEDED or history.has_notes():
        status = ended_status(controller.paths, history, state)
        lines += [line for section in SECTIONS if section.used(status) for line in section.summary(status)]
        steps = next_steps(status)
    if state in (RunState.SUCCEEDED, RunState.FAILED):
        lines += _values(controller)
    if not steps:
        steps = [(f"results {controller.paths.run_id} {_example(controller)}", "prints results as a table")]
    where = here(controller.paths)
    return [*lines, "", *columns([[f"  diel {step}{where}", paint(why, dim=True)] for step, why in steps])]


def _example(controller: Controller) -> str:
    """Return an output of a last stage, for a command to type as it is."""
    for name in reversed(controller.plan.graph.order):
        stage = controller.stages[name]
        if stage.size and stage.history.state(0).good:
            values = controller.results.record(name, 0).get("values")
            return f"{name}.{next(iter(values))}" if values else name
    return controller.plan.graph.order[-1]


def _values(controller: Controller) -> list[str]:
    """Return what the last stages made, if it is little."""
    feeding = {edge.upstream for edge in controller.plan.graph.edges}
    lines: list[str] = []
    for name in controller.plan.graph.order:
        stage = controller.stages[name]
        if name in feeding or stage.size > MAX_VALUES:
            continue
        good = [index for index in range(stage.size) if stage.history.state(index).good]
        outputs_of = {index: _outputs(controller, controller.results.record(name, index)) for index in good}
        rows = [{**stage.point(index), **outputs} for index, outputs in outputs_of.items() if outputs]
        lines += ["", paint(name, bold=True), *_value_lines(rows)] if rows else []
    return lines


def _outputs(controller: Controller, record: Made) -> dict[str, object]:
    outputs: dict[str, object] = dict(record.get("values") or {})
    for label, artifact in (record.get("artifacts") or {}).items():
        if "files" in artifact:
            outputs[label] = counted(len(artifact["files"]), "file")
        else:
            path = artifact_path(record, artifact["path"], controller.paths.root)
            outputs[label] = short_path(str(path))
    return outputs


def _value_lines(rows: list[dict[str, object]]) -> list[str]:
    if len(rows) == 1:
        return columns([[f"  {label}", shown(value, MAX_LINE)] for label, value in rows[0].items()])
    labels = list(dict.fromkeys(label for row in rows for label in row))
    table = texts([[row.get(label) for label in labels] for row in rows], MAX_WIDTH)
    return [f"  {line}" for line in columns([[paint(label, dim=True) for label in labels], *table])]
