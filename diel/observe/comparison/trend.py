"""The runs of a workflow by date: how long they and their tasks took, and what came out."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from diel.base.errors import DielError, UsageError, did_you_mean
from diel.base.paths import RunPaths
from diel.base.terms import SIMULATED
from diel.base.values import clock, format_duration, json_value, sparkline
from diel.observe.comparison.comparison import ComparedRun, EndedTask, Point, change_text, numbers, point_name
from diel.observe.comparison.scatter import middle
from diel.observe.results import RunReader
from diel.observe.results.rows import stage_and_output
from diel.observe.status.columns import columns, paint, paint_state, printable
from diel.store.project.runs import all_runs
from diel.store.table import Listing, texts

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


class TrendPoint(NamedTuple):
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
    def numbers(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def usual(self) -> float | None:
        """The median of the finite ones before the last value; None without any."""
        return middle(filter(math.isfinite, self.numbers[:-1]))

    @property
    def change(self) -> float | None:
        """The last value over the usual one, less one; None without that, or of zero."""
        return (self.numbers[-1] - self.usual) / abs(self.usual) if self.usual else None

    @property
    def is_beyond(self) -> bool:
        """Whether the last value lies beyond the scatter of those before, where these can tell."""
        *_, last = self.numbers or [0.0]
        before = [*filter(math.isfinite, self.numbers[:-1])]
        if len(before) < ENOUGH:
            return False
        usual = median(before)
        deviation = median(abs(value - usual) for value in before)
        return not abs(last - usual) <= max(_FAR * deviation, 1e-9 * abs(usual))


class Trend(NamedTuple):
    """The runs of a workflow, the oldest first, and their figures."""

    workflow: str
    runs: tuple[TrendPoint, ...]
    measures: tuple[Measure, ...]
    notes: tuple[str, ...]


def read_trend(
    runs: Path, workflow: str, words: Sequence[str] = (), last: int | None = None, *, bench: bool = False
) -> Trend:
    """Return the trend of a workflow. `words` names stages and STAGE.VALUEs, `bench` takes what `BENCH` has.

    Raise UsageError where the workflow has no runs, or none of them has what is wanted.
    """
    sides = [ComparedRun(RunReader(paths)) for paths in _runs_of(runs, workflow)[-last if last else 0 :]]
    dated, figures, groups = [], [], {}
    for side in sides:
        try:
            groups.update(_groups(side) if bench else {})
            ended = {stage: side.ended(stage) for stage in side.stages if not bench or stage in groups}
            dated.append(_dated(side))
        except DielError as error:
            side.notes.append(f"{side.name} is left out: {error}")
            continue
        figures.append(ended)
    notes = tuple(note for side in sides for note in side.notes)
    measures = [measure for measure in _measures(figures, groups) if _is_asked_for(measure, words, figures)]
    if bench and not groups:
        raise UsageError(
            f"no stage of the runs of '{workflow}' is one of {', '.join(BENCH)}: --bench shows those"
        )
    if not measures and (words or bench):
        there = ", ".join(dict.fromkeys(stage for figure in figures for stage in figure)) or "none"
        what = f"module {', '.join(BENCH)}" if bench and not words else " ".join(words)
        raise UsageError(f"the runs of '{workflow}' have no figures of {what}; stages with results: {there}")
    return Trend(workflow, tuple(dated), tuple(measures), notes)


def _runs_of(runs: Path, workflow: str) -> list[RunPaths]:
    """Return the runs of a workflow, the oldest first; a run's name means the workflow of that run."""
    all_paths = all_runs(runs)
    names = {paths: paths.run_id.rpartition("-")[0] for paths in all_paths}
    chosen = [paths for paths in all_paths if workflow in (names[paths], paths.run_id)]
    if chosen and workflow not in names.values():
        chosen = [paths for paths in all_paths if names[paths] == names[chosen[-1]]]
    if not chosen:
        there = ", ".join(sorted({*names.values()}))
        hint = did_you_mean(workflow, names.values()) or (f"there are: {there}" if there else "it has none")
        raise UsageError(f"no runs of '{workflow}' in {runs}; {hint}")
    return chosen


def _dated(side: ComparedRun) -> TrendPoint:
    """Raise DielError where the run's files cannot be read."""
    history = side.run.history
    counts: dict[str, int] = {}
    for stage in history.stages.values():
        for state, count in stage.counts().items():
            counts[state] = counts.get(state, 0) + count
    began = history.began or side.run.run_file.created
    took = None if history.ended is None else history.ended - began
    return TrendPoint(side.name, began, side.run.state.value, took, counts)


def _groups(side: ComparedRun) -> dict[str, str]:
    try:
        stages = side.run.workflow.stages
    except DielError as error:
        side.notes.append(str(error))
        return {}
    return {name: group for name, spec in stages.items() if (group := BENCH.get(spec.module or ""))}


def _measures(figures: Sequence[dict[str, EndedTask]], groups: dict[str, str]) -> Iterator[Measure]:
    for stage in dict.fromkeys(stage for figure in figures for stage in figure):
        results = [figure.get(stage) for figure in figures]
        group = groups.get(stage, "")
        if not group:
            times = (None if stats is None else middle(stats.seconds.values()) for stats in results)
            yield Measure(f"{stage} time", tuple(times), group)
        answers = [None if ended is None else _answers(ended) for ended in results]
        if any(answers):
            yield Measure(f"{stage} answered", tuple(answers), group)
        names = dict.fromkeys(name for stats in results if stats is not None for name in stats.values)
        for name in names:
            columns = [{} if stats is None else _numbers(stats, name) for stats in results]
            yield from _of_output(f"{stage}.{name}", columns, group)


def _answers(ended: EndedTask) -> int:
    """Count the results of this run that a model answered."""
    how = ended.values.get(SIMULATED, {})
    return sum(point in ended.seconds and not computed for point, computed in how.items())


def _numbers(ended: EndedTask, name: str) -> dict[Point, float]:
    """Return what tasks made that this run computed: what is from the cache was measured before."""
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
        at = point_name(point)
        values = tuple(column.get(point) for column in columns)
        yield Measure(f"{name} ({at})" if at else name, values, group)


def _is_asked_for(measure: Measure, words: Sequence[str], figures: Sequence[dict[str, EndedTask]]) -> bool:
    if not measure.numbers:
        return False
    if not words:
        return True
    stages = {stage for figure in figures for stage in figure}
    name = measure.name.partition(" (")[0].removesuffix(" time").removesuffix(" answered")
    own = stage_and_output(name, stages)[0]
    return any(word in (name, own) for word in words)


SHOWN = 24
"""The most runs of a line of bars, and rows of the list of runs."""


def trend_lines(trend: Trend) -> Iterator[str]:
    """Yield the runs, then a line for each figure: the usual value, the last, the change, bars over time."""
    rows = [list(RUN_COLUMNS)]
    for item in trend.runs[-SHOWN:]:
        run, began, state, took = item.cells
        rows.append([run, began, paint_state(state), took, *(f"{count:,}" for count in item.counts)])
    yield from columns(rows, right=(3, 4, 5, 6))
    if len(trend.runs) > SHOWN:
        yield f"and {len(trend.runs) - SHOWN:,} before these"
    for group in dict.fromkeys(item.group for item in trend.measures):
        yield ""
        head = [group or "figure", "median", "last", "change", "over time"]
        measures = [item for item in trend.measures if item.group == group]
        figures = texts(
            [(item.numbers[-1] if item.usual is None else item.usual, item.numbers[-1]) for item in measures]
        )
        yield from columns([head, *map(_row, measures, figures)], right=(1, 2, 3))
    if trend.measures and len(trend.runs) <= ENOUGH:
        yield ""
        yield paint(f"beyond the scatter: told once {ENOUGH} runs came before", dim=True)
    yield from (paint(f"left out: {printable(note)}", fg="yellow") for note in trend.notes)


def _row(measure: Measure, figures: Sequence[str]) -> list[str]:
    change = change_text(measure.usual, measure.numbers[-1])
    bars = sparkline(measure.values[-SHOWN:])
    bars += paint("  beyond the scatter", fg="red", bold=True) if measure.is_beyond else ""
    return [f"  {printable(measure.name)}", *figures, change, bars]


def trend_table(trend: Trend) -> Listing:
    """Return a row for each run, a column for each figure."""
    names = tuple(item.name for item in trend.measures)
    columns_ = list(zip(*(item.values for item in trend.measures), strict=True)) or [()] * len(trend.runs)
    rows: list[tuple[Any, ...]] = [
        (item.run, item.began, item.state, item.seconds, *item.counts, *values)
        for item, values in zip(trend.runs, columns_, strict=True)
    ]
    return Listing(("run", "began", "state", "took_s", *_STATES, *names), rows, {})


def trend_document(trend: Trend) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "workflow": trend.workflow,
        "runs": list(trend_table(trend._replace(measures=())).mappings()),
        "measures": {
            measure.name: {
                "group": measure.group or None,
                "values": json_value([*measure.values]),
                "change": json_value(measure.change),
                "beyond": measure.is_beyond,
            }
            for measure in trend.measures
        },
        "notes": list(trend.notes),
    }
