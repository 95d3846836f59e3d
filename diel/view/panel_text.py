"""A panel of the page in text: its figures, tables and logs; of a chart the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from diel.digits import column_digits, grouped_text
from diel.page.html import FEWEST
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
from diel.status.columns import columns, printable, shorten, width_of

MOST_ROWS = 200
LONGEST = 300
"""Characters of a cell."""


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


def _sentence(names: Sequence[str], row: Sequence[str]) -> str:
    """`simulate: kind analysis · mean 2.1 s`; empty cells are left out."""
    told = [f"{name} {cell}" for name, cell in zip(names[1:], row[1:], strict=True) if cell]
    return f"{row[0]}: {' · '.join(told)}"


def _cell(cell: Cell, digits: int) -> str:
    match cell:
        case None:
            return ""
        case Bar():
            return printable(cell.text)
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return grouped_text(cell, digits)
        case _:
            return shorten(printable(cell), LONGEST)
