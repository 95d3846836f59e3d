"""Blocks for people: which ones a run holds, why others wait, and which ended badly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from diel.errors import counted
from diel.states import RunState
from diel.status.blocks import NEVER, ended_badly, is_hopeless, is_live, reason_of
from diel.status.columns import columns, last_line, one_line, paint, printable, shorten, width_of
from diel.status.run import Status
from diel.values import clock, format_duration

if TYPE_CHECKING:
    from diel.journal.records import BlockFacts, BlockNow

SHOWN = 8
"""The most blocks to show one by one; the rest are counted."""
SHOWN_BAD = 3
LEAST = 16
"""Columns that the scheduler's reason gets before other cells make room for it."""
WIDE = 300


def block_lines(
    status: Status, width: int = WIDE, *, brief: bool = False, show_all: bool = False
) -> list[str]:
    """The blocks of a run, what its scheduler says, and what went wrong; a few lines if `brief`."""
    live = [block for block in status.blocks if is_live(block)]
    bad = [block for block in status.blocks if ended_badly(block)]
    if brief:
        lines = [f"blocks: {_counts(live)}"] if live else []
        lines += [paint(f"{len(bad):,} ended badly", fg="red")] if bad else []
    else:
        lines = _live(status, live, width, show_all=show_all)
        lines += _badly_ended(status, bad, width, len(bad) if show_all else SHOWN_BAD)
    return lines + _trouble(status, width)


def _counts(blocks: Sequence[BlockNow]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in Counter(map(_state, blocks)).items())


def _live(status: Status, live: Sequence[BlockNow], width: int, *, show_all: bool) -> list[str]:
    lines = []
    if live:
        shown = live if show_all else sorted(live, key=_rank)[:SHOWN]
        hidden = [block for block in live if block not in shown]
        lines += [] if status.alive else [paint("blocks as their controller last knew them:", dim=True)]
        lines += _table([block for block in live if block in shown], status.now, width)
        lines += [f"… {len(hidden):,} more blocks: {_counts(hidden)}"] if hidden else []
    ended = len(status.blocks) - len(live)
    return lines + ([paint(f"{counted(ended, 'block')} ended", dim=True)] if ended else [])


def _rank(block: BlockFacts) -> int:
    """What a reader wants to see first: what can never run, what runs, what waits."""
    return 0 if is_hopeless(block) else 2 if block["state"] == "pending" else 1


def _table(blocks: Sequence[BlockNow], now: float, width: int) -> list[str]:
    """A row for each block, the scheduler's words last. A narrow terminal gets fewer cells."""
    header = ("block", "job", "shape", "nodes", "time", "tasks")
    rows = [[paint(cell, dim=True) for cell in header]]
    for block in blocks:
        nodes = shorten(printable(block["nodes"]), 24)
        running = f"{block['running']:,}" if block["running"] else ""
        rows.append([block["block"], block["job"] or "…", block["shape"], nodes, _time(block, now), running])
    for drop in ((), ("nodes",), ("nodes", "shape"), ("nodes", "shape", "job", "tasks")):
        kept = [place for place, cell in enumerate(header) if cell not in drop]
        room = width - sum(max(width_of(row[place]) for row in rows) + 2 for place in kept)
        if room >= LEAST:
            break
    words = [paint("state", dim=True), *(_state_words(block, max(room, 1)) for block in blocks)]
    return columns([[*(row[place] for place in kept), word] for row, word in zip(rows, words, strict=True)])


def _time(block: BlockFacts, now: float) -> str:
    began = block["began"]
    if began is None:
        return f"waits {format_duration(max(0.0, now - block['asked']))}"
    left = began + block["walltime"] - now
    age = format_duration(max(0.0, now - began))
    return f"{age}, {format_duration(left)} left" if left > 0 else age


def _state(block: BlockFacts) -> str:
    """The state of a block in a table: a running block that diel gives back is ending."""
    if block["ending"]:
        return "ending"
    return NEVER if is_hopeless(block) else str(block["state"])


def never_lines(status: Status, where: str) -> list[str]:
    """What to do about a block that can never run; nothing if there is none."""
    never = next((block for block in status.blocks if is_live(block) and is_hopeless(block)), None)
    if never is None or status.state is not RunState.RUNNING:
        return []
    site = f" of site '{status.site}'" if status.site else ""
    text = (
        f"next: block {never['block']} can never run: fix pool '{never['pool']}'{site}, or ask for "
        f"less in `resources`, then `diel cancel {status.run}{where}` and run it again"
    )
    return ["", text]


def _state_words(block: BlockFacts, room: int) -> str:
    reason = printable(reason_of(block))
    words = shorten(f"{_state(block)}: {reason}" if reason else _state(block), room)
    if is_hopeless(block):
        return paint(words, fg="red", bold=True)
    return paint(words, fg="blue" if _state(block) == "running" else "yellow")


def _badly_ended(status: Status, bad: Sequence[BlockNow], width: int, most: int) -> list[str]:
    """How the last blocks ended badly, each with the last output of its job."""
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
