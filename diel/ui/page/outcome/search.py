"""The panels of searches and loops, and of what tasks reported on their way: by trial, round and step."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

from diel.base.errors import DielError, counted
from diel.base.states import TrialState
from diel.base.values import is_finite, scalar, texts_apart
from diel.observe.results.attempts import curves
from diel.observe.status.axis import AxisStatus, CourseStatus, at_text, course_name, course_text
from diel.store.journal.axis_history import Trial, ranked
from diel.ui.page.outcome.result import named_output
from diel.ui.page.panel import Grid, Part, Plot, RunView, Text
from diel.ui.page.plot import (
    SERIES,
    Column,
    Row,
    amount,
    cell,
    chart,
    figure,
    kind_of,
    layer,
    nominal,
    one_of,
    table_of,
    thinned,
    tips,
)
from diel.workflow.models import Hyperparameter

COURSES = 4
"""The most searches of one axis that are drawn; an axis inside others has one for each of their points."""
TRIALS = 1000
THREADS = 200
"""The most trials in parallel coordinates: the best ones."""
BEST = 20
NUMBER = Column("trial", "trial", "number", counts=True)
STATE = Column("state", "state", "name")
BLUE, ORANGE, GREY = SERIES[0], SERIES[1], SERIES[7]
COLOURS = {"best": ORANGE, "complete": BLUE, "pruned": GREY, "failed": SERIES[5], "running": SERIES[2]}


def parts(view: RunView) -> Iterator[Part]:
    for axis in view.status.axes:
        if axis.facts.kind != "search":
            continue
        for course in axis.courses[:COURSES]:
            yield from _Search(view, axis, course).parts()
        if len(axis.courses) > COURSES:
            rest = len(axis.courses) - COURSES
            yield Text(f"{axis.label}: {rest:,} more of its searches are not drawn.", "note")


class _Objective(NamedTuple):
    column: Column
    small: bool


class _Search:
    """One search, and the charts of it."""

    def __init__(self, view: RunView, axis: AxisStatus, course: CourseStatus) -> None:
        self.view, self.axis, self.course = view, axis, course
        self.name = course_name(axis, course)
        complete = [trial for trial in course.trials if trial.state is TrialState.COMPLETE]
        self.complete = complete
        self.objectives = [
            _Objective(
                Column(
                    f"y{place}", self._named(name), kind_of((t.values[place] for t in complete), spaced=False)
                ),
                small,
            )
            for place, (name, small) in enumerate(axis.facts.objectives)
        ]

    def _named(self, objective: str) -> str:
        """Return an objective with its units, where the workflow can be read."""
        stage, _, output = objective.partition(".")
        with suppress(DielError, KeyError):
            return f"{stage}.{named_output(self.view.run, stage, output)}"
        return objective

    @cached_property
    def parameters(self) -> Mapping[str, Hyperparameter]:
        """The workflow's hyperparameters. Raises DielError if unreadable: all else is shown before."""
        return self.view.run.workflow.hyperparameters

    def parts(self) -> Iterator[Part]:
        yield Text(f"{course_text(self.axis, self.course)}.")
        several = len(self.complete) > 1
        if several:
            histories = [(goal.column.name, self._history(n, goal)) for n, goal in enumerate(self.objectives)]
            yield one_of(f"{self.name}: history of", histories)
            fronts = [
                (f"{b.column.name} against {a.column.name}", self._front(a, b))
                for a, b in combinations(self.objectives, 2)
            ]
            if fronts:
                yield one_of(f"{self.name}: Pareto front in", fronts)
        if self.course.trials:
            yield self._table()
        if several:
            yield from self._coordinates()
            yield from self._importance()
        yield from self._curves()

    def _value(self, trial: Trial) -> dict[str, Any]:
        return {objective.column.key: v for objective, v in zip(self.objectives, trial.values, strict=False)}

    def _row(self, trial: Trial) -> Row:
        hp = {f"hp.{name}": value for name, value in trial.hp.items()}
        return {"trial": trial.number, "state": trial.state.value, **self._value(trial), **hp}

    def _history(self, place: int, objective: _Objective) -> Plot:
        """Return the value of each trial, the best so far, and where pruned ones had come to."""
        y, rows, best = objective.column, [], math.inf if objective.small else -math.inf
        column = Column("best", "best so far", y.kind)
        for trial in self.course.trials:
            value = self._reached(trial, place)
            if value is None:
                continue
            if trial.state is TrialState.COMPLETE:
                best = min(best, value) if objective.small else max(best, value)
            row = {"trial": trial.number, "state": trial.state.value, y.key: value}
            rows.append({**row, "best": best} if math.isfinite(best) else row)
        drawn = thinned(rows, TRIALS)
        order = [TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING]
        states = [state.value for state in order if any(row["state"] == state.value for row in drawn)]
        colours = {"complete": BLUE, "pruned": GREY, "running": ORANGE}
        shapes = {"complete": "circle", "pruned": "cross", "running": "triangle-up"}
        key = {} if len(states) > 1 else {"legend": None}
        columns = [NUMBER, STATE, y, column]
        line = {"type": "line", "interpolate": "step-after", "color": ORANGE}
        points = layer(
            {"type": "point", "opacity": 0.8},
            x=NUMBER.axis(),
            y=y.axis(),
            color={**STATE.among({word: colours[word] for word in states}), **key},
            shape={**STATE.among({word: shapes[word] for word in states}), **key},
            tooltip=tips(columns),
        )
        caption = f"{self.name}: {y.name} of each trial; the line is the best so far"
        best_line = layer(line, x=NUMBER.axis(), y=y.axis(field="best"))
        return figure(caption, columns, rows, best_line, points, drawn=drawn)

    def _reached(self, trial: Trial, place: int) -> float | None:
        """Return the value of a trial; if it was pruned or runs, the last it reported of the objective."""
        if trial.values:
            return trial.values[place] if place < len(trial.values) else None
        watched = self.axis.facts.watched == self.axis.facts.objectives[place][0]
        return trial.reported[max(trial.reported)] if watched and trial.reported else None

    def _front(self, a: _Objective, b: _Objective) -> Plot:
        """Return all complete trials; those on the front have a colour and their number."""
        x, y = a.column, b.column
        good = {trial.number for trial in self.course.front}
        order = sorted(self.complete, key=lambda trial: trial.number not in good)
        words = {True: "on the front", False: "other"}
        rows = [{"trial": t.number, **self._value(t), "best": words[t.number in good]} for t in order]
        which = Column("best", "trials", "name")
        columns = [NUMBER, *(goal.column for goal in self.objectives), which]
        place = {"x": x.axis(), "y": y.axis()}
        colour = which.among({words[True]: ORANGE, words[False]: GREY})
        only = {"transform": [{"filter": f"datum.best === '{words[True]}'"}]}
        number = {"type": "text", "dx": 7, "dy": -7, "align": "left", "fontSize": 10}
        layers = [
            layer({"type": "point", "size": 60}, **place, color=colour, tooltip=tips(columns)),
            only | layer(number, **place, text={"field": "trial"}),
        ]
        if len(self.objectives) == 2:
            step = "step-after" if a.small else "step-before"  # along what no trial is known to surpass
            mark = {"type": "line", "interpolate": step, "color": ORANGE, "strokeWidth": 1}
            layers.insert(0, only | layer(mark, **place, order=amount(x.key)))
        caption = f"{self.name}: {counted(len(good), 'trial')} on the Pareto front, by number"
        return figure(caption, columns, rows, *layers, drawn=rows[:TRIALS], height=320)

    def _coordinates(self) -> Iterator[Part]:
        names = [name for name in self.parameters if any(name in trial.hp for trial in self.complete)]
        names = [name for name in names if len({str(trial.hp.get(name)) for trial in self.complete}) > 1]
        if len(names) > 1:
            goals = enumerate(self.objectives)
            charts = [(goal.column.name, self._threads(n, goal, names)) for n, goal in goals]
            yield one_of(f"{self.name}: colored by", charts)

    def _threads(self, number: int, objective: _Objective, names: Sequence[str]) -> Plot:
        """Return a thread for each trial through an axis for each hyperparameter, the best on top."""
        sign = 1 if objective.small else -1
        best = sorted(self.complete, key=lambda trial: sign * trial.values[number])[:THREADS]
        y = objective.column
        scales = {
            name: _Scale(self.parameters[name], [t.hp[name] for t in best if name in t.hp]) for name in names
        }
        rows = [
            {
                "trial": trial.number,
                "hp": name,
                "at": scales[name].place(trial.hp[name]),
                "value": cell(trial.hp[name]),
                y.key: trial.values[number],
            }
            for trial in reversed(best)
            for name in names
            if name in trial.hp
        ]
        ends = [{"hp": name, "at": at, "label": text} for name in names for at, text in scales[name].ends()]
        across = nominal("hp", sort=None, title=None, axis={"labelAngle": 0})
        place = {"x": across, "y": amount("at", axis=None, scale={"domain": [0, 1]})}
        shown = [NUMBER, Column("hp", "hyperparameter", "name"), Column("value", "value", "name"), y]
        ramp = y.colour()
        ramp["scale"] = {**ramp["scale"], "reverse": not objective.small}
        thread = {"type": "line", "opacity": 0.7, "strokeWidth": 1.5}
        bold = {"type": "text", "align": "left", "dx": 5, "fontSize": 11, "fontWeight": "bold"}
        at = {"data": {"values": ends}}
        layers = (
            at | layer({"type": "line", "color": GREY, "strokeWidth": 1}, **place, detail={"field": "hp"}),
            layer(thread, **place, detail={"field": "trial"}, color=ramp, tooltip=tips(shown)),
            at | layer(bold, **place, text={"field": "label"}),
        )
        whole = "" if len(best) == len(self.complete) else f", the best {len(best)}"
        caption = f"{self.name}: hyperparameters of each complete trial{whole}, colored by {y.name}"
        spec = chart([*shown, Column("at", "", "number")], rows, *layers, height=300)
        heads = [NUMBER, *(Column(f"hp.{name}", name, "name") for name in names), y]
        return Plot(caption, spec, table_of(caption, heads, [self._row(trial) for trial in best]))

    def _importance(self) -> Iterator[Part]:
        try:
            from diel.controller.search.optuna import importances, study_of  # an extra, and slow to import
        except ImportError:
            yield Text("Importance is not measured: it needs Optuna: pip install 'diel[search]'", "note")
            return
        facts = self.axis.facts
        goals = [(reference, bool(small)) for reference, small in facts.objectives]
        all_importances = importances(study_of(self.name, goals, self.parameters, self.course.trials), goals)
        if not all_importances:
            yield Text(f"{self.name}: too few complete trials, or all alike, to say what matters.", "note")
            return
        kinds = {"PED-ANOVA": "what sets the best apart", "fANOVA": "share of the whole scatter"}
        charts = []
        for importance in all_importances:
            rows = [{"hp": name, "share": share} for name, share in importance.shares.items()]
            columns = [Column("hp", "hyperparameter", "name"), Column("share", "importance", "number")]
            bars = {"y": columns[0].axis(title=None), "x": columns[1].axis(scale={"domain": [0, 1]})}
            share = amount("share", format=".0%")
            label = layer({"type": "text", "align": "left", "dx": 4}, **bars, text=share)
            caption = f"{self.name}: what matters for {importance.objective}, by Optuna's {importance.method}"
            caption += f" ({kinds[importance.method]}; {importance.trials} trials)"
            high, bar = max(60, 26 * len(rows)), layer("bar", **bars, tooltip=tips(columns))
            chart = figure(caption, columns, rows, bar, label, height=high)
            charts.append((f"{importance.objective} by {importance.method}", chart))
        yield one_of(f"{self.name}: importance for", charts)

    def _curves(self) -> Iterator[Part]:
        """Yield what trials reported: to their pruner, or else the metric named as the objective."""
        lines = self._reported()
        if sum(len(curve) > 1 for curve in lines.values()) < 2:
            return
        name = self.axis.facts.watched
        best = {trial.number for trial in self.course.good}
        heard = [trial for trial in self.course.trials if trial.number in lines]
        first = [trial for trial in heard if trial.number in best]
        drawn = [*thinned([trial for trial in heard if trial.number not in best], 2 * LINES), *first]
        how = {trial.number: "best" if trial.number in best else trial.state.value for trial in drawn}
        rows = [
            {**row, "trial": trial.number, "state": how[trial.number]}
            for trial in drawn
            for row in rows_of([("", lines[trial.number])])
        ]
        y = Column("y", name, kind_of((row["y"] for row in rows), spaced=False))
        columns = [NUMBER, STATE, STEP, y]
        paint = STATE.among({state: colour for state, colour in COLOURS.items() if state in how.values()})
        place = {"x": STEP.axis(), "y": y.axis(), "color": paint}
        pruned = [
            max((r for r in rows if r["trial"] == n), key=lambda r: r["step"])
            for n, s in how.items()
            if s == "pruned"
        ]
        mark, tip = {"type": "line", "opacity": 0.8}, tips(columns)
        layers = [layer(mark, **place, detail={"field": "trial"}, tooltip=tip)]
        if pruned:  # of nothing Vega finds no extent, and warns
            cross = layer({"type": "point", "shape": "cross", "size": 50}, **place, tooltip=tip)
            values = [{key.key: row[key.key] for key in columns} for row in pruned]
            layers.append({"data": {"values": values}} | cross)
        ends = "; a cross is where a trial was pruned" if pruned else ""
        share = "" if len(drawn) == len(heard) else f", {len(drawn)} of {len(heard)} trials, evenly chosen"
        caption = f"{self.name}: {name} as trials reported it{share}{ends}"
        yield figure(caption, columns, rows, *layers)

    def _reported(self) -> dict[int, Mapping[int, float]]:
        """Return values by trial and step, as its pruner heard them, else as tasks of the stage said."""
        trials, run = self.course.trials, self.view.run
        stage, _, metric = self.axis.facts.watched.rpartition(".")
        heard: dict[int, Mapping[int, float]] = {t.number: t.reported for t in trials if t.reported}
        domain = run.domain(stage) if stage in run.workflow.stages else None
        here = dict(zip(self.axis.facts.context, self.course.context, strict=True))
        if heard or domain is None or {*here, self.axis.label} != set(domain.axes):
            return heard
        indices = {trial.number: domain.index({**here, self.axis.label: trial.number}) for trial in trials}
        places = {index: number for number, index in indices.items() if index is not None}
        tasks = curves(run, stage, places)
        lines = {places[index]: lines[metric] for index, lines in tasks.items() if metric in lines}
        return {number: {step: value for step, (value, _) in line.items()} for number, line in lines.items()}

    def _table(self) -> Grid:
        several = len(self.objectives) > 1
        first = self.course.front if several else ranked(self.complete, self.objectives[0].small)
        order = [*first, *(trial for trial in self.course.trials if trial not in first)]
        names = list(dict.fromkeys(name for trial in self.course.trials for name in trial.hp))
        columns = [NUMBER, STATE, *(objective.column for objective in self.objectives)]
        columns += [Column(f"hp.{name}", name, "name") for name in names]
        columns += [Column("why", "why", "name")] if any(trial.message for trial in order) else []
        caption = f"{self.name}: the trials, {'the Pareto front' if several else 'the best'} first"
        rows = [{**self._row(trial), "why": trial.message[:120]} for trial in order]
        return table_of(caption, columns, rows, BEST)


class _Scale:
    """Where the values of a hyperparameter lie between the ends of its axis, from 0 to 1."""

    def __init__(self, parameter: Hyperparameter, values: Sequence[Any]) -> None:
        listed = parameter.listed if parameter.type in ("choice", "bool") else None
        self._names = [cell(name) for name in listed or ()]
        numbers = [] if self._names else [float(value) for value in values]
        self._log = parameter.log and min(numbers, default=0.0) > 0
        self._low, self._high = min(numbers, default=0.0), max(numbers, default=1.0)

    def place(self, value: Any) -> float:
        if self._names:
            return self._names.index(cell(value)) / max(1, len(self._names) - 1)
        numbers = (self._low, self._high, float(value))
        low, high, at = map(math.log, numbers) if self._log else numbers
        return 0.5 if high == low else (at - low) / (high - low)

    def ends(self) -> Iterator[tuple[float, str]]:
        """Yield the words at an axis: its ends, or all names."""
        if self._names:
            yield from ((self.place(name), str(name)) for name in self._names)
        else:
            yield from zip((0.0, 1.0), texts_apart([self._low, self._high], 4), strict=True)


_ROUNDS = 1000
_COMPARED = re.compile(r"([\w.]+) *[<>]=? *(hp\.\w+|[-+.\deE]+)")
_ROUND = Column("round", "round", "number", counts=True)
_HOLDS = Column("holds", "until holds", "name")


def loops(view: RunView) -> Iterator[Part]:
    for axis in view.status.axes:
        if axis.facts.kind == "loop":
            yield from (Text(f"{course_text(axis, course)}.") for course in axis.courses[:8])
            yield from _charts(axis, view.run.run_file.hyperparameters)


def _bound(axis: AxisStatus, name: str, hp: Mapping[str, Any]) -> float | None:
    """Return the number that `until` compares a value with: itself, or a hyperparameter."""
    match = _COMPARED.fullmatch(axis.condition)
    if match is None or match[1] != name:
        return None
    value = hp.get(match[2].removeprefix("hp.")) if match[2].startswith("hp.") else scalar(match[2])
    return float(value) if value is not None and is_finite(value) else None


def _charts(axis: AxisStatus, hp: Mapping[str, Any]) -> Iterator[Part]:
    rows = [
        {**turn.values, "round": turn.number, "holds": "yes" if turn.holds else "no", "at": at_text(course)}
        for course in axis.courses
        for turn in course.rounds
    ]
    names = dict.fromkeys(name for course in axis.courses for turn in course.rounds for name in turn.values)
    lines = [name for name in names if len({row[name] for row in rows if is_finite(row.get(name))}) > 1]
    charts = [(name, _chart(axis, name, _bound(axis, name, hp), rows)) for name in lines]
    if charts:
        yield one_of(f"{axis.label}: show", charts)


def _chart(axis: AxisStatus, name: str, bound: float | None, rows: list[dict[str, Any]]) -> Plot:
    drawn: list[Row] = [{**row, "y": row[name] if is_finite(row.get(name)) else None} for row in rows]
    limits = [] if bound is None else [{"y": bound, "name": axis.condition}]
    y = Column(
        "y", name, kind_of([*(row["y"] for row in drawn), *(item["y"] for item in limits)], spaced=False)
    )
    at = Column("at", ", ".join(axis.facts.context) or "at", "name")
    columns = [*([at] if axis.facts.context else []), _ROUND, y, _HOLDS]
    place = {"x": _ROUND.axis(), "y": y.axis()}
    colour = {"color": at.colour()} if axis.facts.context else {}
    key = {"legend": {"symbolFillColor": SERIES[-1], "symbolStrokeColor": SERIES[-1]}}
    held = _HOLDS.among({"no": "circle", "yes": "diamond"}) | key
    dot = {"type": "point", "size": 60, "filled": True, "opacity": 1}
    layers = [
        layer({"type": "line"}, **place, **colour),
        layer(dot, **place, **colour, shape=held, tooltip=tips(columns)),
    ]
    if limits:
        rule = layer({"type": "rule", "strokeDash": [5, 4], "color": SERIES[5]}, y=y.axis())
        text = {"type": "text", "align": "left", "x": 6, "dy": -6}
        label = layer(text, y=y.axis(), text={"field": "name"})
        layers += [{"data": {"values": limits}} | item for item in (rule, label)]
    caption = f"{axis.label}: {name} by round"
    return figure(caption, columns, drawn, *layers, drawn=thinned(drawn, _ROUNDS))


LINES = 30
STEPS = 100
METRICS = 6

STEP = Column("step", "step", "number", counts=True)


def reported(view: RunView) -> Iterator[Part]:
    """Yield the metrics of each stage; those of a search's trials are with the search."""
    run = view.run
    searched = {axis.facts.watched.rpartition(".")[0] for axis in view.status.axes}
    for stage in run.graph.order:
        total = run.history.stage(stage).total
        if stage in searched or not total:
            continue
        drawn = thinned(range(total), LINES)
        tasks = curves(run, stage, frozenset(drawn))
        names = list(dict.fromkeys(name for metrics in tasks.values() for name in metrics))
        named = {index: run.named(f"{stage}/{index}") for index in tasks}
        names.sort(key=lambda name: all(_only_counts(metrics.get(name, {})) for metrics in tasks.values()))
        charts = [chart for name in names if (chart := _of_metric(stage, name, tasks, named)) is not None]
        if charts:
            yield one_of(f"{stage} reported", charts[:METRICS])
            if total > len(drawn):
                looked = f"{stage}: of {total:,} tasks {len(drawn)} were looked at, evenly chosen"
                yield Text(f"{looked}; {len(tasks)} have reported.", "note")


def _only_counts(curve: Mapping[int, tuple[float, float | None]]) -> bool:
    """Return whether a metric is whole numbers that grow, as a count of items: no curve to look at first."""
    values = [curve[step][0] for step in sorted(curve)]
    return all(value.is_integer() for value in values) and values == sorted(values)


def _of_metric(
    stage: str, name: str, tasks: Mapping[int, Mapping[str, Any]], named: Mapping[int, str]
) -> tuple[str, Plot] | None:
    lines = {named[index]: own[name] for index, own in tasks.items() if len(own.get(name, ())) > 1}
    rows = list(
        rows_of((who, {step: value for step, (value, _) in curve.items()}) for who, curve in lines.items())
    )
    if not rows:
        return None
    y = Column("y", name, kind_of((row["y"] for row in rows), spaced=False))
    who = Column("who", "task", "name")
    colour = {"color": who.named()} if 1 < len(lines) <= 8 else {}
    mark = {"type": "line", "opacity": 1.0 if len(lines) <= 8 else 0.5, "tooltip": True}
    columns, detail = [who, STEP, y], {"field": "who"}
    line = layer(mark, x=STEP.axis(), y=y.axis(), tooltip=tips(columns), detail=detail, **colour)
    return name, figure(f"{stage}: {name} as it was reported, step by step", columns, rows, line)


def rows_of(lines: Iterable[tuple[str, Mapping[int, float]]]) -> Iterator[Row]:
    """Yield the points of curves, each thinned to so many steps."""
    for who, curve in lines:
        for step in thinned(sorted(curve), STEPS):
            yield {"who": who, "step": step, "y": curve[step]}
