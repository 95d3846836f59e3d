"""The attempts of a task, or in a block: where each ran, with what, and how it ended."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from diel.base.errors import UsageError, counted
from diel.base.states import FailureClass, RunState, TaskState
from diel.base.values import bare, clock, format_duration, format_size
from diel.observe.explain import Explanation, section, tail
from diel.observe.results import RunReader
from diel.observe.results.attempts import asked_in, with_asked
from diel.observe.status.columns import printable
from diel.observe.status.run import blocks_of, ended_badly, is_hopeless, is_live, reason_of
from diel.observe.status.stage import used_text
from diel.site.find import read_kept_site
from diel.site.shape import Shape, lacks, shape_of
from diel.site.site import Site
from diel.store.journal.records import BlockFacts, BlockNow, OfTask, StagingRecord
from diel.store.journal.segment import read_segment
from diel.store.project.submission import awaited
from diel.workflow.models import Resources

SHOWN_ENDED = 3


def says(block: BlockFacts) -> str:
    """Return the scheduler's own words about a block, after a colon; nothing if they repeat its state."""
    reason = reason_of(block)
    return f": {reason}" if reason and reason.lower() != block["state"] else ""


class Location(NamedTuple):
    """The block, job and node of a worker; None on one machine."""

    block: str | None = None
    job: str | None = None
    node: str | None = None

    def __str__(self) -> str:
        """Return `node n1, block 1-0 (job 123)`; empty on one machine."""
        if self.block is None:
            return ""
        return f"node {self.node}, block {self.block}" + (f" (job {self.job})" if self.job else "")


def place_of(run: RunReader, worker: str) -> Location:
    """Return where a worker is, by its segment's name without the suffix."""
    worker_facts = run.history.workers.get(f"{worker}.jsonl")
    if worker_facts is None:
        return Location()
    block = run.history.blocks.get(worker_facts["block"])
    return Location(worker_facts["block"], None if block is None else block["job"], worker_facts["node"])


def ended_block(run: RunReader, name: str | None) -> BlockFacts | None:
    """Return a block that has ended; None if it has not, or if unknown."""
    block = run.history.blocks.get(name or "")
    return None if block is None or is_live(block) else block


def ended_blocks(run: RunReader) -> Iterator[str]:
    """Yield the last blocks that ended without diel asking for it, and what else went wrong."""
    for block in blocks_shown(run):
        if block["ended"] is not None:
            yield ""
            yield f"block {block['block']} ({job_text(block)}) ended: {block['state']}{says(block)}"
            yield from tail(block["stderr_tail"])
            yield f"    next: `diel explain {run.paths.run_id} --block {block['block']}`"


def blocks_shown(run: RunReader) -> list[BlockNow]:
    """Return the blocks that have not ended, and the last ones that ended without diel asking for it."""
    blocks = blocks_of(run.history)
    bad = [block for block in blocks if ended_badly(block)][-SHOWN_ENDED:]
    return [block for block in blocks if is_live(block) or block in bad]


def awaited_text(run: RunReader) -> str:
    """Return `waits for its controller, job 84`; empty if no controller is still to come."""
    coming = awaited(run.paths, run.history) if run.state is RunState.PENDING else None
    if coming is None:
        return ""
    return f"waits for its controller, {f'job {coming.job}' if coming.job else f'on {coming.host}'}"


class BlockWait(NamedTuple):
    """The block that ready tasks wait for, in words, and what to do if it never comes."""

    text: str
    next: str = ""


def wait_for_block(run: RunReader, stage: str, index: int | None = None) -> BlockWait | None:
    """Return what ready tasks of a stage wait for; None without a scheduler, or a controller of the run."""
    site: Site | None = None
    with suppress(UsageError):  # it cannot be read
        site = read_kept_site(run.paths)  # as it was when the run was made
    shape = None if site is None or not site.scheduled else _shape(run, site, stage, index)
    if site is None or shape is None or run.state is not RunState.RUNNING:
        return None
    history = run.history
    live = [block for block in history.blocks.values() if is_live(block) and not block["ending"]]
    # Blocks of an earlier controller get no more tasks.
    own = [b for b in live if b["shape"] == shape.label and b["epoch"] == history.epoch]
    pending = [block for block in own if block["state"] == "pending"]
    held = [block for block in own if block["state"] != "pending"]
    vain = next((block for block in pending if is_hopeless(block)), None)
    if held:
        nodes = ((block, f", {block['nodes']}" if block["nodes"] else "") for block in held[:3])
        named = ", ".join(f"{block['block']} ({job_text(block)}{where})" for block, where in nodes)
        text = f"waits for a free worker in block {named}{_more(held, ' and', 3)}"
    elif pending:
        block = vain or pending[0]
        state = "can never run" if vain is not None else "is pending"
        text = f"waits for a block: {block['block']} ({job_text(block)}) {state}{says(block)}"
        text += _more(pending, ", and", 1)
    else:
        text = f"waits for a block of shape {shape.label}{_why_none(site, shape, live)}"
        text += f"; trouble: {history.trouble}" if history.trouble else ""
    if history.silent:
        text += f"; the scheduler does not answer: {history.silent}"
    return BlockWait(text, "" if vain is None or held else never_step(run, vain))


def _more(blocks: Sequence[BlockFacts], word: str, shown: int) -> str:
    return f"{word} {len(blocks) - shown:,} more" if len(blocks) > shown else ""


def never_step(run: RunReader, block: BlockFacts) -> str:
    """Return what to do about a block that can never run."""
    name, site = run.paths.run_id, run.run_file.site
    return (
        f"ask for less in `resources`, or fix pool '{block['pool']}' of site '{site}', then "
        f"`diel cancel {name}` and run it again; `diel explain {name} --block {block['block']}` tells more"
    )


def job_text(block: BlockFacts) -> str:
    return f"job {block['job'] or 'unknown'}"


def _why_none(site: Site, shape: Shape, live: Sequence[BlockFacts]) -> str:
    most = site.pools[shape.pool].blocks
    if sum(block["pool"] == shape.pool for block in live) < most:
        return ", which the scheduler has not taken yet"
    return f": pool '{shape.pool}' may have {most} at a time, and all have other shapes"


def _shape(run: RunReader, site: Site, stage: str, index: int | None) -> Shape | None:
    """Return what a task needs: as its stage says, or more where earlier attempts had too little."""
    attempts = {} if index is None else asked_by(run, stage, index)
    last = attempts[max(attempts)] if attempts else {}
    resources = with_asked(run.workflow.stages[stage].bare.resources, last)
    changed = {} if index is None else run.history.stage(stage).resources.get(index, {})
    pools = {name: pool for name, pool in site.pools.items() if resources.pool in (None, name)}
    large = (name for name, pool in pools.items() if not lacks(pool, resources, scheduled=True))
    return next((shape_of(name, resources.changed(changed)) for name in large), None)


_DURATIONS = ("walltime", "timeout", "backoff")
_WORDS = {"limit": "retries"}


def asked_by(run: RunReader, stage: str, index: int) -> dict[int, dict[str, Any]]:
    """Return what each attempt of a task asked for, by its number."""
    return {number: request for task, number, request in asked_in(run, stage) if task == index}


def words(request: Mapping[str, Any]) -> str:
    """Return resources in words: `ranks 4, memory 2.0 GiB, timeout 10m00s`."""
    shown = ((key, value) for key, value in request.items() if value is not None)
    return ", ".join(f"{_WORDS.get(key, key)} {_shown(key, value)}" for key, value in shown)


def _shown(key: str, value: Any) -> str:
    if key == "memory":
        return format_size(value)
    return format_duration(value) if key in _DURATIONS else str(value)


LOST = (FailureClass.NODE, FailureClass.PREEMPTED, FailureClass.WALLTIME, FailureClass.OOM)
"""Failures of tasks that the end of a block can explain."""
SHOWN = 20
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
class Attempt:
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
    exit_code: int | None = None
    message: str = ""
    stderr_tail: str = ""
    granted: Resources = field(default_factory=Resources)
    """What it could use."""
    usage: dict[str, Any] = field(default_factory=dict)
    requested: dict[str, Any] = field(default_factory=dict)
    """What expressions gave for it."""
    place: Location = field(default_factory=Location)
    block_end: BlockFacts | None = None
    """The end of its block, if that may be to blame."""
    staging: list[StagingRecord] = field(default_factory=list)

    def take(self, record: OfTask, worker: str) -> None:
        """Add what a record says."""
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
            "staging": [_subset(record, staging) for record in self.staging],
            **self.place._asdict(),
            "resources": {"memory": self.granted.memory, "walltime": self.granted.walltime},
            "asked": self.requested,
            "usage": self.usage,
            "block_end": None if self.block_end is None else _subset(self.block_end, end),
        }

    def brief(self) -> dict[str, str | int | None]:
        """Return the facts of an attempt for a list of its block."""
        facts = {"attempt": self.attempt, "node": self.place.node, "state": self.state}
        return {"task": f"{self.stage}/{self.index}", **facts, "class": self.failure}

    def line(self) -> str:
        """Return a line on an attempt for a list of its block."""
        how = self.state + (f" ({self.failure})" if self.failure not in (None, self.state) else "")
        return f"    {self.stage}/{self.index} attempt {self.attempt} {how} on {self.place.node}"

    def lines(self) -> Iterator[str]:
        """Yield lines in words: first how it went, then where, with what, and why it was lost."""
        took = f" after {format_duration(self.seconds)}" if self.seconds is not None else ""
        message = bare(self.message.partition("\n")[0])  # the story of the task has all of it
        reason = f" ({self.failure}): {message}" if self.state == "failed" else ""
        if self.state == "interrupted":
            reason = f": {message}"
        began = f", {clock(self.began)}" if self.began else ""
        yield f"    attempt {self.attempt}: {self.state}{took}{reason}{began}, {self.worker}"
        memory, limit, nodes = self.granted.memory, self.granted.walltime, self.granted.nodes or 1
        size = "" if memory is None else format_size(memory)
        walltime = "" if limit is None else f"{format_duration(limit)} of walltime"
        if where := ", ".join(filter(None, (str(self.place), size, walltime))):
            yield f"        {where}"
        if used := used_text(self.usage, self.seconds, self.granted.cores, memory and memory * nodes):
            yield f"        used {used}"
        if self.requested:
            yield f"        asked for {words(self.requested)}"
        yield f"        {self.dir}"
        yield from (f"        {printable(_staged(record))}" for record in self.staging)
        if self.block_end is not None:
            yield f"        its block ended: {self.block_end['state']}{says(self.block_end)}"
            yield from (f"    {line}" for line in tail(self.block_end["stderr_tail"]))


def _subset(facts: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {name: facts[name] for name in names}


def _staged(record: StagingRecord) -> str:
    """Return what an attempt copied to its node's disk, or why it did not."""
    if record["warning"]:
        return f"used the shared file system: {record['warning']}"
    copied = counted(record["copied"], "artifact")
    present = f"; found {record['found']:,} there" if record["found"] else ""
    size, took = format_size(record["bytes"]), format_duration(record["seconds"])
    return f"brought {copied} ({size}) to the disk of {record['node']} in {took}{present}"


def attempts_of(run: RunReader, stage: str, index: int) -> list[Attempt]:
    """Return the attempts of a task, in order."""
    numbered: dict[int, Attempt] = {}
    for segment, record in run.attempts(stage, index):
        if record["event"] == "cached" or record["event"] == "pruned":
            continue
        number, worker = record["attempt"], segment.removesuffix(".jsonl")
        if record["event"] == "done" and run.history.stage(stage).is_fenced(index, number):
            continue  # it came after its attempt was given up
        folder = run.paths.task_dir(stage, index, number)
        numbered.setdefault(number, Attempt(stage, index, number, worker, str(folder))).take(record, worker)
    attempts = [numbered[number] for number in sorted(numbered)]
    changed = _changed_resources(run, stage, index) if len(attempts) > 1 else {}
    own = asked_by(run, stage, index)
    for attempt in attempts:
        resources = run.workflow.stages[stage].bare.resources
        attempt.requested = own.get(attempt.attempt, {})
        own_resources = with_asked(resources, attempt.requested)
        attempt.granted = own_resources.changed(changed.get(attempt.attempt, {}))
        attempt.place = place_of(run, attempt.worker)
        if attempt.state == "lost" or attempt.failure in LOST:
            attempt.block_end = ended_block(run, attempt.place.block)
    last = attempts[-1] if attempts else None
    if last and last.state == "lost" and last.block_end is None and run.state == RunState.RUNNING:
        last.state = "running"
    return attempts


def _changed_resources(run: RunReader, stage: str, index: int) -> dict[int, dict[str, Any]]:
    """Return what later attempts asked for instead of what the stage says, by attempt."""
    resources: dict[int, dict[str, Any]] = {}
    needles = (b'"event":"queued"', b'"resources":')
    for _, record in run.events(*needles, stage=stage):
        if record["event"] == "queued" and record["stage"] == stage and index in record["tasks"]:
            numbers = record.get("attempts") or [1] * len(record["tasks"])
            resources[numbers[record["tasks"].index(index)]] = record["resources"]
    return resources


def explain_block(run: RunReader, word: str) -> Explanation:
    """Return everything about a block, by its name or its job's id. Raise UsageError without one."""
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
    submitted, began, ended = block["asked"], block["began"], block["ended"]
    return {
        "job": block["job"] or "not known",
        "shape": f"{block['shape']} (pool {block['pool']})",
        "nodes": block["nodes"],
        "walltime": format_duration(block["walltime"]),
        "asked for": clock(submitted),
        "began": "" if began is None else f"{clock(began)}, after {format_duration(began - submitted)}",
        "ended": "" if ended is None else clock(ended),
    }


def _find(run: RunReader, word: str) -> BlockNow:
    blocks = blocks_of(run.history)
    for block in blocks:
        if word in (block["block"], block["job"]) or (word and word == block["job"].partition(".")[0]):
            return block
    if not blocks:
        raise UsageError(f"{run.paths.run_id} has no blocks: it asked no scheduler for any")
    named = ", ".join(f"{block['block']} ({job_text(block)})" for block in blocks[-5:])
    which = "blocks" if len(blocks) <= 5 else "the last blocks"
    raise UsageError(f"{run.paths.run_id} has no block '{word}'; {which}: {named}")


def _attempts(run: RunReader, block: str) -> list[Attempt]:
    attempts: dict[tuple[str, int, int], Attempt] = {}
    for segment, facts in sorted(run.history.workers.items()):
        if facts["block"] != block:
            continue
        worker = segment.removesuffix(".jsonl")
        for _, _, record in read_segment(run.paths.journal / segment):
            if record is not None and record["event"] in ("start", "done", "fail"):
                key = (record["stage"], record["index"], record["attempt"])
                folder = str(run.paths.task_dir(*key))
                attempt = Attempt(*key, worker, folder, _unended(run, *key), place=place_of(run, worker))
                attempts.setdefault(key, attempt).take(record, worker)
    return list(attempts.values())


def _unended(run: RunReader, stage: str, index: int, number: int) -> Literal["running", "lost"]:
    """Return the state of an attempt whose end its worker did not record."""
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


def _next(run: RunReader, block: BlockNow) -> str:
    if is_hopeless(block):
        return never_step(run, block).partition("; ")[0]
    if block["ended"] is None or block["ending"]:
        return ""
    if block["state"] in ("failed", "gone"):
        log = run.paths.blocks / f"{block['block']}.err"
        return f"see {log}, and `diel doctor --site {run.run_file.site} --job`"
    return NEXT.get(block["state"], "")
