"""What a run has besides stages: an entry for each feature, for status, reports and the end of a run."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.base.errors import counted
from diel.base.states import FINAL, RunState, TaskState
from diel.base.values import clock, format_duration, format_size
from diel.observe.status.axis import ROWS, axis_lines
from diel.observe.status.columns import columns, last_line, one_line, paint, printable, shorten, width_of
from diel.observe.status.run import NEVER, ServiceStatus, Status, ended_badly, is_hopeless, is_live, reason_of
from diel.observe.status.stage import joined_lines, shared_lines, task_of
from diel.observe.status.surrogate import surrogate_lines
from diel.store.journal.history import History

_MOST_STREAMS = 10
"""The most channels to show; a run with matched axes can have thousands."""


def notice_lines(notices: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the kinds of notices sent, in one line, and each address that failed with its reason, once."""
    sent = {notice["kind"]: None for notice in notices.values() if notice.get("state") == "sent"}
    lines = [f"told: {', '.join(sent)}"] if sent else []
    reasons: dict[tuple[str, str], list[str]] = {}
    for notice in notices.values():
        if notice.get("state") == "failed":
            reason = str(notice["way"]), str(notice.get("message", ""))
            reasons.setdefault(reason, []).append(str(notice["kind"]))
    for (way, message), kinds in reasons.items():
        lines.append(paint(f"not told by {way} ({', '.join(kinds)}): {printable(message)}", fg="red"))
    return lines


def unexported(exports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return why something was not put in place, and what to do; empty if all was."""
    message = next((export["message"] for export in exports.values() if export["failed"]), "")
    return f"not exported: {message}; `diel resume` tries again" if message else ""


def export_lines(exports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return where the files of each output went; why some did not."""
    lines = []
    for name, export in exports.items():
        if export["files"]:
            folder = os.path.relpath(export["folder"])
            folder = export["folder"] if folder.startswith("../..") else folder
            lines.append(f"exported: {counted(export['files'], 'file')} of {name} to {printable(folder)}")
        if refused := export.get("kept"):
            clash = f"{counted(refused, 'export')} of {name} met another file"
            lines.append(f"{clash}: {printable(export['why'])}")
        if export["failed"]:
            more = f", and {export['failed'] - 1:,} more" if export["failed"] > 1 else ""
            lines.append(paint(f"not exported: {printable(export['message'])}{more}", fg="red"))
    return lines


def stream_lines(streams: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each channel: how many items, whether more can come, how far readers are behind."""
    lines = [_stream_line(name, facts) for name, facts in list(streams.items())[:_MOST_STREAMS]]
    more = len(streams) - _MOST_STREAMS
    return [*lines, *([f"and {more:,} more streams"] if more > 0 else [])]


def _stream_line(name: str, facts: Mapping[str, Any]) -> str:
    behind = [
        group.get("waiting", 0) for group in facts.get("groups", {}).values() if not group.get("settled")
    ]
    line = f"stream {name}: {counted(facts.get('items', 0), 'item')}"
    line += ", complete" if facts.get("closed") else ""
    line += f", broken: {facts['broken']}" if facts.get("broken") else ""
    return line + (f", {max(behind):,} of them unread" if behind and max(behind) else "")


def service_lines(services: Iterable[ServiceStatus]) -> list[str]:
    """Return a line for each service, with its addresses while it is up."""
    lines: list[str] = []
    for service in services:
        urls = [replica.url for replica in service.replicas if replica.url]
        where = f": {', '.join(urls[:3])}{', …' if len(urls) > 3 else ''}" if urls else ""
        lines.append(f"service {service.name}: {_line(service)}{where}")
        lines += [
            f"  {replica.task}: {replica.message}"
            for replica in service.replicas
            if replica.message and replica.state in ("restarting", "failed")
        ][:3]
    return lines


def _line(service: ServiceStatus) -> str:
    """Return `2 of 2 replicas ready, restarted once`."""
    states = Counter(replica.state for replica in service.replicas)
    count = len(service.replicas)
    of = f" of {count}" if len(states) > 1 else ""
    word = "replica" if count == 1 else "replicas"
    parts = [f"{many}{of} {word} {state}" for state, many in states.items()]
    if service.restarts:
        parts.append("restarted once" if service.restarts == 1 else f"restarted {service.restarts} times")
    return ", ".join(parts)


_MOST_NODES = 4
"""Nodes whose warnings are shown, unless all are wanted."""


def _staging_lines(nodes: Mapping[str, Mapping[str, Any]], *, show_all: bool = False) -> list[str]:
    """Return how much was copied to how many nodes, and which nodes could not take it."""
    copied = sum(node["copied"] for node in nodes.values())
    lines = []
    if copied:
        size = format_size(sum(node["bytes"] for node in nodes.values()))
        what = "1 copy" if copied == 1 else f"{copied:,} copies"
        where = counted(sum(bool(node["copied"]) for node in nodes.values()), "node")
        lines.append(f"staging: {what}, {size}, on the disks of {where}")
    bad = [(name, node) for name, node in nodes.items() if node["warnings"]]
    for name, node in bad if show_all else bad[:_MOST_NODES]:
        who = counted(node["warnings"], "task")
        message = f"warning: {name}: {printable(node['warning'])}; {who} used the shared file system"
        lines.append(paint(message, fg="yellow"))
    if not show_all and len(bad) > _MOST_NODES:
        lines.append(f"{counted(len(bad) - _MOST_NODES, 'node')} more with a warning; --all shows them")
    return lines


if TYPE_CHECKING:
    from diel.store.journal.records import BlockFacts, BlockNow

WIDE = 300
"""Columns where there is no terminal."""


class View(NamedTuple):
    """How much of a run to show: columns, few lines (`brief`), or everything."""

    width: int = WIDE
    brief: bool = False
    show_all: bool = False

    @property
    def rows(self) -> int:
        return 1 if self.brief else sys.maxsize if self.show_all else ROWS


class Section(NamedTuple):
    """How a feature is shown. None of it is called for a run that does not use the feature."""

    used: Callable[[Status], object]
    lines: Callable[[Status, View], list[str]]
    """Of `diel status`."""
    summary: Callable[[Status], list[str]] = lambda status: []
    """Of a run's end."""
    noted: bool = False
    """Whether a report has its lines: no panel of the page has."""


def asked_first(status: Status) -> dict[str, Any]:
    """Return what was answered instead of computed, by the stage that asks."""
    return {stage.name: stage.surrogate for stage in status.stages if stage.surrogate is not None}


def doubt(history: History) -> str:
    """Return which results may be wrong, as audits say; empty if none."""
    counts = {name: len(stage.suspect()) for name, stage in history.stages.items()}
    text = ", ".join(f"{counted(number, 'answer')} of {name}" for name, number in counts.items() if number)
    return f"audits speak against {text}; `diel resume --recompute suspect` simulates them" if text else ""


def _asked_lines(status: Status) -> list[str]:
    return surrogate_lines(asked_first(status), {stage.name: stage.stays for stage in status.stages})


def is_doubted(status: Status) -> bool:
    """Return whether results are answers that audits speak against."""
    return any(surrogate.audit and surrogate.audit.suspect for surrogate in asked_first(status).values())


SECTIONS = (
    Section(lambda status: status.axes, lambda status, view: axis_lines(status.axes, view.width, view.rows)),
    Section(
        lambda status: any(stage.shared or stage.remark for stage in status.stages),
        lambda status, view: shared_lines(status.stages),
        lambda status: [stage.remark for stage in status.stages if stage.remark],
        noted=True,
    ),
    Section(
        lambda status: status.blocks or status.silent or status.trouble,
        lambda status, view: block_lines(status, view.width, brief=view.brief, show_all=view.show_all),
    ),
    Section(
        lambda status: status.refusals, lambda status, view: list(status.refusals[: view.rows]), noted=True
    ),
    Section(lambda status: status.damaged, lambda status, view: list(status.damaged[: view.rows])),
    Section(
        lambda status: status.environments,
        lambda status, view: [
            f"environment {name}: {printable(text)}"
            for name, text in status.environments.items()
            if not view.brief
        ],
    ),
    Section(
        lambda status: any(stage.held for stage in status.stages),
        lambda status, view: [*stopped_lines(status), *answers(status)],
        lambda status: stopped_lines(status),
    ),
    Section(lambda status: status.services, lambda status, view: service_lines(status.services)),
    Section(lambda status: status.streams, lambda status, view: stream_lines(status.streams)),
    Section(asked_first, lambda status, view: _asked_lines(status), _asked_lines),
    Section(
        lambda status: status.joined,
        lambda status, view: joined_lines(status.joined, view.rows),
        lambda status: joined_lines(status.joined),
    ),
    Section(
        lambda status: status.staging,
        lambda status, view: _staging_lines(status.staging, show_all=view.show_all),
    ),
    Section(
        lambda status: status.exports,
        lambda status, view: export_lines(status.exports),
        lambda status: export_lines(status.exports),
        noted=True,
    ),
    Section(
        lambda status: True,
        lambda status, view: [f"energy: {status.energy_text}"] if status.energy or view.show_all else [],
    ),
    Section(lambda status: status.notices, lambda status, view: notice_lines(status.notices), noted=True),
)

SHOWN = 8
"""The most blocks to show one by one; the rest are counted."""
SHOWN_BAD = 3
LEAST = 16
"""Columns that the scheduler's reason gets before other cells make room for it."""


def block_lines(
    status: Status, width: int = WIDE, *, brief: bool = False, show_all: bool = False
) -> list[str]:
    """Return the blocks of a run, what its scheduler says, and what went wrong; a few lines if `brief`."""
    live = [block for block in status.blocks if is_live(block)]
    bad = [block for block in status.blocks if ended_badly(block)]
    if brief:
        lines = [f"blocks: {_counts(live)}"] if live else []
        lines += [paint(f"{len(bad):,} ended badly", fg="red")] if bad else []
    else:
        lines = _live(status, live, width, show_all=show_all)
        lines += _badly_ended(status, bad, width, len(bad) if show_all else SHOWN_BAD)
    return lines + _trouble(status, width)


def _counts(blocks: "Sequence[BlockNow]") -> str:
    return ", ".join(f"{number:,} {state}" for state, number in Counter(map(_state, blocks)).items())


def _live(status: Status, live: "Sequence[BlockNow]", width: int, *, show_all: bool) -> list[str]:
    lines = []
    if live:
        # What can never run first, then what runs, then what waits.
        first = sorted(live, key=lambda facts: (not is_hopeless(facts), facts["state"] == "pending"))
        shown = live if show_all else first[:SHOWN]
        hidden = [block for block in live if block not in shown]
        lines += [] if status.alive else [paint("blocks as their controller last knew them:", dim=True)]
        lines += _table([block for block in live if block in shown], status.now, width)
        lines += [f"… {len(hidden):,} more blocks: {_counts(hidden)}"] if hidden else []
    ended = len(status.blocks) - len(live)
    return lines + ([paint(f"{counted(ended, 'block')} ended", dim=True)] if ended else [])


def _table(blocks: "Sequence[BlockNow]", now: float, width: int) -> list[str]:
    """Return a row for each block, the scheduler's words last. A narrow terminal gets fewer cells."""
    header = ("block", "job", "shape", "nodes", "time", "tasks")
    rows = [[paint(cell, dim=True) for cell in header]]
    for block in blocks:
        nodes = shorten(printable(block["nodes"]), 24)
        running = f"{block['running']:,}" if block["running"] else ""
        rows.append([block["block"], block["job"] or "…", block["shape"], nodes, _time(block, now), running])
    for drop in ((), ("nodes",), ("nodes", "shape"), ("nodes", "shape", "job", "tasks")):
        places = [place for place, cell in enumerate(header) if cell not in drop]
        room = width - sum(max(width_of(row[place]) for row in rows) + 2 for place in places)
        if room >= LEAST:
            break
    words = [paint("state", dim=True), *(_state_words(block, max(room, 1)) for block in blocks)]
    return columns([[*(row[place] for place in places), word] for row, word in zip(rows, words, strict=True)])


def _time(block: "BlockFacts", now: float) -> str:
    began = block["began"]
    if began is None:
        return f"waits {format_duration(max(0.0, now - block['asked']))}"
    remaining = began + block["walltime"] - now
    age = format_duration(max(0.0, now - began))
    return f"{age}, {format_duration(remaining)} left" if remaining > 0 else age


def _state(block: "BlockFacts") -> str:
    """Return the state of a block in a table: a running block that diel gives back is ending."""
    if block["ending"]:
        return "ending"
    return NEVER if is_hopeless(block) else str(block["state"])


def never_lines(status: Status, where: str) -> list[str]:
    """Return what to do about a block that can never run; nothing if there is none."""
    never = next((block for block in status.blocks if is_live(block) and is_hopeless(block)), None)
    if never is None or status.state is not RunState.RUNNING:
        return []
    site = f" of site '{status.site}'" if status.site else ""
    text = (
        f"next: block {never['block']} can never run: fix pool '{never['pool']}'{site}, or ask for "
        f"less in `resources`, then `diel cancel {status.run}{where}` and run it again"
    )
    return ["", text]


def _state_words(block: "BlockFacts", room: int) -> str:
    reason = printable(reason_of(block))
    words = shorten(f"{_state(block)}: {reason}" if reason else _state(block), room)
    if is_hopeless(block):
        return paint(words, fg="red", bold=True)
    return paint(words, fg="blue" if _state(block) == "running" else "yellow")


def _badly_ended(status: Status, bad: "Sequence[BlockNow]", width: int, most: int) -> list[str]:
    lines = [paint(f"{len(bad) - most:,} earlier ones ended badly", dim=True)] if len(bad) > most else []
    for block in sorted(bad, key=lambda block: block["ended"] or 0.0)[-most:]:
        ago = format_duration(max(0.0, status.now - (block["ended"] or 0.0)))
        named = f"block {block['block']} (job {block['job'] or 'unknown'})"
        reason = printable(str(block["reason"]).strip())
        how = f" {block['state']} {ago} ago" + (f": {reason}" if reason else "")
        lines.append(paint(named, fg="red") + shorten(how, max(width - len(named), 1)))
        if tail := last_line(block["stderr_tail"]):
            lines.append(paint(shorten(f"    {tail}", width), dim=True))
    return lines


def _trouble(status: Status, width: int) -> list[str]:
    lines = []
    if status.silent and not status.state.ended:
        today = clock(status.now).partition(" ")[0]
        since = status.silent_since and f" since {clock(status.silent_since).removeprefix(f'{today} ')}"
        lines.append(f"the scheduler does not answer{since or ''}: {one_line(status.silent)}")
    if status.trouble and status.state is not RunState.SUCCEEDED:
        lines.append(f"trouble: {one_line(status.trouble)}")
    return [paint(shorten(line, width), fg="yellow") for line in lines]


_UNTRIED = (TaskState.WAITING, TaskState.READY, TaskState.SKIPPED)


def stopped_lines(status: Status) -> list[str]:
    """Return `simulate is held: its first 8 tasks failed alike (app): …; 76 tasks not tried`."""
    lines = []
    for stage in status.stages:
        if not stage.held:
            continue
        rule, why = stage.held
        number = sum(stage[state] for state in _UNTRIED)
        how = "is held" if rule in ("hold", "changed") else "was stopped"
        untried = f"; {counted(number, 'task')} not tried" if number else ""
        lines.append(f"{stage.name} {how}: {' '.join(why.split())}{untried}")
    return lines


def answers(status: Status) -> list[str]:
    """Return the question of a held stage, as commands: while the run goes on, and when it has ended."""
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


def next_steps(status: Status) -> list[tuple[str, str]]:
    """Return what to do next with a run that did not succeed: commands, and what each is for."""
    run = status.run
    if status.state in (RunState.CANCELLED, RunState.INTERRUPTED):
        return [(f"resume {run}", "continues it")]
    if status.state is not RunState.FAILED:
        return []
    rules = {stage.held[0] for stage in status.stages if stage.held}
    steps = []
    if status.failures:
        task = task_of(status.failures[0])
        steps = [
            (f"explain {run} {task}", "says why it failed"),
            (f"logs {run} {task}", "shows what it printed"),
        ]
    if any(FINAL in failure["message"] and not failure.get("tolerated") for failure in status.failures):
        return [*steps, ("run FILE", "begins another run: no resume mends this; what is done is kept")]
    if "changed" in rules:
        steps.append((f"resume {run}", "goes on once the file is what it was"))
        steps.append((f"resume {run} --update", "takes it as it is now, for all that read it"))
    elif rules or status.failures:
        what = "what failed or was not tried" if rules else "what failed"
        steps.append((f"resume {run}", f"tries again {what}; --update once a file is mended"))
    if "hold" in rules:
        steps.append((f"resume {run} --anyway", "tries the rest all the same, whatever fails"))
    if steps:
        return steps
    if any(export["failed"] for export in status.exports.values()):
        return [(f"resume {run}", "tries again what was not exported")]
    if is_doubted(status):
        return [(f"resume {run} --recompute suspect", "simulates what is suspect")]
    # Of a search or loop whose tasks are done.
    return [(f"explain {run}", "says why it failed; fix the workflow and run it again")]
