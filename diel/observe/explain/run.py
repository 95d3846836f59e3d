"""A run, or one stage of it: what failed, what is skipped, what waits for what, what runs."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from diel.base.errors import counted, likeness
from diel.base.states import RunState, TaskState
from diel.base.values import bare, format_duration, task_text
from diel.observe.explain import Explanation, again_step, documents, next_step, tail, wait
from diel.observe.explain.attempts import awaited_text, blocks_shown, ended_blocks, place_of, wait_for_block
from diel.observe.explain.cause import because, why_computed
from diel.observe.explain.wait import SHOWN
from diel.observe.results import RunReader
from diel.observe.results.attempts import advise
from diel.observe.status.sections import doubt, unexported
from diel.observe.status.stage import cause_of, joined_lines
from diel.store.journal.records import Failed
from diel.store.journal.stage_history import Attempt, spread

MANY = 1000
"""How many omitted tasks to look at for the reason."""


def explain_run(run: RunReader, stage: str | None = None) -> Explanation:
    """Return what happened in a run, or in one stage of it, and why."""
    history = run.history
    stages = {name: history.stage(name) for name in ([stage] if stage is not None else run.graph.order)}
    counts = {name: {"total": tasks.expected, **tasks.counts()} for name, tasks in stages.items()}
    controller = awaited_text(run)
    axes = [wait.explain_axis(axis) for axis in run.axes] if stage is None else []
    failures = [failure for name in stages for failure in failures_of(run, name)]
    skipped = [skip for name in stages for skip in skips_of(run, name)]
    waiting = [entry for name in stages if (entry := _waiting(run, name)) is not None]
    running = [task for name, tasks in stages.items() for task in _running(run, name, tasks.under_way)]
    lost = [task for name in stages for task in _running(run, name, run.lost(name))]
    computed = [reason for name in stages if (reason := _computed(run, name)) is not None]
    advices = [] if stage is None else advise(run, stage)
    sizes = f"{stage} could ask for (`diel run FILE --sized-by {run.paths.run_id}` does)"
    joins = {name: tasks.joined.items() for name, tasks in stages.items() if tasks.joined}
    trouble = "; ".join(history.refusals.values())
    if run.state is not RunState.SUCCEEDED:
        trouble = history.trouble or trouble or unexported(history.exports) or doubt(history)
    document = {
        "run": run.paths.run_id,
        "workflow": run.run_file.workflow,
        "state": str(run.state),
        "controller": controller,
        "stages": counts,
        "axes": documents(axes),
        "failures": documents(failures),
        "skipped": documents(skipped),
        "waiting": documents(waiting),
        "running": documents(running),
        "lost": documents(lost),
        "blocks": blocks_shown(run),
        "trouble": trouble,
        "left_out": {name: {str(i): missing for i, missing in tasks} for name, tasks in joins.items()},
        "computed": documents(computed),
        **({} if stage is None else {"advice": [advice._asdict() for advice in advices]}),
    }
    totals: Counter[str] = Counter()
    for tasks in stages.values():
        totals.update(tasks.counts())
    state = [controller, ", ".join(f"{number:,} {state}" for state, number in totals.items() if number)]
    joined = joined_lines([(name, dict(missing)) for name, missing in joins.items()], SHOWN)
    lines = [
        f"{run.paths.run_id} {run.state}: {'; '.join(filter(None, state)) or 'no tasks yet'}",
        *_together(axes),
        *_apart([*failures, *skipped]),
        *_listed("running", running),
        *_listed("running when the controller went away", lost),
        *ended_blocks(run),
        *(["", f"trouble: {trouble}"] if trouble else []),
        *_apart(waiting),
        *(["", *joined] if joined else []),
        *_together(reason for reason in computed if reason.lines),
        *(["", sizes, *(f"    {advice}" for advice in advices)] if advices else []),
    ]
    return Explanation(document, lines)


def _apart(parts: Iterable[Explanation]) -> Iterator[str]:
    for part in parts:
        yield from ("", *part.lines)


def _together(parts: Iterable[Explanation]) -> list[str]:
    lines = [line for part in parts for line in part.lines]
    return ["", *lines] if lines else []


def failures_of(run: RunReader, stage: str) -> Iterator[Explanation]:
    """Yield the failures of a stage, grouped by kind."""
    history = run.history.stage(stage)
    if not history.states.count(TaskState.FAILED):
        return
    last: dict[int, Failed] = {}
    for record in run.failed(stage):
        for index in spread(record["tasks"]):
            if history.state(index) == TaskState.FAILED:
                last[index] = record
    groups: dict[tuple[str, str, int | None, str], list[int]] = {}
    for index in sorted(last):
        record = last[index]
        message = likeness(f"{record.get('message', '')} {record.get('headline', '')}")
        kind, tolerated = record.get("class", "app"), history.tolerated.get(index, "")
        sort = (kind, message, record.get("exit_code"), tolerated)
        groups.setdefault(sort, []).append(index)
    for (kind, _, _, tolerated), indices in groups.items():
        yield _failure(run, stage, indices, kind, tolerated, last[indices[0]])


def _failure(
    run: RunReader, stage: str, indices: list[int], kind: str, tolerated: str, first: Failed
) -> Explanation:
    tasks = [f"{stage}/{index}" for index in indices[:SHOWN]]
    message, exit_code, cause = first.get("message", ""), first.get("exit_code"), cause_of(first)
    together = run.shared(stage, indices)
    stderr = first.get("stderr_tail", "")
    step = again_step(run, tasks[0]) if tolerated else next_step(run, tasks[0], first)
    document = {
        "stage": stage,
        "class": kind,
        "count": len(indices),
        "first": tasks[0],
        "tasks": tasks,
        "shared": together,
        "message": message,
        "exit_code": exit_code,
        "stderr_tail": stderr,
        "headline": first.get("headline", ""),
        "tolerated": tolerated,
        "next": step,
    }
    how = kind + (f", tolerated by {tolerated}" if tolerated else "")
    more = f" and {len(indices) - SHOWN:,} more" if len(indices) > SHOWN else ""
    more += f"\n    {together}" if together else ""
    text = ": ".join(filter(None, (bare(message), cause)))
    shown = () if bare(stderr).strip() == cause else tail(stderr)
    head = f"{stage}: {counted(len(indices), 'task')} failed ({how}): {text}"
    lines = [head, f"    {', '.join(map(run.named, tasks))}{more}", *shown, f"    next: {step}"]
    return Explanation(document, lines)


def skips_of(run: RunReader, stage: str) -> Iterator[Explanation]:
    """Yield the tasks of a stage that do not run, grouped by the reason."""
    history, void = run.history.stage(stage), run.void.get(stage)
    if void is not None and history.total == 0:
        facts = {"count": 0, "reason": "void", "cause": void, "first": None, "roots": []}
        yield Explanation({"stage": stage, **facts}, [f"{stage}: never began: {void}"])
    if not history.states.count(TaskState.SKIPPED):
        return
    groups: dict[tuple[str, str], list[int]] = {}
    for record in run.skipped(stage):
        for index in spread(record["tasks"]):
            if history.state(index) == TaskState.SKIPPED:
                groups.setdefault((record.get("reason", ""), record.get("cause", "")), []).append(index)
    for (reason, cause), indices in groups.items():
        yield _skip(run, stage, reason, cause, sorted(set(indices)))


def _skip(run: RunReader, stage: str, reason: str, cause: str, indices: list[int]) -> Explanation:
    begins = wait.roots(run, stage, indices[0]) if reason == "upstream" else []
    why = wait.points_never_came(run, stage, indices[:MANY]) if reason == "axis" else []
    match reason:
        case "axis":
            text = f"left out: {'; '.join(why)}"
        case "service":
            text = "left out: no task needed the service"
        case "when":
            text = (
                f"left out: '{cause}' was left out by its `when`"
                if cause
                else "left out: `when` does not hold"
            )
        case "hold" | "max_failures" | "fail_fast" | "imports" | "changed":
            text = f"not tried: {wait.stopped_by(run.history, stage, reason)}"
        case _:
            reads = any(edge.upstream == cause and edge.output for edge in run.graph.into(stage))
            text = (
                f"skipped: '{cause}', {'which they read' if reads else 'after which they run'}, has no result"
            )
            if lacking := run.recipe(stage).meeting.lacking(indices[0]):
                text = f"skipped: joined, {lacking.text}"
            text += f" (it began with {', '.join(map(run.named, begins))})" if begins else ""
    document = {
        "stage": stage,
        "count": len(indices),
        "reason": reason,
        "cause": cause,
        "first": f"{stage}/{indices[0]}",
        "roots": begins,
        **({"why": why} if reason == "axis" else {}),
    }
    return Explanation(document, [f"{stage}: {counted(len(indices), 'task')} {text}"])


def _waiting(run: RunReader, stage: str) -> Explanation | None:
    counts = run.history.stage(stage).counts()
    has_domain = run.stages[stage].known
    block = wait_for_block(run, stage)
    waiting = counts["waiting"] + counts["ready"] + (counts["queued"] if block is not None else 0)
    over = run.state in (RunState.SUCCEEDED, RunState.CANCELLED)
    if (has_domain and not waiting) or stage in run.void or over:
        return None
    waits, axes = wait.waits_of_stage(run, stage), run.unknown_axes(stage)
    if axes:
        text = "; ".join(f"axis '{axis}' is known when '{maker}' is done" for axis, maker in axes)
    elif waits:
        text = "; ".join(map("waits for {}".format, waits))
    elif run.history.stage(stage).held:
        text = f"it is held: {wait.stopped_by(run.history, stage, 'hold')}"
    elif points := _points_awaited(run, stage) if has_domain else []:
        text = "; ".join(points)
    elif run.state == RunState.PENDING and (coming := awaited_text(run)):
        text = f"the run {coming}"
    elif run.state == RunState.INTERRUPTED:
        text = f"it is ready, but its controller is gone: `diel resume {run.paths.run_id}`"
    elif run.state == RunState.FAILED:
        text = "was not tried before the run ended"
        text += ", or ran, and what says so is damaged in the journal" if run.flaws else ""
    else:
        text = block.text if block is not None else wait.room_awaited(run, stage)
    step = "" if axes or waits or block is None else block.next
    document = {
        "stage": stage,
        "count": waiting if has_domain else None,
        "axes": [{"axis": axis, "stage": maker} for axis, maker in axes],
        "for": list(map(asdict, waits)),
        "text": text,
        "next": step,
    }
    line = f"{stage}: {counted(waiting, 'task') if has_domain else 'its tasks'} waiting: {text}"
    return Explanation(document, [line, f"    next: {step}"] if step else [line])


def _points_awaited(run: RunReader, stage: str) -> list[str]:
    """Return why the first waiting task of a stage cannot begin: its trial, round or gang is missing."""
    history = run.history.stage(stage)
    first = next((i for i in range(history.total) if history.state(i) == TaskState.WAITING), None)
    if first is None:
        return []
    return wait.points_awaited(run, stage, first) or wait.partners_awaited(run, stage, first)


def _running(run: RunReader, stage: str, under_way: Mapping[int, Attempt]) -> list[Explanation]:
    running = [(index, begun) for index, begun in under_way.items() if begun.state == TaskState.RUNNING]
    running.sort(key=lambda item: item[1].time)
    return [_attempt(run, f"{stage}/{index}", attempt) for index, attempt in running]


def _attempt(run: RunReader, task: str, attempt: Attempt) -> Explanation:
    worker, seconds = attempt.worker.removesuffix(".jsonl"), max(0.0, time.time() - attempt.time)
    place = place_of(run, worker)
    stage, _, index = task.partition("/")
    point = run.point(stage, int(index))
    facts = {"task": task, "point": point, "attempt": attempt.number, "since": attempt.time}
    again = f", attempt {attempt.number}" if attempt.number > 1 else ""
    line = f"    {task_text(task, point)} for {format_duration(seconds)}{again} ({str(place) or worker})"
    return Explanation({**facts, "seconds": seconds, "worker": worker, **place._asdict()}, [line])


def _listed(title: str, running: list[Explanation]) -> Iterator[str]:
    if running:
        yield from ("", f"{title}: {counted(len(running), 'task')}")
        yield from (line for task in running[: 2 * SHOWN] for line in task.lines)
    if len(running) > 2 * SHOWN:
        yield f"    … {len(running) - 2 * SHOWN:,} more"


def _computed(run: RunReader, stage: str) -> Explanation | None:
    """Return why the first and the last computed task of a stage were not cached; no lines in a first run."""
    states = run.history.stage(stage).states
    count = states.count(TaskState.DONE)
    if not count:
        return None
    first, last = states.index(TaskState.DONE), states.rindex(TaskState.DONE)
    causes = why_computed(run, stage, first)
    why = causes.sentences()
    if last != first:
        more = [text for text in why_computed(run, stage, last).sentences() if text not in why]
        why += [f"{run.named(f'{stage}/{last}')}: {text}" for text in more]
    document = {
        "stage": stage,
        "count": count,
        "first": f"{stage}/{first}",
        "earlier": causes.earlier,
        "again": causes.again,
        "why": why,
        "changes": [asdict(change) for change in causes.changes],
    }
    if not causes.earlier and not causes.again:
        return Explanation(document)
    lines = [f"{stage}: {counted(count, 'task')} computed: {why[0]}", *map("    and {}".format, why[1:])]
    return Explanation(document, [*lines, *because(causes.changes)])
