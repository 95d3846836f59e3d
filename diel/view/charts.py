"""Charts in text: plotext draws them, with marks and axes, for as many cells as there are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import plotext
from rich.text import Text

from diel.states import TrialState
from diel.status.axis import AxisStatus, CourseStatus, at_text, objectives_text, what_text

MOST_CURVES = 12
"""Learning curves in one picture: the last ones of more."""
MOST_COURSES = 4
"""Courses of a search or loop that are drawn: the last ones."""
COLOURS = ((86, 180, 233), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (240, 228, 66))
"""Those of Okabe and Ito (see marks.py)."""
MARKS = ("●", "x", "+", "o", "◆", "▴")


class Series(NamedTuple):
    """Points with a name; `joined` by a line, or each with a mark."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    joined: bool = True
    mark: int = 0


class Chart(NamedTuple):
    """What a chart shows, whatever its size."""

    title: str
    x: str
    series: tuple[Series, ...]
    from_zero: bool = False


def draw(chart: Chart, width: int, height: int) -> Text:
    """A chart as text; what is not a finite number is left out."""
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(width, height)
    plotext.title(chart.title)
    plotext.xlabel(chart.x)
    plotext.yfrequency(
        max(2, min(7, height - 5))
    )  # beside title, frame, ticks and label: a tick has its own line
    for place, one in enumerate(chart.series):
        pairs = [
            (x, y) for x, y in zip(one.xs, one.ys, strict=False) if math.isfinite(x) and math.isfinite(y)
        ]
        if not pairs:
            continue
        xs, ys = zip(*pairs, strict=True)
        colour = COLOURS[place % len(COLOURS)]
        name = one.name if len(chart.series) > 1 else None
        if one.joined and len(xs) > 1:
            plotext.plot(xs, ys, label=name, marker="braille", color=colour)
        else:
            mark = MARKS[(one.mark or place) % len(MARKS)]
            plotext.scatter(xs, ys, label=name, marker=mark, color=colour)
    if chart.from_zero:
        plotext.ylim(0, None)
    all_xs = [x for one in chart.series for x in one.xs if math.isfinite(x)]
    if all_xs and all(float(x).is_integer() for x in all_xs):
        low, high = int(min(all_xs)), int(max(all_xs))
        ticks = range(low, high + 1, max(1, math.ceil((high - low) * 8 / width)))
        plotext.xticks([*ticks], [f"{tick:,}" for tick in ticks])
    return Text.from_ansi(plotext.build().rstrip("\n"), no_wrap=True)


# --- searches and loops -------------------------------------------------------------------------------


def axis_charts(axes: Sequence[AxisStatus]) -> Iterator[Chart]:
    """The history of each search with its best so far, its learning curves, the values of each loop."""
    for axis in axes:
        for course in axis.courses[-MOST_COURSES:]:
            at = at_text(course)
            where = f"{axis.label} at {at}" if at else axis.label
            if axis.facts.kind == "loop":
                yield from _loop_charts(f"{where}: {what_text(axis)}", course)
            else:
                yield from _search_charts(f"{where}: {objectives_text(axis)}", axis, course)


def _loop_charts(title: str, course: CourseStatus) -> Iterator[Chart]:
    for name in dict.fromkeys(name for one in course.rounds for name in one.values):
        found = [(one.number, one.values.get(name)) for one in course.rounds]
        pairs = [(number, value) for number, value in found if _is_number(value)]
        if pairs:
            yield Chart(title, f"round ({name})", (Series(name, *zip(*pairs, strict=True)),))


def _search_charts(title: str, axis: AxisStatus, course: CourseStatus) -> Iterator[Chart]:
    complete = [trial for trial in course.trials if trial.state is TrialState.COMPLETE and trial.values]
    goals = [one["goal"] for one in axis.objectives]
    if complete and len(goals) == 1:
        numbers, values = [one.number for one in complete], [one.values[0] for one in complete]
        best = [(min if goals[0] == "minimize" else max)(values[: place + 1]) for place in range(len(values))]
        yield Chart(
            title, "trial", (Series("best so far", numbers, best), Series("trial", numbers, values, False))
        )
    elif complete and len(goals) == 2:
        chosen = {one.number for one in course.front}
        front = [one.values for one in complete if one.number in chosen]
        others = [one.values for one in complete if one.number not in chosen]
        series = [Series("Pareto front", *_columns(front), False), Series("others", *_columns(others), False)]
        yield Chart(title, axis.objectives[0]["value"], tuple(one for one in series if one.xs))
    reported = [trial for trial in course.trials if len(trial.reported) > 1][-MOST_CURVES:]
    curves = [
        Series(
            f"trial {one.number}{' pruned' * (one.state is TrialState.PRUNED)}",
            *_columns(sorted(one.reported.items())),
        )
        for one in reported
    ]
    if curves:
        yield Chart(f"{title}: what trials reported", "step", tuple(curves))


def _columns(rows: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    return [row[0] for row in rows], [row[1] for row in rows]


# --- what a task reports ------------------------------------------------------------------------------


def metric_charts(lines: Sequence[str]) -> list[Chart]:
    """A chart for each number that a task reported, over its steps: the first of step, epoch or line."""
    rows = [row for line in lines if isinstance(row := _row(line), dict)]
    found = []
    step = next((name for name in ("step", "epoch") if any(name in row for row in rows)), "")
    names = dict.fromkeys(name for row in rows for name in row if name not in ("time", "step", "epoch"))
    for name in names:
        pairs = [
            (row.get(step, place), row[name])
            for place, row in enumerate(rows)
            if _is_number(row.get(name)) and _is_number(row.get(step, place))
        ]
        if len(pairs) > 1:
            found.append(Chart(name, step or "report", (Series(name, *_columns(pairs)),)))
    return found


def _row(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
