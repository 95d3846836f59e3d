"""One task: where it stands and why, what it gets, how its attempts went, why it ran again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from diel.attempt.bundle import Request
from diel.errors import DielError, UsageError
from diel.explain.advice import again_step, next_step
from diel.explain.attempts import attempts_of
from diel.explain.axis import picks, point_never_came, points_awaited
from diel.explain.computed import why_computed
from diel.explain.gang import partners_awaited, room_awaited
from diel.explain.place import awaited_text, block_end, place_of, place_text, wait_for_block
from diel.explain.surrogate import asked_lines
from diel.explain.view import View
from diel.explain.wait import SHOWN, culprits, roots, rule_of, waits_of_task
from diel.results import DROPPED, Recorded
from diel.states import RunState, TaskState
from diel.tasks.results import output_of, outputs_of

if TYPE_CHECKING:
    from diel.journal.records import Cause, Result, Said


UNCAUSED: Cause = {}
UNTOLD: Said = {"class": "app", "message": ""}
"""What is taken for said of a failure where the journal has no word of it."""


def explain_task(run: Recorded, stage: str, index: int) -> dict[str, Any]:
    """Everything about one task; the document that `--json` prints. Raises UsageError where there is none."""
    view = View(run)
    _check(view, stage, index)
    history = run.history.stage(stage)
    state = history.state(index)
    attempts = attempts_of(run, stage, index)
    record = run.record(stage, index)
    awaited = [] if state.ended else points_awaited(view, stage, index)
    hindered = state == TaskState.SKIPPED or bool(awaited or waits_of_task(view, stage, index))
    resolved = None if hindered else _resolved(view, stage, index)
    document: dict[str, Any] = {
        "run": run.paths.run_id,
        "task": f"{stage}/{index}",
        "stage": stage,
        "index": index,
        "kind": history.kind,
        "state": state.label,
        "why": [],
        "next": "",
        "point": run.point(stage, index),
        "hp": run.hyperparameters(stage, index),
        "params": None if resolved is None else resolved.params,
        "command": None if resolved is None or resolved.command is None else list(resolved.command),
        "inputs": _inputs(view, stage, index),
        "attempts": attempts,
        "waits_for": [],
        "outputs": {} if record is None else _outputs(run, record),
        "key": None if record is None else record.get("key"),
        "earlier": "",
        "changes": [],
    }
    document.update(_story(view, stage, index, state, attempts, record))
    return document


def _resolved(view: View, stage: str, index: int) -> Request | None:
    """A task with all its values; None where they cannot be known (yet)."""
    try:
        return view.recipe(stage).resolve(index)
    except (DielError, OSError):
        return None


def _check(view: View, stage: str, index: int) -> None:
    domain = view.stages[stage].domain
    if domain is None:
        why = view.run.void.get(stage) or awaited_text(view.run) or "its axes are not known yet"
        raise UsageError(f"'{stage}' has no tasks: {why}; `diel explain {view.run.paths.run_id} {stage}`")
    if not 0 <= index < domain.size:
        raise UsageError(f"no task {stage}/{index}: '{stage}' has the tasks 0 to {domain.size - 1}")


# --- why it stands there --------------------------------------------------------------------------


def _story(
    view: View,
    stage: str,
    index: int,
    state: TaskState,
    attempts: list[dict[str, Any]],
    record: Result | None,
) -> dict[str, Any]:
    match state:
        case TaskState.CACHED if record is not None:
            earlier = f"{record['run']}"
            why = f"taken from {earlier}: nothing that its result depends on is another than there"
            return {"why": [why], "earlier": earlier}
        case TaskState.DONE:
            found = why_computed(view, stage, index)
            return {
                "why": [*asked_lines(view.run, stage, record), *found.sentences()],
                "earlier": found.earlier,
                "changes": [asdict(change) for change in found.changes],
            }
        case TaskState.FAILED:
            return _failed(view.run, stage, index, attempts)
        case TaskState.SKIPPED:
            return {"why": _skipped(view, stage, index)}
        case TaskState.CANCELLED:
            return {"why": ["it was cancelled"], "next": f"`diel resume {view.run.paths.run_id}` goes on"}
        case TaskState.RUNNING:
            return {"why": [_since(view.run, stage, index)]}
        case TaskState.QUEUED:
            wait = wait_for_block(view.run, stage, index)
            if wait is None:
                return {"why": ["it was handed out, and waits for a worker"]}
            return {"why": [f"it was handed out, and {wait['text']}"], "next": wait["next"]}
        case _:
            return _waiting(view, stage, index, attempts)


def _failed(run: Recorded, stage: str, index: int, attempts: list[dict[str, Any]]) -> dict[str, Any]:
    verdict: Said = next(reversed([*run.failed(stage, index)]), UNTOLD)
    kind, message = verdict.get("class", "app"), verdict.get("message", "")
    tries = f" at attempt {attempts[-1]['attempt']}" if len(attempts) > 1 else ""
    task, tolerated = f"{stage}/{index}", run.history.stage(stage).tolerated.get(index, "")
    without = [f"others went on without it, as {tolerated} says that they may"] if tolerated else []
    return {
        "why": [f"failed{tries} ({kind}): {message}", *without],
        "next": again_step(run, task) if tolerated else next_step(run, task, kind, verdict.get("exit_code")),
        "class": kind,
        "message": message,
        "exit_code": verdict.get("exit_code"),
        "stderr_tail": verdict.get("stderr_tail", ""),
    }


def _skipped(view: View, stage: str, index: int) -> list[str]:
    verdict: Cause = next(reversed([*view.run.skipped(stage, index)]), UNCAUSED)
    cause = verdict.get("cause", "")
    if verdict.get("reason") == "axis":
        return point_never_came(view, stage, index) or ["its point never came"]
    if verdict.get("reason") == "service":
        return ["none of the tasks that ask the service came to need it"]
    if verdict.get("reason") == "when":
        if not cause:
            return [f"its `when` does not hold: {view.run.workflow.stages[stage].when}"]
        return [f"'{cause}', which it reads, was left out by its `when`"]
    told = []
    direct: set[str] = set()
    for link, bad in culprits(view, stage, index):
        if link.missing:
            told.append(f"`at` picks a point that '{link.up.name}' does not have")
            continue
        if not bad:
            why = view.run.void.get(link.up.name, "its axes are not known")
            told.append(f"'{link.up.name}' was never made: {why}")
            continue
        named = ", ".join(f"{link.up.name}/{i} ({link.up.history.state(i).label})" for i in bad[:SHOWN])
        more = f" and {len(bad) - SHOWN:,} more" if len(bad) > SHOWN else ""
        told.append(f"what it reads has no result: {named}{more}")
        direct |= {f"{link.up.name}/{i}" for i in bad}
    first = [task for task in roots(view, stage, index) if task not in direct]
    begins = (
        f"it began with {', '.join(first)}: `diel explain {view.run.paths.run_id} {first[0]}`"
        if first
        else ""
    )
    return [*(told or [f"'{cause}' has no result for it"]), *([begins] if begins else [])]


def _since(run: Recorded, stage: str, index: int) -> str:
    attempt = run.history.stage(stage).under_way.get(index)
    if attempt is None:
        return "it is running"
    worker = attempt.worker.removesuffix(".jsonl")
    place = place_text(place_of(run, worker))
    where = f" on {place}" if place else f" in {worker}" if worker else ""
    return f"attempt {attempt.number} is running{where}"


def _waiting(view: View, stage: str, index: int, attempts: list[dict[str, Any]]) -> dict[str, Any]:
    if awaited := points_awaited(view, stage, index):
        return {"why": awaited}
    waits = waits_of_task(view, stage, index)
    partners = partners_awaited(view, stage, index)
    if waits or partners:
        why = [*(f"waits for {wait}" for wait in waits), *partners]
        return {"why": why, "waits_for": [asdict(wait) for wait in waits]}
    run = view.run
    if run.state == RunState.PENDING and (coming := awaited_text(run)):
        return {"why": [f"the run {coming}"]}
    if run.state == RunState.INTERRUPTED:
        lost = run.lost(stage).get(index)
        under_way = f"it was {lost.state.label} when the controller went away" if lost is not None else ""
        under_way += _goes_on(run, stage, index) if under_way else ""
        return {
            "why": [under_way or "nothing hinders it, but its controller is gone"],
            "next": f"`diel resume {run.paths.run_id}` goes on",
        }
    free = room_awaited(view, stage) or "waits for a free worker"
    wait = wait_for_block(run, stage, index) or {"text": free, "next": ""}
    if attempts and attempts[-1]["state"] == "failed":
        last = attempts[-1]
        again = f"attempt {last['attempt']} failed ({last['message']}); it will be tried again"
        return {"why": [again, *([f"it {wait['text']}"] if "blocks" in wait else [])], "next": wait["next"]}
    return {"why": [f"all that it reads is there: it {wait['text']}"], "next": wait["next"]}


def _goes_on(run: Recorded, stage: str, index: int) -> str:
    """Whether what ran when its controller went away may go on in its block."""
    left = run.history.left.get((stage, index)) or run.lost(stage).get(index)
    place = place_of(run, "" if left is None else left.worker.removesuffix(".jsonl"))
    if place["block"] is None or block_end(run, place["block"]) is not None:
        return ""
    return f", and may go on there: {place_text(place)}"


# --- what it gets, and how it went ----------------------------------------------------------------


def _inputs(view: View, stage: str, index: int) -> dict[str, dict[str, Any]]:
    """By name: where each input comes from, by which rule, from how many tasks, and its value."""
    found: dict[str, dict[str, Any]] = {}
    for link in view.into(stage):
        edge = link.edge
        if (edge.output is None and edge.hyperparameter is None) or edge.axis is not None:
            continue
        read = (
            f"{edge.upstream}.{edge.output}" if edge.hyperparameter is None else f"hp.{edge.hyperparameter}"
        )
        name = edge.name or read
        told: dict[str, Any] = {"from": read, "rule": rule_of(link)}
        if link.up.domain is not None:
            group = link.group_of_downstream(index)
            members = list(link.members(group))
            good = [member for member in members if link.up.history.state(member).good]
            wanted = [member for member in members if member not in link.up.omitted]
            if members or not edge.chosen:
                told |= {"tasks": len(wanted) + link.lacking(group), "done": len(good)}
            if len(members) == 1:
                told["task"] = f"{edge.upstream}/{members[0]}"
            if picked := picks(link, members):
                told["picks"] = picked
            if good:
                told["value"] = _value(view, link, good)
        found[name] = told
    for name, value in _hyperparameter_inputs(view, stage, index).items():
        found[name] = {"from": view.run.workflow.stages[stage].inputs[name].source, "value": value}
    return found


def _hyperparameter_inputs(view: View, stage: str, index: int) -> dict[str, Any]:
    """The inputs of a task that are hyperparameters; none while they cannot be known."""
    try:
        return view.recipe(stage).scope(index).hyperparameter_inputs()
    except DielError:
        return {}


def _value(view: View, link: Any, good: list[int]) -> Any:
    """The value of an input, or the first ones where many are gathered."""
    sources = view.recipe(link.edge.downstream).sources
    try:
        found = [sources.output(link, member) for member in good[:SHOWN]]
    except (DielError, KeyError):
        return None
    return found if link.edge.gathered else found[0]


def _outputs(run: Recorded, record: Result) -> dict[str, Any]:
    stage, index = record["stage"], record["index"]
    return {
        name: DROPPED if run.is_dropped(stage, name, index) else output_of(record, name, run.paths.root)
        for name in outputs_of(record)
    }
