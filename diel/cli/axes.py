"""Searches and loops as people read them: the best trial, a row a running one, the course of rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diel.cli.columns import columns, paint, printable, shorten
from diel.status import AxisStatus, CourseStatus, Running
from diel.status.words import at_text, hp_text, scores_text, short, standing_text, what_text
from diel.values import format_duration

ROWS = 8
"""Running trials, trials of a front, or courses that are shown of one axis; the rest are counted."""
LAST = 3
"""Rounds whose values are told as numbers."""
SPARK = 24
"""Rounds that a sparkline has."""
_BLOCKS = "▁▂▃▄▅▆▇█"


def axis_lines(axes: Sequence[AxisStatus], width: int, rows: int = ROWS) -> list[str]:
    """The searches and loops of a run, each line at most `width` columns wide, `rows` rows below each."""
    lines: list[str] = []
    for axis in axes:
        head, *rest = _axis(axis, rows)
        label = shorten(axis.label, width)
        head = shorten(printable(f"  {head}"), max(width - len(label), 0))
        lines.append(paint(label, bold=True) + head)
        lines += [shorten(printable(line), width) for line in rest]
    return lines


def _axis(axis: AxisStatus, rows: int) -> Iterator[str]:
    course = axis.single
    facts, what = axis.facts, what_text(axis)
    if course is None:
        yield f"{what}, for each {' × '.join(facts.context)} · {_courses(axis)}"
        yield from _limited(columns([_course_row(one) for one in _latest(axis, rows)]), axis.courses, rows)
        return
    yield f"{what} · {standing_text(course)}"
    if facts.kind == "loop":
        yield from list(_values(course))[:rows]
    else:
        yield from _trials(course, rows)


def _courses(axis: AxisStatus) -> str:
    states = [course.state for course in axis.courses]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    return ", ".join(f"{count:,} {state}" for state, count in counts.items()) or "none has begun"


def _latest(axis: AxisStatus, rows: int) -> list[CourseStatus]:
    """The courses under way first, then those that began last."""
    under_way = [course for course in axis.courses if course.state == "running"][:rows]
    others = [course for course in axis.courses if course.state != "running"]
    shown = under_way + others[len(others) - min(len(others), rows - len(under_way)) :]
    return [course for course in axis.courses if any(course is one for one in shown)]


def _course_row(course: CourseStatus) -> list[str]:
    at = at_text(course)
    if course.facts.kind == "loop":
        return [f"  {at}", standing_text(course), "; ".join(line.strip() for line in _values(course))]
    best = course.best
    if best is None:
        return [f"  {at}", standing_text(course), f"front of {len(course.front)}" if course.front else ""]
    return [f"  {at}", standing_text(course), f"best {best.number}: {scores_text(best)}  {hp_text(best.hp)}"]


def _limited(lines: list[str], whole: Sequence[object], rows: int) -> list[str]:
    return lines if len(whole) <= rows else [*lines, f"  … {len(whole) - len(lines):,} more"]


def _trials(course: CourseStatus, rows: int) -> Iterator[str]:
    best = course.best
    front = course.front if len(course.facts.objectives) > 1 else []
    table = []
    if best is not None:
        table.append(["  best", f"trial {best.number}", scores_text(best), "", hp_text(best.hp)])
    for trial in front[:rows]:
        table.append(["  front", f"trial {trial.number}", scores_text(trial), "", hp_text(trial.hp)])
    running = course.running[:rows]
    if course.state == "running":
        table += [_running_row(one) for one in running]
    if not any(row[3] for row in table):
        table = [[*row[:3], row[4]] for row in table]
    yield from columns(table, right=(2,))
    hidden = len(front) - rows
    if hidden > 0:
        yield f"  … {hidden:,} more of the front"
    if course.state == "running" and len(course.running) > rows:
        yield f"  … {len(course.running) - rows:,} more running"


def _running_row(one: Running) -> list[str]:
    step = "" if one.step is None else f" at {one.step:,}"
    told = "" if one.reported is None else f"{short(one.reported)}{step}"
    whole = one.done + one.running + one.waiting
    tasks = f", {one.done}/{whole} tasks" if whole > 1 else ""
    took = f"{format_duration(one.seconds)}{tasks}"
    return ["  runs", f"trial {one.trial.number}", told, took, hp_text(one.trial.hp)]


def _values(course: CourseStatus) -> Iterator[str]:
    """A line a value that `until` reads: its course over the rounds, and the last numbers."""
    for name in dict.fromkeys(name for one in course.rounds for name in one.values):
        found = [one.values[name] for one in course.rounds if name in one.values]
        last = " → ".join(short(value) for value in found[-LAST:])
        more = "… → " if len(found) > LAST else ""
        drawn = sparkline(found[-SPARK:])
        yield f"  {name}  {drawn + '  ' if drawn else ''}{more}{last}"


def sparkline(values: Sequence[object]) -> str:
    """Numbers as bars of text, from the smallest to the largest; empty where there is nothing to compare."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < 2 or len(numbers) < len(values) or not all(abs(n) < float("inf") for n in numbers):
        return ""
    low, high = min(numbers), max(numbers)
    if low == high:
        return _BLOCKS[0] * len(numbers)
    scale = (len(_BLOCKS) - 1) / (high - low)
    return "".join(_BLOCKS[round((number - low) * scale)] for number in numbers)
