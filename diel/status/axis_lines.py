"""Searches and loops for people: lines for a terminal, chapters of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diel.digits import MOST, digits_apart, number_text
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
from diel.values import format_duration, value_text

ROWS = 8
"""Running trials, trials of a front, or courses shown for one axis; the rest are counted."""
LOST = 3
"""Trials that were pruned or failed, of which status shows why; `diel results --trials` lists all."""
LAST = 3
"""Rounds whose values are shown as numbers."""
SPARK = 24
"""Rounds that a sparkline has."""
LEAST = 5
"""Significant digits of a float in a row, where they tell it apart."""
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
        states = Counter(one.state for one in axis.courses)
        counts = ", ".join(f"{count:,} {state}" for state, count in states.items()) or "none has begun"
        yield f"{what}, for each {' × '.join(facts.context)} · {counts}"
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


def _latest(axis: AxisStatus, rows: int) -> list[CourseStatus]:
    under_way = [course for course in axis.courses if course.state == "running"][:rows]
    others = [course for course in axis.courses if course.state != "running"]
    shown = under_way + others[len(others) - min(len(others), rows - len(under_way)) :]
    return [course for course in axis.courses if any(course is one for one in shown)]


def _course_row(course: CourseStatus) -> list[str]:
    best = course.best
    if course.facts.kind == "loop":
        result = "; ".join(line.strip() for line in _values(course))
    elif best is not None:
        scores, hp = _digits(course.trials)
        result = f"best {best.number}: {scores_text(best, scores)}  {hp_text(best.hp, hp)}"
    else:
        result = f"front of {len(course.front)}" if course.front else ""
    return [f"  {at_text(course)}", standing_text(course), result]


def _trials(course: CourseStatus, rows: int) -> Iterator[str]:
    good = course.good
    word = "  front" if len(course.facts.objectives) > 1 else "  best"
    running = course.running if course.state == "running" else ()
    lost = [one for one in course.trials if one.state in (TrialState.PRUNED, TrialState.FAILED)][-LOST:]
    scores, hp = _digits(course.trials)
    table = [
        [word, f"trial {one.number}", scores_text(one, scores), "", hp_text(one.hp, hp)]
        for one in good[:rows]
    ]
    table += [_running_row(one, scores, hp) for one in running[:rows]]
    table += [[f"  {one.state}", f"trial {one.number}", "", one.message, hp_text(one.hp, hp)] for one in lost]
    if not any(row[3] for row in table):
        table = [[*row[:3], row[4]] for row in table]
    yield from columns(table, right=(2,))
    if len(good) > rows:
        yield f"  … {len(good) - rows:,} more of the front"
    if len(running) > rows:
        yield f"  … {len(running) - rows:,} more running"


def _digits(trials: Sequence[Trial]) -> tuple[int, int]:
    """Return how many digits tell apart the scores of trials (reported ones too), and hyperparameters."""
    scores = (value for one in trials for value in (*one.values, *one.reported.values()))
    return digits_apart(scores, LEAST), digits_apart((v for one in trials for v in one.hp.values()), LEAST)


def _running_row(one: Running, scores: int, hp: int) -> list[str]:
    step = "" if one.step is None else f" at {one.step:,}"
    reported = "" if one.reported is None else f"{short(one.reported, scores)}{step}"
    whole = one.done + one.running + one.waiting
    took = f"{format_duration(one.seconds)}{f', {one.done}/{whole} tasks' if whole > 1 else ''}"
    return [
        "  runs" if one.running else "  waits",
        f"trial {one.trial.number}",
        reported,
        took,
        hp_text(one.trial.hp, hp),
    ]


def _values(course: CourseStatus) -> Iterator[str]:
    """A line for each value that `until` reads: its course over the rounds, and the last numbers."""
    for name in dict.fromkeys(name for one in course.rounds for name in one.values):
        found = [one.values[name] for one in course.rounds if name in one.values]
        digits = digits_apart(found[-SPARK:], LEAST)
        last = " → ".join(short(value, digits) for value in found[-LAST:])
        more = "… → " if len(found) > LAST else ""
        drawn = sparkline(found[-SPARK:])
        yield f"  {name}  {drawn + '  ' if drawn else ''}{more}{last}"


def sparkline(values: Sequence[object]) -> str:
    """Numbers as bars of text, from the smallest to the largest; empty if there is nothing to compare."""
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
    return ", ".join(f"{name} {value_text(value, LONG)}" for name, value in course.at.items())


def standing_text(course: CourseStatus) -> str:
    """How far it is: `12 of 20 trials: 9 complete, 2 running, 1 pruned`, `over after 4 rounds: …`."""
    over = course.state in ("over", "failed")
    tolerated = f", tolerated by {course.tolerated}" if course.tolerated else ""
    if course.facts.kind == "loop" and over:
        return f"{course.state} after {counted(course.done, 'round')}{tolerated}: {course.why}"
    if course.facts.kind == "loop":
        most = f"{'at most ' if course.facts.until else ''}{course.facts.size:,}"
        verb = "" if course.state == "running" else f" ({course.state})"
        return f"round {course.round:,} of {most}, {course.done:,} done{verb}"
    # Without a controller nothing runs: requested trials wait to continue.
    words = {TrialState.RUNNING: "begun"} if course.state == "waiting" else {}
    counts = {state: course.count(state) for state in _ORDER}
    if course.state == "running":
        counts[TrialState.RUNNING] -= course.idle
    named = [(count, words.get(state, state.value)) for state, count in counts.items()]
    named.insert(2, (course.idle if course.state == "running" else 0, "waiting"))
    each = ", ".join(f"{count:,} {word}" for count, word in named if count)
    each = f": {each}" if each else ""
    if over:
        end = f"; {course.state}{tolerated}: {course.why}"
        end = "" if course.reason in ("trials", "all") else end
        return f"{counted(len(course.trials), 'trial')}{each}{end}{_unheard(course)}"
    end = f"; no further ones: {course.why}" if course.reason else ""
    return f"{len(course.trials):,} of {counted(course.total, 'trial')}{each}{end}"


def _unheard(course: CourseStatus) -> str:
    """A warning that a pruner watches a metric that no trial reported: most likely its name is wrong."""
    heard = course.state == "failed" or any(trial.reported for trial in course.trials)
    if heard or course.facts.pruner == "none":
        return ""
    return f"; nothing was pruned, because no trial reported {course.facts.watched} on its way"


def end_text(axis: AxisStatus, course: CourseStatus) -> str:
    """The state of a search or loop, with its best trial or its front, in one line."""
    at = at_text(course)
    line = f"{axis.label}{f' at {at}' if at else ''}: {standing_text(course)}"
    best = course.best
    if best is not None:
        scores, hp = _digits(course.trials)
        return f"{line}; best trial {best.number}: {scores_text(best, scores)}, {hp_text(best.hp, hp)}"
    several = len(course.facts.objectives) > 1
    return f"{line}; a Pareto front of {counted(len(course.front), 'trial')}" if several else line


def scores_text(trial: Trial, digits: int = MOST) -> str:
    """The values of a trial, one for each objective."""
    return ", ".join(short(value, digits) for value in trial.values)


def hp_text(values: Mapping[str, Any], digits: int = MOST) -> str:
    """`hidden=32, learning_rate=0.01`."""
    return ", ".join(f"{name}={short(value, digits)}" for name, value in values.items())


def short(value: object, digits: int = MOST) -> str:
    """A value as people read it in a row: so many digits of a float."""
    if isinstance(value, float):
        return number_text(value, digits)
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
    from diel.table import texts  # tables of results, which `status` does not need

    good = course.good
    if not good:
        return
    yield "Pareto front:" if len(course.facts.objectives) > 1 else "Best trial:"
    yield ""
    names = list(dict.fromkeys(name for trial in good for name in trial.hp))
    least = max(LEAST + 1, *_digits(course.trials))
    rows = texts([[one.number, *one.values, *map(one.hp.get, names)] for one in good[:MAX_ROWS]], least=least)
    yield from markdown_table(["trial", *(value for value, _ in course.facts.objectives), *names], rows)
    yield from rest(len(good), "trials of the front")


def _rounds_table(course: CourseStatus) -> Iterator[str]:
    from diel.table import texts  # as above

    if not course.rounds:
        return
    names = list(dict.fromkeys(name for one in course.rounds for name in one.values))
    rows = [
        [one.number, *map(one.values.get, names), "yes" if one.holds else "no"]
        for one in course.rounds[-MAX_ROWS:]
    ]
    hidden = len(course.rounds) - MAX_ROWS
    if hidden > 0:
        yield f"The last {MAX_ROWS} rounds; {hidden:,} before them are left out:"
        yield ""
    yield from markdown_table(["round", *names, "holds"], texts(rows))
