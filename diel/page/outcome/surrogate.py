"""The panel of surrogates: which part of the tasks was answered, round by round, and what that saved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from diel.page.panel import Grid, Part, Plot, Text
from diel.page.plot import SERIES, Column, Row, figure, kind_of, layer, one_of, thinned, tips
from diel.page.seen import Seen
from diel.results import RunReader
from diel.status import AxisStatus, CourseStatus
from diel.status.surrogate import answered_text, audit_texts, stays_lines, terms, trouble
from diel.values import is_finite, scalar

BINS = 20
"""Parts of the tasks, in their order, where no loop divides them."""
_ROUNDS = 1000
_COMPARED = re.compile(r"([\w.]+) *[<>]=? *(hp\.\w+|[-+.\deE]+)")
_HOW = {"answered": SERIES[4], "simulated": SERIES[1]}
_ROUND = Column("round", "round", "number", counts=True)
_HOLDS = Column("holds", "until holds", "name")


def parts(seen: Seen) -> Iterator[Part]:
    asked = {stage.name: stage.surrogate for stage in seen.status.stages if stage.surrogate is not None}
    for name, surrogate in asked.items():
        yield Text(f"{name}: {answered_text(surrogate)}.")
        doubted = surrogate.audit is not None and surrogate.audit.is_off
        for text in audit_texts(surrogate):
            yield Text(f"{name}: {text}.", "bad" if doubted else "")
        if wrong := trouble(surrogate):
            yield Text(f"{name}: {wrong}", "bad")
        yield from _shares(seen.run, name)
    for text in stays_lines({stage.name: stage.stays for stage in seen.status.stages}):
        yield Text(text, "bad")
    if asked:
        heads = ["stage", *terms(next(iter(asked.values())))]
        rows = [[name, *terms(one).values()] for name, one in asked.items()]
        yield Grid("The measured terms of the effective speedup", heads, rows)


def _shares(run: RunReader, stage: str) -> Iterator[Part]:
    """How many tasks were answered and how many were simulated, in each round or part of the stage."""
    domain = run.domain(stage)
    if domain is None:
        return
    loop = next((axis for axis in domain.axes if axis in run.adaptive), "")
    size = -(-domain.size // BINS)
    counts: dict[int, list[int]] = {}
    for record in run.results(stage, b'"surrogate"'):
        place = domain.coordinates(record["index"])[loop] if loop else record["index"] // size * size
        counts.setdefault(place, [0, 0])["surrogate" in record and not record["surrogate"]["used"]] += 1
    if len(counts) < 2:
        return
    rows = [
        {"at": at, "how": how, "tasks": number, "share": round(number / sum(counts[at]), 4)}
        for at in sorted(counts)
        for how, number in zip(_HOW, counts[at], strict=True)
    ]
    x = Column("at", loop or "first task", "number", counts=True)
    how, share = Column("how", "result", "name"), Column("share", "share", "number")
    columns = [x, how, Column("tasks", "tasks", "number"), share]
    y = share.axis(title="share of the tasks", stack="zero", axis={"format": ".0%"})
    bars = layer("bar", x=x.steps(), y=y, color=how.among(_HOW), tooltip=tips(columns))
    caption = f"{stage}: the part of its tasks that was answered instead of simulated, by {x.name}"
    yield figure(caption, columns, rows, bars, height=200)


def loops(seen: Seen) -> Iterator[Part]:
    for axis in seen.status.axes:
        if axis.facts.kind == "loop":
            yield from (Text(_told(axis, course)) for course in axis.courses[:8])
            yield from _charts(axis, seen.run.run_file.hyperparameters)


def _told(axis: AxisStatus, course: CourseStatus) -> str:
    at = ", ".join(f"{name}={value}" for name, value in course.at.items())
    until = f" until {axis.condition}" if axis.condition else ""
    rounds = f"{course.done:,} of at most {axis.facts.size:,} rounds are over"
    why = f"; {course.why}" if course.why else ""
    return f"{axis.label}{f' at {at}' if at else ''}{until}: {course.state}, {rounds}{why}."


def _bound(axis: AxisStatus, name: str, hp: Mapping[str, Any]) -> float | None:
    """The number that `until` compares a value with: itself, or a hyperparameter."""
    found = _COMPARED.fullmatch(axis.condition)
    if found is None or found[1] != name:
        return None
    value = hp.get(found[2].removeprefix("hp.")) if found[2].startswith("hp.") else scalar(found[2])
    return float(value) if value is not None and is_finite(value) else None


def _charts(axis: AxisStatus, hp: Mapping[str, Any]) -> Iterator[Part]:
    rows = [
        _row(course, one.number, one.values, one.holds) for course in axis.courses for one in course.rounds
    ]
    names = dict.fromkeys(name for course in axis.courses for one in course.rounds for name in one.values)
    lines = [name for name in names if len({row[name] for row in rows if is_finite(row.get(name))}) > 1]
    found = [(name, _chart(axis, name, _bound(axis, name, hp), rows)) for name in lines]
    if found:
        yield one_of(f"{axis.label}: show", found)


def _row(course: CourseStatus, number: int, values: Mapping[str, Any], holds: bool) -> dict[str, Any]:
    at = ", ".join(f"{name}={value}" for name, value in course.at.items())
    return {**values, "round": number, "holds": "yes" if holds else "no", "at": at}


def _chart(axis: AxisStatus, name: str, bound: float | None, rows: list[dict[str, Any]]) -> Plot:
    drawn: list[Row] = [{**row, "y": row[name] if is_finite(row.get(name)) else None} for row in rows]
    limits = [] if bound is None else [{"y": bound, "name": axis.condition}]
    y = Column(
        "y", name, kind_of([*(row["y"] for row in drawn), *(one["y"] for one in limits)], spaced=False)
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
        layers += [{"data": {"values": limits}} | one for one in (rule, label)]
    caption = f"{axis.label}: {name} by round"
    return figure(caption, columns, drawn, *layers, drawn=thinned(drawn, _ROUNDS))
