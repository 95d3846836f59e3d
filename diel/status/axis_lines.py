"""Searches and loops as people read them: in lines for a terminal, in chapters of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diel.errors import counted
from diel.journal.axis_history import Trial
from diel.states import TrialState
from diel.status.axis import AxisStatus, CourseStatus, Running
from diel.status.columns import (
    MAX_ROWS,
    columns,
    markdown_table,
    paint,
    plain,
    printable,
    rest,
    shorten,
)
from diel.values import format_duration

ROWS = 8
"""Running trials, trials of a front, or courses that are shown of one axis; the rest are counted."""
LAST = 3
"""Rounds whose values are told as numbers."""
SPARK = 24
"""Rounds that a sparkline has."""
LONG = 24
"""Characters of a value that are shown."""
MAX_COURSES = 10
"""Courses of one search or loop that a report shows one by one."""
_ORDER = (TrialState.COMPLETE, TrialState.RUNNING, TrialState.PRUNED, TrialState.FAILED)
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
        latest = _latest(axis, rows)
        yield from columns([_course_row(one) for one in latest])
        if len(axis.courses) > len(latest):
            yield f"  … {len(axis.courses) - len(latest):,} more"
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


def _trials(course: CourseStatus, rows: int) -> Iterator[str]:
    good = course.good
    word = "  front" if len(course.facts.objectives) > 1 else "  best"
    running = course.running if course.state == "running" else ()
    table = [[word, f"trial {one.number}", scores_text(one), "", hp_text(one.hp)] for one in good[:rows]]
    table += [_running_row(one) for one in running[:rows]]
    if not any(row[3] for row in table):
        table = [[*row[:3], row[4]] for row in table]
    yield from columns(table, right=(2,))
    if len(good) > rows:
        yield f"  … {len(good) - rows:,} more of the front"
    if len(running) > rows:
        yield f"  … {len(running) - rows:,} more running"


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


# --- parts of lines that several views share ------------------------------------------------------


def what_text(axis: AxisStatus) -> str:
    """`tpe, minimize train.loss`, `loop until check.error < 0.1`."""
    facts = axis.facts
    if facts.kind == "loop":
        return f"loop until {axis.condition}" if facts.until else "loop"
    return f"{facts.sampler}, {objectives_text(axis)}"


def objectives_text(axis: AxisStatus) -> str:
    """`minimize train.loss, maximize test.accuracy`."""
    return ", ".join(f"{one['goal']} {one['value']}" for one in axis.objectives)


def at_text(course: CourseStatus) -> str:
    """What a course runs for: `material Si, round 3`."""
    return ", ".join(f"{name} {short(value)}" for name, value in course.at.items())


def standing_text(course: CourseStatus) -> str:
    """How far it is: `12 of 20 trials: 9 complete, 2 running, 1 pruned`."""
    return _rounds_text(course) if course.facts.kind == "loop" else _trials_text(course)


def _rounds_text(course: CourseStatus) -> str:
    if course.state in ("over", "failed"):
        return f"{course.state} after {counted(course.done, 'round')}{_tolerated(course)}: {course.why}"
    most = f"at most {course.facts.size:,}" if course.facts.until else f"{course.facts.size:,}"
    verb = "" if course.state == "running" else f" ({course.state})"
    return f"round {course.round:,} of {most}, {course.done:,} done{verb}"


def _trials_text(course: CourseStatus) -> str:
    counts = ", ".join(
        f"{count:,} {_word(course, state)}" for state in _ORDER if (count := course.count(state))
    )
    each = f": {counts}" if counts else ""
    if course.state in ("over", "failed"):
        end = f"; {course.state}{_tolerated(course)}: {course.why}"
        end = "" if course.reason in ("trials", "all") else end
        return f"{counted(len(course.trials), 'trial')}{each}{end}{_unheard(course)}"
    end = f"; no further ones: {course.why}" if course.reason else ""
    return f"{len(course.trials):,} of {counted(course.total, 'trial')}{each}{end}"


def _tolerated(course: CourseStatus) -> str:
    return f", tolerated by {course.tolerated}" if course.tolerated else ""


def _unheard(course: CourseStatus) -> str:
    """That a pruner judged by something that no trial reported: most likely its name is wrong."""
    heard = course.state == "failed" or any(trial.reported for trial in course.trials)
    if heard or course.facts.pruner == "none":
        return ""
    return f"; nothing was pruned, for no trial reported {course.facts.watched} on its way"


def _word(course: CourseStatus, state: TrialState) -> str:
    """Without a controller nothing runs: what was asked for waits to go on."""
    return "begun" if state is TrialState.RUNNING and course.state == "waiting" else state.value


def end_text(axis: AxisStatus, course: CourseStatus) -> str:
    """How a search or loop stands, with its best trial or its front, in one line."""
    at = at_text(course)
    told = f"{axis.label}{f' at {at}' if at else ''}: {standing_text(course)}"
    best = course.best
    if best is not None:
        told += f"; best trial {best.number}: {scores_text(best)}, {hp_text(best.hp)}"
    elif len(course.facts.objectives) > 1:
        told += f"; a Pareto front of {counted(len(course.front), 'trial')}"
    return told


def scores_text(trial: Trial) -> str:
    """The values of a trial, one an objective."""
    return ", ".join(short(value) for value in trial.values)


def hp_text(values: Mapping[str, Any]) -> str:
    """`hidden=32, learning_rate=0.01`."""
    return ", ".join(f"{name}={short(value)}" for name, value in values.items())


def short(value: object) -> str:
    """A value as people read it in a row: five digits of a float."""
    if isinstance(value, float):
        return f"{value:.5g}"
    text = str(value)
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


# --- in a report ----------------------------------------------------------------------------------


def axis_report(axes: Sequence[AxisStatus]) -> Iterator[str]:
    """A chapter for each search and loop, in Markdown."""
    for axis in axes:
        yield from _chapter(axis)


def _chapter(axis: AxisStatus) -> Iterator[str]:
    facts = axis.facts
    if facts.kind == "loop":
        yield f"## Loop `{axis.label}`" + (f" until `{axis.condition}`" if facts.until else "")
    else:
        yield f"## Search `{axis.label}`: {plain(objectives_text(axis))} ({facts.sampler})"
    yield ""
    if not axis.courses:
        yield "It has not begun."
        yield ""
    for course in axis.courses[-MAX_COURSES:]:
        if facts.context:
            yield f"### {plain(at_text(course))}"
            yield ""
        yield f"{plain(standing_text(course))}."
        yield ""
        yield from _rounds_table(course) if facts.kind == "loop" else _trials_table(course)
    hidden = len(axis.courses) - MAX_COURSES
    if hidden > 0:
        yield f"{hidden:,} that began earlier are left out; `diel status --all` shows them."
        yield ""


def _trials_table(course: CourseStatus) -> Iterator[str]:
    from diel.table import shown  # tables of results, which `status` need not load

    good = course.good
    if not good:
        return
    yield "Pareto front:" if len(course.facts.objectives) > 1 else "Best trial:"
    yield ""
    names = list(dict.fromkeys(name for trial in good for name in trial.hp))
    rows = [
        [str(one.number), *map(shown, one.values), *(shown(one.hp.get(name)) for name in names)]
        for one in good[:MAX_ROWS]
    ]
    yield from markdown_table(["trial", *(value for value, _ in course.facts.objectives), *names], rows)
    yield from rest(len(good), "trials of the front")


def _rounds_table(course: CourseStatus) -> Iterator[str]:
    from diel.table import shown  # as above

    if not course.rounds:
        return
    names = list(dict.fromkeys(name for one in course.rounds for name in one.values))
    rows = [
        [str(one.number), *(shown(one.values.get(name)) for name in names), "yes" if one.holds else "no"]
        for one in course.rounds[-MAX_ROWS:]
    ]
    hidden = len(course.rounds) - MAX_ROWS
    if hidden > 0:
        yield f"The last {MAX_ROWS} rounds; {hidden:,} before them are left out:"
        yield ""
    yield from markdown_table(["round", *names, "holds"], rows)
