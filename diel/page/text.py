"""Panels of the page without HTML: in text for a terminal, and in Markdown; of a chart the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from textwrap import fill

from diel.digits import column_digits
from diel.errors import DielError
from diel.form import NOT_AS_IT_SHOULD_BE
from diel.page.html import FEWEST, scalar_text
from diel.page.panel import (
    Alternatives,
    Bar,
    Cell,
    Facts,
    Grid,
    Log,
    Panel,
    Part,
    Picture,
    Plot,
    Sketch,
    Text,
)
from diel.page.panels import ENTRIES, panel_of
from diel.page.seen import Seen
from diel.status.columns import MAX_ROWS, columns, markdown_table, plain, printable, shorten, width_of
from diel.status.sections import SECTIONS, View

MOST_ROWS = 200
LEFT_OUT = ("graph", "timeline", "cores", "reported", "artifacts", "hyperparameters", "provenance")
"""The panels that a report in Markdown is without: charts, files, and the run's text."""
LONGEST = 300


def panel_text(panel: Panel, width: int) -> str:
    """Its parts below each other."""
    return "\n\n".join(_part_text(part, width) for part in panel.parts)


def _part_text(part: Part, width: int) -> str:
    match part:
        case Text():
            return fill(printable(part.text.replace("`", "")), width)
        case Facts():
            return "\n".join(columns([(name, printable(value)) for name, value in part.facts]))
        case Grid():
            return _table(part, part.caption, width)
        case Plot() | Sketch():
            return _table(part.table, part.caption, width)
        case Alternatives():
            return _part_text(part.charts[0][1], width)
        case Log():
            return "\n".join([part.caption, *(f"  {printable(line)}" for line in part.text.splitlines())])
        case Picture():
            return f"{part.caption}: `diel view --web` shows it"


def _table(grid: Grid, caption: str, width: int) -> str:
    """Rows of cells; where they are wider than the screen each row is a paragraph that names its cells."""
    digits = column_digits([*zip(*grid.rows[:MOST_ROWS], strict=True)], FEWEST)
    rows = [[*map(_cell, row, digits)] for row in grid.rows[:MOST_ROWS]]
    numbers = [
        place for place, cell in enumerate(grid.rows[0] if rows else ()) if isinstance(cell, int | float)
    ]
    lines = columns([[*grid.columns], *rows], numbers) if rows else []
    if any(width_of(line) > width for line in lines):
        lines = [fill(_sentence(grid.columns, row), width, subsequent_indent="    ") for row in rows]
    more = grid.more + len(grid.rows) - len(rows)
    return "\n".join([f"── {caption}", *lines, *([f"and {more:,} more"] if more else [])])


def report(seen: Seen) -> str:
    """A report of a run in Markdown: panels of its page, and what a status says besides."""
    lines = []
    with suppress(DielError, *NOT_AS_IT_SHOULD_BE):  # the panels say what cannot be read
        lines = [plain(text), ""] if (text := seen.run.workflow.description) else []
    for entry in ENTRIES:
        panel = None if entry.name in LEFT_OUT else panel_of(entry, seen)
        if panel is not None:
            lines += [f"## {panel.title}", "", *_markdown(panel)]
    status = seen.readable
    if status is None:
        return "\n".join([f"# {plain(seen.paths.run_id)}: damaged", "", *lines])
    for section in SECTIONS:
        if section.noted and section.used(status):
            lines += [*(f"- {plain(line)}" for line in section.lines(status, View())), ""]
    return "\n".join([f"# {plain(status.run)}: {status.state}", "", *lines])


def _markdown(panel: Panel) -> Iterator[str]:
    """Its parts; charts as their numbers where it has no table."""
    has_table = any(isinstance(part, Grid) for part in panel.parts)
    for part in panel.parts:
        match part:
            case Text():
                yield from (plain(part.text), "")
            case Facts():
                yield from (*(f"- {name}: {plain(value)}" for name, value in part.facts if value), "")
            case Grid():
                yield from _markdown_grid(part)
            case Plot() if not has_table:
                yield from _markdown_grid(part.table)
            case Alternatives() if not has_table:
                yield from (line for _, chart in part.charts for line in _markdown_grid(chart.table))
            case Log():
                yield from (
                    f"{plain(part.caption)}:",
                    "",
                    "```",
                    *map(printable, part.text.splitlines()),
                    "```",
                    "",
                )


def _markdown_grid(grid: Grid) -> Iterator[str]:
    rows = grid.rows[:MAX_ROWS]
    digits = column_digits([*zip(*rows, strict=True)], FEWEST)
    yield from (f"{plain(grid.caption)}:", "")
    yield from markdown_table(grid.columns, [[*map(_cell, row, digits)] for row in rows])
    if more := grid.more + len(grid.rows) - len(rows):
        yield from (f"and {more:,} more.", "")


def _sentence(names: Sequence[str], row: Sequence[str]) -> str:
    """`simulate: kind analysis · mean 2.1 s`; empty cells are left out."""
    told = [f"{name} {cell}" for name, cell in zip(names[1:], row[1:], strict=True) if cell]
    return f"{row[0]}: {' · '.join(told)}"


def _cell(cell: Cell, digits: int) -> str:
    if isinstance(cell, Bar):
        return printable(cell.text)
    return shorten(printable(cell), LONGEST) if isinstance(cell, str) else scalar_text(cell, digits)
