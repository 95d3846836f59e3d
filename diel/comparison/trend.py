"""The runs of a workflow by date: how long they and their tasks took, and what came out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from diel.comparison.comparison import Ended, Point, Side, change_text, numbers, point_name
from diel.comparison.scatter import middle
from diel.digits import sparkline
from diel.errors import DielError, UsageError, did_you_mean
from diel.paths import RunPaths
from diel.project.runs import all_runs
from diel.results import RunReader
from diel.results.rows import stage_and_output
from diel.status.columns import columns, paint, paint_state, printable
from diel.table import Listing, texts
from diel.terms import SIMULATED
from diel.values import clock, format_duration, json_value

MOST_POINTS = 12
"""Tasks of a stage up to which each point is followed by itself; of more the median is."""
ENOUGH = 5
"""Earlier values that say how far a value scatters."""
_FAR = 3 * 1.4826
"""Median absolute deviations beyond which a value is not scatter: three standard deviations."""
BENCH = {"bench.gemm": "kernel", "bench.allreduce": "collective", "bench.files": "I/O"}
"""What the modules measure that `--bench` shows."""


_STATES = ("done", "cached", "failed")
RUN_COLUMNS = ("run", "began", "state", "took", *_STATES)


class Dated(NamedTuple):
    """One run."""

    run: str
    began: float
    """Seconds since the epoch."""
    state: str
    seconds: float | None
    """From its beginning to its end; None if it has not ended."""
    tasks: dict[str, int]
    """How many are in each state."""

    @property
    def counts(self) -> list[int]:
        """The tasks that are done, cached and failed."""
        return [self.tasks.get(state, 0) for state in _STATES]

    @property
    def cells(self) -> list[str]:
        """What it is called, when it began, its state, and how long it took, for people."""
        took = "" if self.seconds is None else format_duration(self.seconds)
        return [self.run, clock(self.began), self.state, took]


class Measure(NamedTuple):
    """A figure that runs have."""

    name: str
    """`STAGE time` in seconds, `STAGE answered` by a model, or STAGE.VALUE, perhaps with its point."""
    values: tuple[float | None, ...]
    """One for each run; None where it has none."""
    group: str = ""
    """What it tells of, of `--bench`."""

    @property
    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def usual(self) -> float | None:
        """The median of the finite ones before the last value; None without any."""
        return middle(filter(math.isfinite, self.known[:-1]))

    @property
    def change(self) -> float | None:
        """The last value over the usual one, less one; None without that, or of zero."""
        return (self.known[-1] - self.usual) / abs(self.usual) if self.usual else None

    @property
    def is_beyond(self) -> bool:
        """Whether the last value lies beyond the scatter of those before, where these can tell."""
        *_, last = self.known or [0.0]
        before = [*filter(math.isfinite, self.known[:-1])]
        if len(before) < ENOUGH:
            return False
        usual = median(before)
        deviation = median(abs(value - usual) for value in before)
        return not abs(last - usual) <= max(_FAR * deviation, 1e-9 * abs(usual))


class Trend(NamedTuple):
    """The runs of a workflow, the oldest first, and their figures."""

    workflow: str
    runs: tuple[Dated, ...]
    measures: tuple[Measure, ...]
    notes: tuple[str, ...]


def read_trend(
    runs: Path, workflow: str, wanted: Sequence[str] = (), last: int | None = None, *, bench: bool = False
) -> Trend:
    """The trend of a workflow. `wanted` names stages and STAGE.VALUEs, `bench` chooses what `BENCH` has.

    Raises UsageError where the workflow has no runs, or none of them has what is wanted.
    """
    sides = [Side(RunReader(paths)) for paths in _runs_of(runs, workflow)[-last if last else 0 :]]
    dated, figures, groups = [], [], {}
    for side in sides:
        try:
            groups.update(_groups(side) if bench else {})
            found = {stage: side.ended(stage) for stage in side.stages if not bench or stage in groups}
            dated.append(_dated(side))
        except DielError as error:
            side.notes.append(f"{side.name} is left out: {error}")
            continue
        figures.append(found)
    notes = tuple(note for side in sides for note in side.notes)
    measures = [one for one in _measures(figures, groups) if _is_wanted(one, wanted, figures)]
    if bench and not groups:
        raise UsageError(
            f"no stage of the runs of '{workflow}' is one of {', '.join(BENCH)}: --bench shows those"
        )
    if not measures and (wanted or bench):
        there = ", ".join(dict.fromkeys(stage for figure in figures for stage in figure)) or "none"
        what = f"module {', '.join(BENCH)}" if bench and not wanted else " ".join(wanted)
        raise UsageError(f"the runs of '{workflow}' have no figures of {what}; stages with results: {there}")
    return Trend(workflow, tuple(dated), tuple(measures), notes)


def _runs_of(runs: Path, workflow: str) -> list[RunPaths]:
    """The runs of a workflow, the oldest first; a run's name means the workflow of that run."""
    known = all_runs(runs)
    names = {paths: paths.run_id.rpartition("-")[0] for paths in known}
    found = [paths for paths in known if workflow in (names[paths], paths.run_id)]
    if found and workflow not in names.values():
        found = [paths for paths in known if names[paths] == names[found[-1]]]
    if not found:
        there = ", ".join(sorted({*names.values()}))
        hint = did_you_mean(workflow, names.values()) or (f"there are: {there}" if there else "it has none")
        raise UsageError(f"no runs of '{workflow}' in {runs}; {hint}")
    return found


def _dated(side: Side) -> Dated:
    """Raises DielError where the run's files cannot be read."""
    history = side.run.history
    counts: dict[str, int] = {}
    for stage in history.stages.values():
        for state, count in stage.counts().items():
            counts[state] = counts.get(state, 0) + count
    began = history.began or side.run.run_file.created
    took = None if history.ended is None else history.ended - began
    return Dated(side.name, began, side.run.state.value, took, counts)


def _groups(side: Side) -> dict[str, str]:
    try:
        stages = side.run.workflow.stages
    except DielError as error:
        side.notes.append(str(error))
        return {}
    return {name: group for name, one in stages.items() if (group := BENCH.get(one.module or ""))}


def _measures(figures: Sequence[dict[str, Ended]], groups: dict[str, str]) -> Iterator[Measure]:
    for stage in dict.fromkeys(stage for figure in figures for stage in figure):
        each = [figure.get(stage) for figure in figures]
        group = groups.get(stage, "")
        if not group:
            times = (None if one is None else middle(one.seconds.values()) for one in each)
            yield Measure(f"{stage} time", tuple(times), group)
        answers = [None if ended is None else _answers(ended) for ended in each]
        if any(answers):
            yield Measure(f"{stage} answered", tuple(answers), group)
        names = dict.fromkeys(name for one in each if one is not None for name in one.values)
        for name in names:
            columns = [{} if one is None else _numbers(one, name) for one in each]
            yield from _of_output(f"{stage}.{name}", columns, group)


def _answers(ended: Ended) -> int:
    """Count the results of this run that a model answered."""
    how = ended.values.get(SIMULATED, {})
    return sum(point in ended.seconds and not computed for point, computed in how.items())


def _numbers(ended: Ended, name: str) -> dict[Point, float]:
    """What tasks made that this run computed: what is from the cache was measured before."""
    own = ((point, value) for point, value in ended.values.get(name, {}).items() if point in ended.seconds)
    return numbers(dict(own))


def _of_output(name: str, columns: Sequence[dict[Point, float]], group: str) -> Iterator[Measure]:
    points = dict.fromkeys(point for column in columns for point in column)
    if not points:
        return
    if len(points) > MOST_POINTS:
        yield Measure(name, tuple(middle(column.values()) for column in columns), group)
        return
    for point in points:
        told = point_name(point)
        values = tuple(column.get(point) for column in columns)
        yield Measure(f"{name} ({told})" if told else name, values, group)


def _is_wanted(one: Measure, wanted: Sequence[str], figures: Sequence[dict[str, Ended]]) -> bool:
    if not one.known:
        return False
    if not wanted:
        return True
    stages = {stage for figure in figures for stage in figure}
    name = one.name.partition(" (")[0].removesuffix(" time").removesuffix(" answered")
    own = stage_and_output(name, stages)[0]
    return any(word in (name, own) for word in wanted)


SHOWN = 24
"""The most runs of a line of bars, and rows of the list of runs."""


def trend_lines(trend: Trend) -> Iterator[str]:
    """The runs, then a line for each figure: the usual value, the last, how far apart, bars over time."""
    rows = [list(RUN_COLUMNS)]
    for one in trend.runs[-SHOWN:]:
        run, began, state, took = one.cells
        rows.append([run, began, paint_state(state), took, *(f"{count:,}" for count in one.counts)])
    yield from columns(rows, right=(3, 4, 5, 6))
    if len(trend.runs) > SHOWN:
        yield f"and {len(trend.runs) - SHOWN:,} before these"
    for group in dict.fromkeys(one.group for one in trend.measures):
        yield ""
        head = [group or "figure", "median", "last", "change", "over time"]
        found = [one for one in trend.measures if one.group == group]
        figures = texts([(one.known[-1] if one.usual is None else one.usual, one.known[-1]) for one in found])
        yield from columns([head, *map(_row, found, figures)], right=(1, 2, 3))
    if trend.measures and len(trend.runs) <= ENOUGH:
        yield ""
        yield paint(f"beyond the scatter: told once {ENOUGH} runs came before", dim=True)
    yield from (paint(f"left out: {printable(note)}", fg="yellow") for note in trend.notes)


def _row(one: Measure, figures: Sequence[str]) -> list[str]:
    change = change_text(one.usual, one.known[-1])
    said = sparkline(one.values[-SHOWN:])
    said += paint("  beyond the scatter", fg="red", bold=True) if one.is_beyond else ""
    return [f"  {printable(one.name)}", *figures, change, said]


def trend_table(trend: Trend) -> Listing:
    """A row for each run, a column for each figure."""
    names = tuple(one.name for one in trend.measures)
    columns_ = list(zip(*(one.values for one in trend.measures), strict=True)) or [()] * len(trend.runs)
    rows: list[tuple[Any, ...]] = [
        (one.run, one.began, one.state, one.seconds, *one.counts, *values)
        for one, values in zip(trend.runs, columns_, strict=True)
    ]
    return Listing(("run", "began", "state", "took_s", *_STATES, *names), rows, {})


def trend_document(trend: Trend) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "workflow": trend.workflow,
        "runs": list(trend_table(trend._replace(measures=())).mappings()),
        "measures": {
            one.name: {
                "group": one.group or None,
                "values": json_value([*one.values]),
                "change": json_value(one.change),
                "beyond": one.is_beyond,
            }
            for one in trend.measures
        },
        "notes": list(trend.notes),
    }
