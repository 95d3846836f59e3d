"""What waits for what: the upstream stages and tasks that are not done, or never will be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from diel.axes.domain import Group
from diel.drawing import picked_points
from diel.errors import counted
from diel.explain.axis import choice_awaited
from diel.journal.history import History
from diel.results import RunReader
from diel.states import TaskState
from diel.tasks.choosing import ChoosingLink
from diel.tasks.link import Link, Verdict
from diel.values import task_text

SHOWN = 5
"""The most tasks to name; the rest are counted."""


@dataclass(frozen=True)
class Wait:
    """One stage that is waited for."""

    stage: str
    rule: str
    """How the edge moves data, in words."""
    total: int | None = None
    """How many of its tasks are waited for; None until known."""
    open: int | None = None
    states: dict[str, int] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    """The first of those that have not ended."""
    points: tuple[dict[str, Any], ...] = ()
    text: str = ""

    def __str__(self) -> str:
        if self.text:
            return self.text
        if self.total is None:
            return f"{self.stage}, whose own axes are not known yet"
        if self.total == 1 and self.tasks:
            return f"{task_text(self.tasks[0], self.points[0])}, {', '.join(self.states)}"
        states = ", ".join(f"{number:,} {state}" for state, number in self.states.items())
        tasks = map(task_text, self.tasks, self.points)
        named = f": {', '.join(tasks)}" if self.open == len(self.tasks) else ""
        return f"{self.open:,} of {counted(self.total, 'task')} of {self.stage} ({states}{named})"


def rule_of(link: Link) -> str:
    """The edge rules of a link in words: `matches density, gathers temperature`."""
    edge = link.edge
    words = []
    if edge.axis is not None:
        words.append(f"makes axis {edge.axis}")
    if edge.matched:
        words.append(f"matches {', '.join(edge.matched)}")
    words += [f"picks {text}" for text in picked_points(edge)]
    if edge.gathered:
        words.append(f"gathers {', '.join(edge.gathered)}")
    apart = (*edge.matched, *edge.chosen, edge.axis)
    broadcast = [axis for axis in link.down.spec.over if axis not in apart]
    if broadcast:
        words.append(f"same for every {', '.join(broadcast)}")
    if link.way:
        words.append(link.way)
    elif edge.output is None and edge.hyperparameter is None:
        words.append("order alone")
    return ", ".join(words) or "one result"


def _waited_for(run: RunReader, stage: str) -> Iterator[Link]:
    return (link for link in run.into(stage) if not link.edge.stream)  # which is read as it is made


def waits_of_stage(run: RunReader, stage: str) -> list[Wait]:
    """The stages that a whole stage still waits for."""
    found: dict[str, Wait] = {}
    for link in _waited_for(run, stage):
        up = link.up
        if link.edge.follows:
            continue  # it waits for itself, or for what comes after it
        if not up.known:
            found[up.name] = Wait(up.name, rule_of(link))
            continue
        wait = _wait(link, range(up.size), up.history.expected)
        if wait.open:
            found.setdefault(up.name, wait)
    return list(found.values())


def waits_of_task(run: RunReader, stage: str, index: int) -> list[Wait]:
    """The upstream tasks that one task still waits for."""
    found: dict[tuple[str, str], Wait] = {}
    for link in _waited_for(run, stage):
        if not link.up.known:
            found[(link.up.name, "")] = Wait(link.up.name, rule_of(link))
            continue
        group = link.group_of_downstream(index)
        members = list(link.members(group))
        if isinstance(link, ChoosingLink) and not members and link.verdict(group) is Verdict.WAITING:
            text = choice_awaited(link, index)
            found[(link.up.name, text)] = Wait(link.up.name, rule_of(link), text=text)
            continue
        wait = _wait(link, members, len(members))
        if not wait.open and _is_undecided(link, group):
            labels = ", ".join(axis.label for axis in link.leaves)
            wait = replace(wait, open=1, text=f"the end of {labels}, which may still prune what it gathers")
        if wait.open:
            found.setdefault((link.up.name, wait.rule), wait)
    return list(found.values())


def _is_undecided(link: Link, group: Group) -> bool:
    """Whether a search may still prune or pick. Not `verdict`: for a run nobody counts which tasks ended."""
    if isinstance(link, ChoosingLink):
        return link.verdict(group) is Verdict.WAITING
    return not link.alongside and link.is_undecided(group)


def _wait(link: Link, members: Iterable[int], total: int) -> Wait:
    name, state = link.up.name, link.up.history.state
    undone = [member for member in members if not state(member).ended]
    states = dict(Counter(state(member).label for member in undone))
    tasks = tuple(f"{name}/{member}" for member in undone[:SHOWN])
    points = tuple(map(link.up.point, undone[:SHOWN]))
    return Wait(name, rule_of(link), total, len(undone), states, tasks, points)


def culprits(run: RunReader, stage: str, index: int) -> Iterator[tuple[Link, list[int]]]:
    """The links and upstream tasks that made a task skip: those that ended without a result."""
    for link in run.into(stage):
        if not link.up.known:
            yield link, []
            continue
        state = link.up.history.state
        bad = [
            member
            for member in link.members(link.group_of_downstream(index))
            if state(member).ended and not state(member).good and member not in link.up.omitted
        ]
        if bad:
            yield link, bad


def roots(run: RunReader, stage: str, index: int, depth: int = 0) -> list[str]:
    """The failed or cancelled tasks at which a chain of skipped tasks begins, each once."""
    found: dict[str, None] = {}
    for link, bad in culprits(run, stage, index):
        for member in bad[:SHOWN]:
            state = link.up.history.state(member)
            if state == TaskState.SKIPPED and depth < len(run.stages):
                found.update(dict.fromkeys(roots(run, link.up.name, member, depth + 1)))
            else:
                found[f"{link.up.name}/{member}"] = None
        if len(found) >= SHOWN:
            break
    return list(found)[:SHOWN]


def stopped_by(history: History, stage: str, rule: str) -> str:
    """What stopped a stage by a rule; for two of these the whole run stops because of one stage."""
    held = history.stage(stage).held
    if rule in ("fail_fast", "imports"):
        whole = (one.held[1] for one in history.stages.values() if one.held and one.held[0] == rule)
        return next(whole, "a task failed, and the run was to stop at that")
    return held[1] if held else "more of its tasks failed than were to"
