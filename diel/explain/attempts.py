"""The attempts of a task, or in a block: where each ran, with what, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from diel.errors import UsageError, counted
from diel.explain.block import Location, ended_block, job_text, never_step, place_of, says
from diel.explain.demand import asked_by, with_asked, words
from diel.explain.text import Explanation, section, tail
from diel.journal.segment import read_segment
from diel.results import Recorded
from diel.states import FailureClass, RunState, TaskState
from diel.status import blocks_of
from diel.status.blocks import is_hopeless
from diel.status.columns import printable
from diel.status.usage import used_text
from diel.values import bare, clock, format_duration, format_size

if TYPE_CHECKING:
    from diel.journal.records import BlockFacts, BlockNow, OfTask, StagingRecord

LOST = (FailureClass.NODE, FailureClass.PREEMPTED, FailureClass.WALLTIME, FailureClass.OOM)
"""Failures of tasks that the end of a block can explain."""
SHOWN = 20
"""The most attempts of a block to list; all are counted."""
ENDS = {
    "completed": "its nodes had nothing more to do, and left",
    "failed": "its job failed",
    "cancelled": "it was cancelled from outside diel: by scancel or qdel, or by an administrator",
    "oom": "its job needed more memory than it had",
    "node_failed": "the scheduler lost one of its nodes",
    "preempted": "the scheduler took its nodes away for other jobs",
    "gone": "the scheduler no longer knows it, and nothing says how it ended",
}
NEXT = {
    "timeout": "give tasks a `resources.walltime`: none is then begun in a block that cannot finish it",
    "oom": "give tasks that need much memory a `resources.memory`: fewer then share a node",
    **dict.fromkeys(("node_failed", "preempted", "cancelled"), "nothing: what ran in it runs again"),
}


@dataclass
class Tried:
    """One attempt, as its worker wrote it down."""

    stage: str
    index: int
    attempt: int
    worker: str
    dir: str
    state: Literal["lost", "running", "done", "failed", "interrupted"] = "lost"
    began: float | None = None
    ended: float | None = None
    seconds: float | None = None
    failure: str | None = None
    """Its class."""
    exit_code: int | None = None
    message: str = ""
    stderr_tail: str = ""
    memory: int | None = None
    walltime: float | None = None
    cores: int = 1
    nodes: int = 1
    usage: dict[str, Any] = field(default_factory=dict)
    """What it used, as far as it was measured."""
    asked: dict[str, Any] = field(default_factory=dict)
    """What expressions gave for it."""
    place: Location = field(default_factory=Location)
    block_end: BlockFacts | None = None
    """Its block, if the block's end may be to blame."""
    staging: list[StagingRecord] = field(default_factory=list)

    def take(self, record: OfTask, worker: str) -> None:
        """Adds what a record says."""
        match record["event"]:
            case "start":
                self.began, self.worker = record["time"], worker
            case "done":
                self.state, self.ended, self.seconds = "done", record["time"], record.get("seconds")
                self.usage = {**record.get("usage", {})}
            case "staging":
                self.staging.append(record)
            case "fail":
                self.state = "interrupted" if record["class"] == FailureClass.INTERRUPTED else "failed"
                self.ended, self.seconds = record["time"], record.get("seconds")
                self.usage = {**record.get("usage", {})}
                self.failure, self.message = record["class"], record.get("message", "")
                self.exit_code, self.stderr_tail = record.get("exit_code"), record.get("stderr_tail", "")

    def document(self) -> dict[str, Any]:
        own = ("attempt", "state", "began", "ended", "seconds", "worker", "dir")
        end = ("state", "reason", "stderr_tail", "ended")
        staging = ("node", "copied", "bytes", "found", "seconds", "warning")
        return {
            **{name: getattr(self, name) for name in own},
            "class": self.failure,
            "exit_code": self.exit_code,
            "message": self.message,
            "stderr_tail": self.stderr_tail,
            "staging": [_some(record, staging) for record in self.staging],
            **asdict(self.place),
            "resources": {"memory": self.memory, "walltime": self.walltime},
            "asked": self.asked,
            "usage": self.usage,
            "block_end": None if self.block_end is None else _some(self.block_end, end),
        }

    def brief(self) -> dict[str, str | int | None]:
        """What is said of it among others of its block."""
        known = {"attempt": self.attempt, "node": self.place.node, "state": self.state}
        return {"task": f"{self.stage}/{self.index}", **known, "class": self.failure}

    def line(self) -> str:
        """The same in words."""
        how = self.state + (f" ({self.failure})" if self.failure not in (None, self.state) else "")
        return f"    {self.stage}/{self.index} attempt {self.attempt} {how} on {self.place.node}"

    def lines(self) -> Iterator[str]:
        """The first line says how it went, the others where, with what, and why it was lost."""
        took = f" after {format_duration(self.seconds)}" if self.seconds is not None else ""
        message = bare(self.message.partition("\n")[0])  # the story of the task has all of it
        reason = f" ({self.failure}): {message}" if self.state == "failed" else ""
        if self.state == "interrupted":
            reason = f": {message}"
        began = f", {clock(self.began)}" if self.began else ""
        yield f"    attempt {self.attempt}: {self.state}{took}{reason}{began}, {self.worker}"
        memory = "" if self.memory is None else format_size(self.memory)
        walltime = "" if self.walltime is None else f"{format_duration(self.walltime)} of walltime"
        if where := ", ".join(filter(None, (str(self.place), memory, walltime))):
            yield f"        {where}"
        if used := used_text(self.usage, self.seconds, self.cores, self.memory and self.memory * self.nodes):
            yield f"        used {used}"
        if self.asked:
            yield f"        asked for {words(self.asked)}"
        yield f"        {self.dir}"
        yield from (f"        {printable(_staged(record))}" for record in self.staging)
        if self.block_end is not None:
            yield f"        its block ended: {self.block_end['state']}{says(self.block_end)}"
            yield from (f"    {line}" for line in tail(self.block_end["stderr_tail"]))


def _some(facts: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {name: facts[name] for name in names}


def _staged(record: StagingRecord) -> str:
    """What an attempt copied to its node's disk, or why it did not."""
    if record["warning"]:
        return f"used the shared file system: {record['warning']}"
    copied = counted(record["copied"], "artifact")
    found = f"; found {record['found']:,} there" if record["found"] else ""
    size, took = format_size(record["bytes"]), format_duration(record["seconds"])
    return f"brought {copied} ({size}) to the disk of {record['node']} in {took}{found}"


def attempts_of(run: Recorded, stage: str, index: int) -> list[Tried]:
    """The attempts of a task, in order."""
    found: dict[int, Tried] = {}
    for segment, record in run.attempts(stage, index):
        if record["event"] == "cached" or record["event"] == "pruned":
            continue
        number, worker = record["attempt"], segment.removesuffix(".jsonl")
        if record["event"] == "done" and run.history.stage(stage).is_fenced(index, number):
            continue  # it came after its attempt was given up
        folder = run.paths.task_dir(stage, index, number)
        found.setdefault(number, Tried(stage, index, number, worker, str(folder))).take(record, worker)
    attempts = [found[number] for number in sorted(found)]
    changed = _changed_resources(run, stage, index) if len(attempts) > 1 else {}
    own = asked_by(run, stage, index)
    for tried in attempts:
        resources = run.workflow.stages[stage].bare.resources
        tried.asked = own.get(tried.attempt, {})
        granted = with_asked(resources, tried.asked).changed(changed.get(tried.attempt, {}))
        tried.memory, tried.walltime = granted.memory, granted.walltime
        tried.cores, tried.nodes = granted.cores, granted.nodes or 1
        tried.place = place_of(run, tried.worker)
        if tried.state == "lost" or tried.failure in LOST:
            tried.block_end = ended_block(run, tried.place.block)
    last = attempts[-1] if attempts else None
    if last and last.state == "lost" and last.block_end is None and run.state == RunState.RUNNING:
        last.state = "running"
    return attempts


def _changed_resources(run: Recorded, stage: str, index: int) -> dict[int, dict[str, Any]]:
    """What later attempts asked for instead of what the stage says, by attempt."""
    found: dict[int, dict[str, Any]] = {}
    needles = (b'"event":"queued"', b'"resources":')
    for _, record in run.events(*needles, stage=stage):
        if record["event"] == "queued" and record["stage"] == stage and index in record["tasks"]:
            numbers = record.get("attempts") or [1] * len(record["tasks"])
            found[numbers[record["tasks"].index(index)]] = record["resources"]
    return found


# --- a block --------------------------------------------------------------------------------------


def explain_block(run: Recorded, word: str) -> Explanation:
    """Everything about one block, by its name or its job's id. Raises UsageError if there is none."""
    block = _find(run, word)
    attempts = _attempts(run, block["block"])
    counts = Counter(attempt.state for attempt in attempts)
    shown = [attempt for attempt in attempts if attempt.state != "done"][:SHOWN]
    files = [str(path) for path in sorted(run.paths.blocks.glob(f"{block['block']}.*"))]
    why, following = _why(block), _next(run, block)
    document = {
        "run": run.paths.run_id,
        **block,
        "why": why,
        "next": following,
        "attempts": counts,
        "tasks": [attempt.brief() for attempt in shown],
        "files": files,
    }
    lines = [f"{run.paths.run_id} block {block['block']} {block['state']}", f"    why: {why}"]
    lines += [f"    next: {following}"] if following else []
    lines += section("block", {name: text for name, text in _facts(block).items() if text})
    if counts:
        lines += ["", f"attempts: {', '.join(f'{number:,} {state}' for state, number in counts.items())}"]
    lines += (attempt.line() for attempt in shown)
    if block["stderr_tail"]:
        lines += ["", "what its job said last", *tail(block["stderr_tail"])]
    if files:
        lines += ["", "files", *(f"    {file}" for file in files)]
    return Explanation(document, lines)


def _facts(block: BlockNow) -> dict[str, str]:
    asked, began, ended = block["asked"], block["began"], block["ended"]
    return {
        "job": block["job"] or "not known",
        "shape": f"{block['shape']} (pool {block['pool']})",
        "nodes": block["nodes"],
        "walltime": format_duration(block["walltime"]),
        "asked for": clock(asked),
        "began": "" if began is None else f"{clock(began)}, after {format_duration(began - asked)}",
        "ended": "" if ended is None else clock(ended),
    }


def _find(run: Recorded, word: str) -> BlockNow:
    blocks = blocks_of(run.history)
    for block in blocks:
        if word in (block["block"], block["job"]) or (word and word == block["job"].partition(".")[0]):
            return block
    if not blocks:
        raise UsageError(f"{run.paths.run_id} has no blocks: it asked no scheduler for any")
    named = ", ".join(f"{block['block']} ({job_text(block)})" for block in blocks[-5:])
    some = "blocks" if len(blocks) <= 5 else "the last blocks"
    raise UsageError(f"{run.paths.run_id} has no block '{word}'; {some}: {named}")


def _attempts(run: Recorded, block: str) -> list[Tried]:
    """The attempts that began in a block."""
    found: dict[tuple[str, int, int], Tried] = {}
    for segment, known in sorted(run.history.workers.items()):
        if known["block"] != block:
            continue
        worker = segment.removesuffix(".jsonl")
        for _, _, record in read_segment(run.paths.journal / segment):
            if record is not None and record["event"] in ("start", "done", "fail"):
                key = (record["stage"], record["index"], record["attempt"])
                folder = str(run.paths.task_dir(*key))
                tried = Tried(*key, worker, folder, _unended(run, *key), place=place_of(run, worker))
                found.setdefault(key, tried).take(record, worker)
    return list(found.values())


def _unended(run: Recorded, stage: str, index: int, number: int) -> Literal["running", "lost"]:
    """The state of an attempt whose end its worker did not record."""
    under_way = run.history.stage(stage).under_way.get(index) or run.history.left.get((stage, index))
    runs = under_way is not None and under_way.number == number and under_way.state == TaskState.RUNNING
    return "running" if runs else "lost"


def _why(block: BlockNow) -> str:
    reason, state = says(block), block["state"]
    if block["ended"] is None:
        if block["ending"]:
            return "diel has given it back, and the scheduler is about to end it"
        if state == "pending":
            return f"{'it can never run' if is_hopeless(block) else 'it waits in the queue'}{reason}"
        return f"it runs{reason}"
    if block["ending"]:
        return "diel gave it back: there was nothing more to do in it, or the run ended"
    if state == "timeout":
        return f"its walltime of {format_duration(block['walltime'])} was over{reason}"
    return f"{ENDS.get(state, f'it ended: {state}')}{reason}"


def _next(run: Recorded, block: BlockNow) -> str:
    if is_hopeless(block):
        return never_step(run, block).partition("; ")[0]
    if block["ended"] is None or block["ending"]:
        return ""
    if block["state"] in ("failed", "gone"):
        log = run.paths.blocks / f"{block['block']}.err"
        return f"see {log}, and `diel doctor --site {run.run_file.site} --job`"
    return NEXT.get(block["state"], "")
