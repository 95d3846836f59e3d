"""The panel of surrogates: which part of the tasks was answered, round by round, and what that saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diel.page.panel import Grid, Part, Plot, Text
from diel.page.plot import SERIES, Column, chart, table_of, tips
from diel.page.seen import Seen
from diel.results import RunReader
from diel.status.surrogate import answered_text, audit_texts, stays_lines, terms, trouble

BINS = 20
"""Parts of the tasks, in their order, where no loop divides them."""


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
    words: Sequence[tuple[str, int]] = (("answered", 0), ("simulated", 1))
    rows = [
        {
            "at": at,
            "how": how,
            "tasks": counts[at][place],
            "share": round(counts[at][place] / sum(counts[at]), 4),
        }
        for at in sorted(counts)
        for how, place in words
    ]
    x = Column("at", loop or "first task", "number", counts=True)
    how, tasks, share = (
        Column("how", "result", "name"),
        Column("tasks", "tasks", "number"),
        Column("share", "share", "number"),
    )
    paint = {"domain": ["answered", "simulated"], "range": [SERIES[4], SERIES[1]]}
    encoding = {
        "x": x.steps(),
        "y": {**share.axis(title="share of the tasks"), "stack": "zero", "axis": {"format": ".0%"}},
        "color": {**how.colour(), "scale": paint},
        "tooltip": tips([x, how, tasks, share]),
    }
    columns = [x, how, tasks, share]
    caption = f"{stage}: the part of its tasks that was answered instead of simulated, by {x.name}"
    spec = chart(columns, rows, {"mark": "bar", "encoding": encoding}, height=200)
    yield Plot(caption, spec, table_of(caption, columns, rows))
