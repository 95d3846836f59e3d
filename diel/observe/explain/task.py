"""One task: its state and why, its inputs, how its attempts went, why it ran again."""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, assert_never

from diel.base.errors import DielError
from diel.base.states import RunState, TaskState
from diel.base.values import bare, point_text, task_text, texts_apart
from diel.observe.explain import WIDE, Explanation, again_step, next_step, section, tail, wait
from diel.observe.explain.attempts import (
    Attempt,
    BlockWait,
    attempts_of,
    awaited_text,
    ended_block,
    place_of,
    wait_for_block,
)
from diel.observe.explain.cause import Difference, because, why_computed
from diel.observe.explain.wait import SHOWN
from diel.observe.results import DROPPED, RunReader, suspects
from diel.observe.results.rows import suspect_inputs
from diel.observe.status.columns import printable, tasks_text
from diel.observe.status.stage import cause_of, left_text
from diel.store.journal.records import Cause, Result, Said
from diel.store.journal.stage_history import ranges
from diel.store.table import shown
from diel.tasks.link import Link
from diel.tasks.results import output_of, outputs_of
from diel.tasks.texts import Watch
from diel.worker.attempt.bundle import AT_LAUNCHER
from diel.workflow.models.stage import SHELLS
from diel.workflow.modules.sources import newest

UNCAUSED: Cause = {}
NO_FAILURE: Said = {"class": "app", "message": ""}
"""Used if the journal does not say how an attempt ended."""
COMMAND_LINES = 40


@dataclass(frozen=True)
class TaskExplanation:
    """Why a task is in its state."""

    why: Sequence[str]
    next: str = ""
    earlier: str = ""
    """The run or task that it was taken from or compared with."""
    changes: tuple[Difference, ...] = ()
    waits: Sequence[wait.Wait] = ()
    failure: Said | None = None

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "why": self.why,
            "next": self.next,
            "waits_for": list(map(asdict, self.waits)),
            "earlier": self.earlier,
            "changes": [asdict(change) for change in self.changes],
        }
        if (failure := self.failure) is not None:
            document |= {"class": failure["class"], "message": failure["message"]}
            document |= {"exit_code": failure.get("exit_code"), "stderr_tail": failure.get("stderr_tail", "")}
            document |= {"headline": failure.get("headline", "")}
        return document

    def lines(self) -> Iterator[str]:
        against = f" (compared with {self.earlier})" if self.changes else ""
        yield from (f"    why: {reason}{against}" for reason in self.why)
        yield from because(self.changes)
        yield from tail("" if self.failure is None else self.failure.get("stderr_tail", ""))
        if self.next:
            yield f"    next: {self.next}"


def explain_task(run: RunReader, stage: str, index: int) -> Explanation:
    """Return everything about one task, which must exist."""
    history = run.history.stage(stage)
    state = history.state(index)
    attempts = attempts_of(run, stage, index)
    record = run.record(stage, index)
    awaited = [] if state.ended else wait.points_awaited(run, stage, index)
    hindered = state == TaskState.SKIPPED or bool(awaited or wait.waits_of_task(run, stage, index))
    resolved = None
    with suppress(DielError, OSError):  # not all its values are known (yet)
        resolved = None if hindered else run.recipe(stage).resolve(index)
    params, command = (None, None) if resolved is None else (resolved.params, resolved.command)
    point, hp = run.point(stage, index), run.hyperparameters(stage, index)
    outputs = {} if record is None else _outputs(run, record)
    inputs = dict(_inputs(run, stage, index, None if resolved is None else resolved.inputs))
    missing = history.joined.get(index, [])
    version = version_entry(run, stage, index) if state.good else {}
    story = _story(run, stage, index, attempts, record)
    made = run.environment(stage)
    environment = {} if made is None else {made.name: f"{made.text}, digest {made.digest}"}
    document = {
        "run": run.paths.run_id,
        "task": f"{stage}/{index}",
        "stage": stage,
        "index": index,
        "kind": history.kind,
        "state": state.label,
        "point": point,
        "hp": hp,
        "params": params,
        "command": None if command is None else list(command),
        "environment": environment or None,
        "version": version,
        "inputs": {name: source.document() for name, source in inputs.items()},
        "left_out": missing,
        "attempts": [attempt.document() for attempt in attempts],
        "outputs": outputs,
        "key": None if record is None else record.get("key"),
        **story.document(),
    }
    lines = [f"{run.paths.run_id} {task_text(f'{stage}/{index}', point)} {state.label}", *story.lines()]
    values = {"point": point, "hyperparameters of its trial": hp, "params": params or {}}
    for title, entries in values.items():
        lines += section(title, {name: shown(value, WIDE) for name, value in entries.items()})
    lines += _command(command) if command else ()
    lines += section("environment", environment)
    lines += section("version", version)
    lines += section("inputs", {name: str(source) for name, source in inputs.items()})
    lines += [f"    joined without {left_text(missing)}"] if missing else []
    lines += section("outputs", {name: shown(value, WIDE) for name, value in outputs.items()})
    if attempts:
        lines += ["", "attempts", *(line for attempt in attempts for line in attempt.lines())]
    return Explanation(document, lines)


def _command(words: Sequence[str]) -> Iterator[str]:
    """Yield a command as one could type it: the text for a shell, or the words, quoted if needed."""
    yield from ("", "command")
    for token in (shlex.quote(AT_LAUNCHER), AT_LAUNCHER):  # a path that is known only where it runs
        words = [word.replace(token, "${{ launcher }}") for word in words]
    text = words[-1] if tuple(words[:-1]) in SHELLS.values() else shlex.join(words)
    yield from (f"    {printable(line)[:1000]}" for line in text.rstrip().splitlines()[:COMMAND_LINES])


def _story(
    run: RunReader, stage: str, index: int, attempts: list[Attempt], record: Result | None
) -> TaskExplanation:
    match run.history.stage(stage).state(index):
        case TaskState.CACHED:
            earlier = str(record["run"]) if record is not None else "an earlier run"
            if record is not None and "same" in record:
                earlier = f"{stage}/{record['same']}, which is the same work"
            reason = f"taken from {earlier}: nothing that its result depends on has changed"
            doubts, step = doubt_of(run, stage, index)
            return TaskExplanation([reason, *doubts], step, earlier)
        case TaskState.DONE:
            causes = why_computed(run, stage, index)
            doubts, step = doubt_of(run, stage, index)
            reasons = [*asked_lines(run, stage, record), *doubts, *causes.sentences()]
            return TaskExplanation(reasons, step, earlier=causes.earlier, changes=causes.changes)
        case TaskState.FAILED:
            return _failed(run, stage, index, attempts)
        case TaskState.SKIPPED:
            return TaskExplanation(_skipped(run, stage, index))
        case TaskState.CANCELLED:
            return TaskExplanation(["it was cancelled"], f"`diel resume {run.paths.run_id}` goes on")
        case TaskState.RUNNING:
            return TaskExplanation([_since(run, stage, index)])
        case TaskState.QUEUED:
            block = wait_for_block(run, stage, index) or BlockWait("waits for a worker")
            return TaskExplanation([f"it was handed out, and {block.text}"], block.next)
        case TaskState.WAITING | TaskState.READY:
            return _waiting(run, stage, index, attempts)
        case never:
            assert_never(never)


def _failed(run: RunReader, stage: str, index: int, attempts: list[Attempt]) -> TaskExplanation:
    failure: Said = {**NO_FAILURE, **next(reversed([*run.failed(stage, index)]), NO_FAILURE)}
    tries = f" at attempt {attempts[-1].attempt}" if len(attempts) > 1 else ""
    message = ": ".join(filter(None, (bare(failure["message"]), cause_of(failure))))
    why = [f"failed{tries} ({failure['class']}): {message}"]
    task, tolerated = f"{stage}/{index}", run.history.stage(stage).tolerated.get(index, "")
    if tolerated:
        why.append(f"others went on without it, as {tolerated} allows")
        return TaskExplanation(why, again_step(run, task), failure=failure)
    return TaskExplanation(why, next_step(run, task, failure), failure=failure)


def _skipped(run: RunReader, stage: str, index: int) -> list[str]:
    verdict: Cause = next(reversed([*run.skipped(stage, index)]), UNCAUSED)
    cause = verdict.get("cause", "")
    match verdict.get("reason"):
        case "axis":
            return wait.point_never_came(run, stage, index) or ["its point never came"]
        case "service":
            return ["none of the tasks that ask the service needed it"]
        case "hold" | "max_failures" | "fail_fast" | "imports" | "changed" as rule:
            stopped = wait.stopped_by(run.history, stage, rule)
            return [f"it was not tried: {stopped}: `diel resume {run.paths.run_id}`"]
        case "when" if not cause:
            return [f"its `when` does not hold: {run.workflow.stages[stage].when}"]
        case "when":
            return [f"'{cause}', which it reads, was left out by its `when`"]
        case _:
            return _lacks(run, stage, index) or [f"'{cause}' has no result for it"]


def _lacks(run: RunReader, stage: str, index: int) -> list[str]:
    """Return which inputs of a task have no result, and the tasks at which that began."""
    why: list[str] = []
    direct: set[str] = set()
    for link, up, bad in wait.culprits(run, stage, index):
        if link.missing:
            why.append(link.missing)
        elif not bad:
            why.append(f"'{up.name}' was never made: {run.void.get(up.name, 'its axes are not known')}")
        else:
            named = ", ".join(f"{up.task(i)} {up.history.state(i).label}" for i in bad[:SHOWN])
            more = f" and {len(bad) - SHOWN:,} more" if len(bad) > SHOWN else ""
            what = "what it reads" if up is link.up else f"what makes the points of '{link.up.name}'"
            why.append(f"{what} has no result: {named}{more}")
            direct |= {f"{up.name}/{i}" for i in bad}
    if run.stages[stage].known and (lacking := run.recipe(stage).meeting.lacking(index)):
        why.append(f"joined, {lacking.text}")
    first = [task for task in wait.roots(run, stage, index) if task not in direct]
    if first:
        named = ", ".join(map(run.named, first))
        why.append(f"it began with {named}: `diel explain {run.paths.run_id} {first[0]}`")
    return why


def _since(run: RunReader, stage: str, index: int) -> str:
    attempt = run.history.stage(stage).under_way.get(index)
    if attempt is None:
        return "it is running"
    worker = attempt.worker.removesuffix(".jsonl")
    place = str(place_of(run, worker))
    where = f" on {place}" if place else f" in {worker}" if worker else ""
    return f"attempt {attempt.number} is running{where}"


def _waiting(run: RunReader, stage: str, index: int, attempts: list[Attempt]) -> TaskExplanation:
    if awaited := wait.points_awaited(run, stage, index):
        return TaskExplanation(awaited)
    waits = wait.waits_of_task(run, stage, index)
    partners = wait.partners_awaited(run, stage, index)
    if waits or partners:
        return TaskExplanation([*map("waits for {}".format, waits), *partners], waits=waits)
    if run.state == RunState.PENDING and (coming := awaited_text(run)):
        return TaskExplanation([f"the run {coming}"])
    if run.state == RunState.INTERRUPTED:
        lost, why = run.lost(stage).get(index), "it is ready, but its controller is gone"
        if lost is not None:
            why = f"it was {lost.state.label} when the controller went away{_goes_on(run, stage, index)}"
        return TaskExplanation([why], f"`diel resume {run.paths.run_id}` goes on")
    block = wait_for_block(run, stage, index)
    place = block or BlockWait(wait.room_awaited(run, stage))
    if attempts and attempts[-1].state == "failed":
        last = attempts[-1]
        again = f"attempt {last.attempt} failed ({last.message}); it will be tried again"
        return TaskExplanation([again] if block is None else [again, f"it {place.text}"], place.next)
    return TaskExplanation([f"all its inputs are there: it {place.text}"], place.next)


def _goes_on(run: RunReader, stage: str, index: int) -> str:
    """Return whether a task that ran when its controller went away may continue in its block."""
    loss = run.history.left.get((stage, index)) or run.lost(stage).get(index)
    place = place_of(run, "" if loss is None else loss.worker.removesuffix(".jsonl"))
    if place.block is None or ended_block(run, place.block) is not None:
        return ""
    return f", and may continue there: {place}"


@dataclass(frozen=True)
class InputValue:
    """One input of a task: where it comes from, by which rule, from how many tasks, and its value."""

    source: str
    facts: dict[str, Any]
    """What else `--json` has: `rule`, `tasks`, `done`, `task`, `picks`, `value`, if known."""
    text: str
    """The rule in words, and how many tasks have a result."""
    value: Any = None

    def document(self) -> dict[str, Any]:
        return {"from": self.source, **self.facts, **({} if self.value is None else {"value": self.value})}

    def __str__(self) -> str:
        value = "not there yet" if self.value is None else shown(self.value, WIDE)
        return f"{self.source}{self.text}: {value}"


def _inputs(
    run: RunReader, stage: str, index: int, read: Mapping[str, Any] | None
) -> Iterator[tuple[str, InputValue]]:
    """Yield the inputs by name, those from other stages first. `read` has the values that are known."""
    for link in run.into(stage):
        edge = link.edge
        source = (
            f"{edge.upstream}.{edge.output}" if edge.hyperparameter is None else f"hp.{edge.hyperparameter}"
        )
        if (edge.output is not None or edge.hyperparameter is not None) and edge.axis is None:
            entry = _input_value(run, link, index, source)
            if edge.gathered and edge.name and edge.name in (read or ()):
                entry = replace(entry, value=(read or {})[edge.name][:SHOWN])  # as it is joined with others
            yield edge.name or source, entry
    try:
        plain = run.recipe(stage).scope(index).hyperparameter_inputs()
    except DielError:
        return  # they cannot be known yet
    for name, value in plain.items():
        yield name, InputValue(run.workflow.stages[stage].inputs[name].source, {}, "", value)


def _input_value(run: RunReader, link: Link, index: int, read: str) -> InputValue:
    facts: dict[str, Any] = {"rule": wait.rule_of(link)}
    task = point = count = picked = ""
    if not link.up.known:
        return InputValue(read, facts, f" ({facts['rule']})")
    group = link.group_of_downstream(index)
    members = list(link.members(group))
    good = [member for member in members if link.up.history.state(member).good]
    expected = sum(member not in link.up.omitted for member in members) + link.lacking(group)
    if members or not link.edge.chosen:
        facts |= {"tasks": expected, "done": len(good)}
        count = f", {len(good):,} of {expected:,} done" if expected != 1 else ""
    if len(members) == 1:
        facts["task"] = f"{link.edge.upstream}/{members[0]}"
        task, point = f" of {facts['task']}", point_text(link.up.point(members[0]))
    if chosen := wait.picks(link, members):
        facts["picks"] = [asdict(pick) for pick in chosen]
        picked = f": {', '.join(pick.text for pick in chosen)}"
    text = f"{task} ({point}{'; ' if point else ''}{facts['rule']}{count}{picked})"
    return InputValue(read, facts, text, _value(run, link, good) if good else None)


def _value(run: RunReader, link: Link, good: list[int]) -> Any:
    sources = run.recipe(link.edge.downstream).sources
    try:
        values = [sources.output(link, member) for member in good[:SHOWN]]
    except (DielError, KeyError):
        return None
    return values if link.edge.gathered else values[0]


def _outputs(run: RunReader, record: Result) -> dict[str, Any]:
    stage, index = record["stage"], record["index"]
    return {
        name: DROPPED if run.is_dropped(stage, name, index) else output_of(record, name, run.paths.root)
        for name in outputs_of(record)
    }


DIGITS = 12
"""As many of a digest tell versions apart."""


def version_entry(run: RunReader, stage: str, index: int) -> dict[str, str]:
    """Return what a task rests on, with digests, by its name; nothing for a run that keeps no sources."""
    sources = newest(run.paths.sources)
    if sources is None:
        return {}
    entry = {"run": f"version {sources.version}"}
    facts = sources.modules.get(stage)
    if facts is not None:
        more = f" with {len(facts['files']) - 1} more files" if len(facts["files"]) > 1 else ""
        entry["module"] = f"{facts['reference']} {facts['digest'][:DIGITS]}{more}"
    recipe = run.recipe(stage)
    files = Watch(run.paths, records=False).files
    with suppress(DielError, LookupError):  # what its own files are named by is not known yet
        for name, path in {**recipe.sources.files.shared, **recipe.own_files(index)}.items():
            if path.written in files:
                entry[f"files.{name}"] = f"{path} {files[path.written].digest[:DIGITS]}"
    return entry


def asked_lines(run: RunReader, stage: str, record: Result | None) -> list[str]:
    """Return what a task's surrogate answered, if it has one."""
    answer = None if record is None else record.get("surrogate")
    surrogate = run.workflow.stages[stage].surrogate
    if answer is None or surrogate is None:
        return []
    service = surrogate.service
    if unasked := answer.get("unasked"):
        return [f"it was simulated without asking '{service}': {unasked}"]
    if answer.get("message"):
        return [f"it was simulated, because '{service}' gave no answer: {answer['message']}"]
    sizes = [answer["uncertainty"], answer.get("error"), surrogate.tolerance]
    unsure, far, tolerance = texts_apart([math.inf if size is None else size for size in sizes], 3)
    doubt = "" if answer["uncertainty"] is None else f" with an uncertainty of {unsure}"
    did = "answered" if answer["used"] else "was too unsure, so it was simulated: it answered"
    if "error" in answer:
        off = "more than a number can say" if answer["error"] is None else far
        did = f"was audited by this task, and off by {off}: it answered"
    return [f"'{service}' {did}{doubt}; the tolerance is {tolerance}"]


def doubt_of(run: RunReader, stage: str, index: int) -> tuple[list[str], str]:
    """Return why a task's result is suspect, and what to do; nothing where it is not."""
    suspect = suspects(run)
    if index not in suspect.get(stage, ()):
        return [], ""
    history = run.history.stage(stage)
    surrogate = history.surrogate
    if surrogate is not None and index in history.suspect():
        why = f"audits found answers of '{surrogate.service}' further off than the tolerance"
        return [f"its answer is suspect: {why}"], f"{_recompute(run)}, and runs again what read it"
    if index in history.stays():
        why = "it read suspect answers, which were simulated since; it stays, as decisions rest on it"
    else:
        read = suspect_inputs(run, stage, index, suspect).items()
        named = ", ".join(f"{name}/{tasks_text(ranges(tasks))}" for name, tasks in read)
        why = f"it read suspect results: {named}"
    anew = "`diel run` decides anew, and takes the rest from the cache"
    return [why], _recompute(run) if run.history.is_doubted() else anew


def _recompute(run: RunReader) -> str:
    return f"`diel resume {run.paths.run_id} --recompute suspect` simulates what is suspect"
