"""A comparison of two runs as lines for people, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from diel.comparison.comparison import Contrast, OutputPair, Times, Unequal
from diel.digits import digits_apart, number_text
from diel.errors import counted
from diel.status.columns import columns, paint, printable
from diel.table import shown, texts
from diel.values import json_value

_COLOUR = {"slower": "red", "faster": "green"}
_SAID = {
    "scatter": "no more than scatter",
    "too few": "too few tasks to tell",
    "none": "nothing to compare",
}


def comparison_lines(found: Contrast) -> Iterator[str]:
    """All of it, each part under its name; parts without a difference in one line."""
    first, second = found.names
    yield from columns([["", first, second], *([one.name, *_both(one)] for one in found.facts)])
    yield from _differences("hyperparameters", found.names, found.hyperparameters)
    yield from _differences("versions and surroundings", found.names, found.versions)
    if found.workflow:
        yield from ("", paint("stages that are not the same", bold=True))
        yield from columns([[f"  {one.name}", _change(one, found.names)] for one in found.workflow])
    if any(any(one.tasks) or any(one.cached) for one in found.times):
        yield from ("", paint("times by stage", bold=True))
        yield from columns([_HEAD_OF_TIMES, *map(_row_of_times, found.times)], right=range(1, 6))
        yield paint(f"  {CAVEAT}", dim=True)
    if found.results:
        yield from ("", paint("results", bold=True))
        heads = ["  output", "tasks", "differ", "mean", "then", "change", "p", "largest difference"]
        yield from columns([heads, *rows_of_results(found.results)], right=range(1, 7))
    if found.notes:
        yield from ("", *(paint(f"not compared: {printable(note)}", fg="yellow") for note in found.notes))


def _both(one: Unequal) -> tuple[str, str]:
    return _value(one.first), _value(one.second)


def _value(value: Any) -> str:
    return "–" if value is None else shown(value)


def _differences(title: str, names: Sequence[str], found: Sequence[Unequal]) -> Iterator[str]:
    yield ""
    if not found:
        yield f"{title}: the same"
        return
    yield paint(title, bold=True)
    yield from columns([[f"  {printable(one.name)}", *_both(one)] for one in found])


def _change(one: Unequal, names: Sequence[str]) -> str:
    if isinstance(one.first, bool):
        return f"only in {names[0] if one.first else names[1]}"
    return ", ".join(one.first)


CAVEAT = "p knows how tasks of one run scatter, not how runs do: a busy machine looks like a difference"
_HEAD_OF_TIMES = ["  stage", "tasks", "median", "then", "ratio", "p", "95 % of ratio"]


def _row_of_times(one: Times) -> list[str]:
    before, after = one.median
    ratio, interval = one.ratio, one.interval
    said = paint(said_of(one), fg=_COLOUR.get(one.verdict))
    return [
        f"  {one.stage}",
        tasks_text(one),
        seconds_text(before),
        seconds_text(after),
        "" if ratio is None else f"{ratio:.3g}",
        p_text(None if one.shift is None else one.shift.p),
        (f"{interval[0]:.3g} to {interval[1]:.3g}: {said}" if interval else said),
    ]


def tasks_text(one: Times | OutputPair) -> str:
    """The tasks that were compared: `7 pairs`, or `13 and 15`, all with all."""
    return counted(one.matched, "pair") if one.matched else f"{one.tasks[0]:,} and {one.tasks[1]:,}"


def said_of(one: Times) -> str:
    """What a stage's times say, in words."""
    if one.shift is None and any(one.cached):
        return "taken from the cache"
    return _SAID.get(one.verdict, one.verdict)


def seconds_text(seconds: float | None) -> str:
    """Seconds in three digits, however few they are."""
    if seconds is None:
        return "–"
    return (
        f"{seconds * 1000:.3g}ms"
        if seconds < 1
        else f"{seconds:.3g}s"
        if seconds < 100
        else f"{seconds:,.0f}s"
    )


def p_text(p: float | None) -> str:
    """A probability for people."""
    return "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def rows_of_results(found: Sequence[OutputPair]) -> list[list[str]]:
    """Return a row for each output; means and differences in digits that tell them apart."""
    digits = digits_apart((one.largest[0] for one in found if one.largest), 4)
    means = texts([one.mean for one in found])
    return [_row_of_results(one, mean, digits) for one, mean in zip(found, means, strict=True)]


def _row_of_results(one: OutputPair, means: Sequence[str], digits: int) -> list[str]:
    largest = ""
    if one.largest is not None and one.largest[0]:
        most, where = one.largest
        largest = f"{'+' * (most > 0)}{number_text(most, digits)}{f' at {where}' if where else ''}"
    p = p_text(one.shift.p) if one.shift is not None and one.differ != 0 else ""
    differ = "" if one.differ is None else f"{one.differ:,}"
    answers = ", {} and {} answered by a model".format(*one.answered) if any(one.answered) else ""
    before, after = (mean or "–" for mean in means)
    head = [f"  {one.output}", tasks_text(one) + answers, differ, before, after]
    return [*head, change_text(*one.mean), p, largest]


def change_text(before: float | None, after: float | None) -> str:
    """Return how far one number is from another: a share of it; a tiny one is never shown as none."""
    if before is None or after is None or before == after:
        return ""
    share = 100 * (after - before) / abs(before) if before else math.inf
    if not math.isfinite(share):
        return f"{after - before:+.3g}"
    return f"{share:+.2f}%" if abs(share) >= 0.1 else f"{share:+.2g}%"


def slower_text(found: Contrast, by: float) -> str:
    """Which stages are slower by more than a share; empty if none is."""
    slow = found.slower(by)
    if not slow:
        return ""
    told = [f"{one.stage} by {_by(one)}" for one in slow]
    return (
        f"{counted(len(slow), 'stage')} slower in {found.names[1]} than in {found.names[0]}, by more than "
        f"{by:.0%}: {'; '.join(told)}"
    )


def _by(one: Times) -> str:
    if one.interval is None:
        return f"{(one.ratio or 1) - 1:.0%} (too few tasks for a test)"
    return f"{one.interval[0] - 1:.0%} to {one.interval[1] - 1:.0%}"


def comparison_document(found: Contrast) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "runs": list(found.names),
        "facts": _document(found.facts),
        "hyperparameters": _document(found.hyperparameters),
        "versions": _document(found.versions),
        "workflow": _document(found.workflow),
        "times": {one.stage: _times_document(one) for one in found.times},
        "results": {one.output: _result_document(one) for one in found.results},
        "notes": list(found.notes),
    }


def _document(found: Sequence[Unequal]) -> dict[str, Any]:
    return {one.name: [json_value(one.first), json_value(one.second)] for one in found}


def _times_document(one: Times) -> dict[str, Any]:
    return {
        "tasks": list(one.tasks),
        "cached": list(one.cached),
        "matched": one.matched,
        "median_s": list(one.median),
        "ratio": one.ratio,
        "interval": None if one.interval is None else list(one.interval),
        "p": None if one.shift is None else one.shift.p,
        "verdict": one.verdict,
    }


def _result_document(one: OutputPair) -> dict[str, Any]:
    shift = one.shift
    return {
        "tasks": list(one.tasks),
        "matched": one.matched,
        "differ": one.differ,
        "mean": list(one.mean),
        "difference": None if shift is None else shift.value,
        "interval": None if shift is None or shift.low is None else [shift.low, shift.high],
        "p": None if shift is None else shift.p,
        "largest": None if one.largest is None else {"difference": one.largest[0], "at": one.largest[1]},
    }
