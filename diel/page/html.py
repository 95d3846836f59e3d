"""The parts of a panel as HTML. All text is escaped here, and nothing else is trusted but diel's drawings."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape as escaped
from typing import Any

from diel.digits import column_digits, grouped_text
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
from diel.values import bare

FEWEST = 5
"""Significant digits of a number in a table or chart, where they tell it apart."""
Charts = dict[str, Any]
"""Specifications by the id of the element that shows each."""
_LONG = 12
"""Rows of a table that are shown at once on the screen."""
_WORD = 12
"""Characters of a cell that stay in one line: `22.8 KiB`."""


def escape(text: str) -> str:
    """A text in HTML, without the colours that a program gave it for a terminal."""
    return escaped(bare(text))


def panel_html(panel: Panel, charts: Charts) -> str:
    """A panel; its charts are added to `charts`."""
    made = _Parts(panel.name, charts)
    inner = "".join(made.html(part) for part in panel.parts)
    name = escape(panel.name)
    title = f'<h2 id="{name}-title">{escape(panel.title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{title}{inner}</section>'


class _Parts:
    def __init__(self, name: str, charts: Charts) -> None:
        self._name, self._charts, self._count = name, charts, 0

    def html(self, part: Part) -> str:
        match part:
            case Text():
                return f'<p class="{part.tone or "text"}">{_marked(part.text)}</p>'
            case Facts():
                return _facts(part)
            case Grid():
                return table_html(part)
            case Plot():
                return f"<figure>{self._chart(part)}</figure>"
            case Alternatives():
                return self._choice(part)
            case Picture():
                source = f"data:{part.media};base64,{base64.b64encode(part.data).decode()}"
                image = f'<img src="{source}" alt="{escape(part.alt)}">'
                return f'<figure class="picture">{image}{_caption(part.caption)}</figure>'
            case Sketch():
                numbers = _numbers(part.table)
                drawing = f'<div class="drawing" {_scrolled(part.caption)}>{part.svg}</div>'
                return f"<figure>{_caption(part.caption)}{drawing}{numbers}</figure>"
            case Log():
                text = f"<pre {_scrolled(part.caption)}>{escape(part.text)}</pre>"
                return f'<figure class="log">{_caption(part.caption)}{text}</figure>'

    def _id(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _chart(self, chart: Plot) -> str:
        key = self._id()
        self._charts[key] = _finite(chart.spec)
        label = escape(chart.caption)
        place = f'<div class="chart" id="{key}" role="img" aria-label="{label}"></div>'
        return f"{_caption(chart.caption)}{place}{_numbers(chart.table)}"

    def _choice(self, choice: Alternatives) -> str:
        group = self._id()
        options, figures = [], []
        for place, (name, chart) in enumerate(choice.charts):
            picked = " selected" if place == 0 else ""
            options.append(f'<option value="{place}"{picked}>{escape(name)}</option>')
            hidden = " hidden" if place else ""
            figures.append(f"<figure{hidden}>{self._chart(chart)}</figure>")
        select = f'<select id="{group}">{"".join(options)}</select>'
        label = f'<label for="{group}">{escape(choice.label)} {select}</label>'
        return f'<div class="choice">{label}{"".join(figures)}</div>'


def _marked(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _caption(text: str) -> str:
    return f"<figcaption>{escape(text)}</figcaption>"


def _scrolled(name: str) -> str:
    """What makes an element one that the keyboard scrolls and a screen reader names."""
    return f'tabindex="0" role="group" aria-label="{escape(name)}"'


def _numbers(table: Grid) -> str:
    summary = f'<summary aria-label="The numbers: {escape(table.caption)}">The numbers</summary>'
    return f"<details>{summary}{table_html(table)}</details>"


def _facts(facts: Facts) -> str:
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.facts
    )
    return f'<dl class="{"figures" if facts.big else "facts"}">{rows}</dl>'


def table_html(table: Grid) -> str:
    """A table; columns of numbers are aligned at their right."""
    numeric = [_is_numeric(row[place] for row in table.rows) for place in range(len(table.columns))]
    digits = column_digits([*zip(*table.rows, strict=True)] or [()] * len(numeric), FEWEST)
    head = "".join(
        f'<th scope="col"{_right(right)}>{escape(name)}</th>'
        for name, right in zip(table.columns, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cells(row, numeric, digits))}</tr>" for row in table.rows)
    more = f'<p class="note">and {table.more:,} more</p>' if table.more else ""
    caption = escape(table.caption)
    long = " long" if len(table.rows) > _LONG else ""
    return (
        f'<div class="table{long}" {_scrolled(table.caption)}><table>'
        f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    )


def _is_numeric(cells: Iterable[Cell]) -> bool:
    kinds = {type(cell) for cell in cells if cell is not None}
    return bool(kinds) and kinds <= {int, float}


def _right(right: bool) -> str:
    return ' class="number"' if right else ""


def _cells(row: Sequence[Cell], numeric: Sequence[bool], digits: Sequence[int]) -> Iterator[str]:
    for place, (cell, right) in enumerate(zip(row, numeric, strict=True)):
        if place == 0:
            yield f'<th scope="row"{_right(right)}>{_cell(cell, digits[place])}</th>'
        else:
            yield f"<td{_right(right)}>{_cell(cell, digits[place])}</td>"


def _cell(cell: Cell, digits: int) -> str:
    if isinstance(cell, Bar):
        return _bar(cell)
    if isinstance(cell, str):
        return escape(cell if len(cell) > _WORD else cell.replace(" ", "\N{NO-BREAK SPACE}"))
    return scalar_text(cell, digits)


def scalar_text(cell: float | None, digits: int) -> str:
    """A cell that is no text: a number in so many digits, yes or no, or nothing."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case _:
            return grouped_text(cell, digits)


def _bar(bar: Bar) -> str:
    """A bar of shares as SVG: attributes, for a page without styles of elements."""
    at, parts = 0.0, []
    for name, share in bar.shares:
        width = 100 * max(0.0, min(1.0, share))
        parts.append(f'<rect class="s-{escape(name)}" x="{at:.2f}" width="{width:.2f}" height="8"></rect>')
        at += width
    box = 'class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"'
    return f"<span>{escape(bar.text)}</span><svg {box}>{''.join(parts)}</svg>"


def _finite(value: Any) -> Any:
    """The same without numbers that JSON lacks: they become null."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
