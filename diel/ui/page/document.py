"""A run's panels as a document: one HTML file that needs no network, Markdown, or text for a terminal."""

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from html import escape as escaped
from importlib.metadata import version
from itertools import count
from pathlib import Path
from textwrap import fill
from typing import Any

from diel.base.errors import DielError
from diel.base.files import put
from diel.base.form import NOT_AS_IT_SHOULD_BE
from diel.base.values import bare, column_digits
from diel.observe.status.columns import MAX_ROWS, columns, markdown_table, plain, printable, shorten, width_of
from diel.observe.status.sections import SECTIONS, View
from diel.ui.page import panel as parts
from diel.ui.page.panel import RunView
from diel.ui.page.panels import ENTRIES, Public, panel_of, panels_of
from diel.ui.page.plot import SERIES, STATES


def panel_data(panel: parts.Panel) -> dict[str, Any]:
    """Return a panel as JSON, with a digest that tells whether it changed."""
    charts: Charts = {}
    html = panel_html(panel, charts)
    digest = hashlib.sha256(json.dumps([html, charts]).encode()).hexdigest()[:16]
    return {"name": panel.name, "title": panel.title, "html": html, "charts": charts, "digest": digest}


def page(view: RunView, live: str = "") -> str:
    """Return the page of a run. With `live`, an address to fetch its data from anew, it follows the run."""
    run = Public(view).text(view.paths.run_id) if view.public else view.paths.run_id
    state = "damaged" if view.readable is None else view.readable.state.value
    return document({"run": run, "state": state, "panels": list(map(panel_data, panels_of(view)))}, live)


def document(data: Mapping[str, Any], live: str = "") -> str:
    """Return the file for the data of a page."""
    style, code, library = _style(), _asset("page.js"), script()
    panels = data["panels"]
    shown = {
        "live": live,
        "version": data.get("version", 0),
        "colours": SERIES,
        "digests": {panel["name"]: panel["digest"] for panel in panels},
        "charts": {key: spec for panel in panels for key, spec in panel["charts"].items()},
    }
    run, state = escape(data["run"]), escape(data["state"])
    links = "".join(f'<a href="#{escape(entry["name"])}">{escape(entry["title"])}</a>' for entry in panels)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(live)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">',
            f'<title>{run} {state}</title><link rel="icon" href="data:,">',
            f"<style>{style}</style></head><body>",
            '<a class="skip" href="#main">Skip to the panels</a>',
            f'<header><h1>{run}</h1> <span class="badge s-{state}" id="state">{state}</span>',
            f'<nav aria-label="Panels">{links}</nav></header>',
            f'<main id="main">{"".join(panel["html"] for panel in panels)}</main>',
            f'<script type="application/json" id="data">{_embedded(shown)}</script>',
            f"<script>{library}</script>",
            f"<script>{code}</script>",
            "</body></html>\n",
        ]
    )


def _embedded(value: object) -> str:
    """Return JSON in a script element, escaped for that place."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def policy(live: str) -> str:
    """Return the policy of the page: it may load its own parts, by digest, and its own data."""
    style, code = _style(), " ".join(map(_digest, (script(), _asset("page.js"))))
    connect = " connect-src 'self';" if live else ""
    return (
        f"default-src 'none'; script-src {code}; style-src {_digest(style)}; img-src data:;{connect}"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


@cache
def _style() -> str:
    states = "".join(f".s-{name}{{--state:{colour}}}" for name, colour in STATES.items())
    return _asset("page.css") + states


def script() -> str:
    """Return the script, bundled in seconds and kept in the user's cache. Raise DielError without Vega."""
    try:
        import vl_convert  # an extra
    except ImportError as error:
        missing = "a page needs vl-convert-python: pip install 'diel[report]'"
        raise DielError(f"{missing} (without it, `diel report` prints the report in Markdown)") from error
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diel"
    path = cache / f"vega-{vl_convert.get_vega_version()}-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8")
    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed").replace("</script", "<\\/script")
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        put(path, text)
    return text


Charts = dict[str, Any]
"""Specifications by the id of the element that shows each."""
_LONG = 12
"""Rows of a table that are shown at once on the screen."""
_WORD = 12
"""Characters of a cell that stay in one line: `22.8 KiB`."""


def escape(text: str) -> str:
    """Return a text in HTML, without the colours that a program gave it for a terminal."""
    return escaped(bare(text))


def panel_html(panel: parts.Panel, charts: Charts) -> str:
    """Return a panel; its charts are added to `charts`."""
    writer = _Parts(panel.name, charts)
    inner = "".join(writer.html(part) for part in panel.parts)
    name = escape(panel.name)
    title = f'<h2 id="{name}-title">{escape(panel.title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{title}{inner}</section>'


class _Parts:
    def __init__(self, name: str, charts: Charts) -> None:
        self._charts, self._ids = charts, map(f"{name}-{{}}".format, count(1))

    def html(self, part: parts.Part) -> str:
        match part:
            case parts.Text():
                marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(part.text))
                return f'<p class="{part.tone or "text"}">{marked}</p>'
            case parts.Facts():
                return _facts(part)
            case parts.Grid():
                return table_html(part)
            case parts.Plot():
                return f"<figure>{self._chart(part)}</figure>"
            case parts.Alternatives():
                return self._choice(part)
            case parts.Picture():
                source = f"data:{part.media};base64,{base64.b64encode(part.data).decode()}"
                image = f'<img src="{source}" alt="{escape(part.alt)}">'
                return f'<figure class="picture">{image}{_caption(part.caption)}</figure>'
            case parts.Sketch():
                numbers = _numbers(part.table)
                drawing = f'<div class="drawing" {_scrolled(part.caption)}>{part.svg}</div>'
                return f"<figure>{_caption(part.caption)}{drawing}{numbers}</figure>"
            case parts.Log():
                text = f"<pre {_scrolled(part.caption)}>{escape(part.text)}</pre>"
                return f'<figure class="log">{_caption(part.caption)}{text}</figure>'

    def _chart(self, chart: parts.Plot) -> str:
        key = next(self._ids)
        self._charts[key] = _finite(chart.spec)
        label = escape(chart.caption)
        place = f'<div class="chart" id="{key}" role="img" aria-label="{label}"></div>'
        return f"{_caption(chart.caption)}{place}{_numbers(chart.table)}"

    def _choice(self, choice: parts.Alternatives) -> str:
        group = next(self._ids)
        options, figures = [], []
        for place, (name, chart) in enumerate(choice.charts):
            picked = " selected" if place == 0 else ""
            options.append(f'<option value="{place}"{picked}>{escape(name)}</option>')
            hidden = " hidden" if place else ""
            figures.append(f"<figure{hidden}>{self._chart(chart)}</figure>")
        select = f'<select id="{group}">{"".join(options)}</select>'
        label = f'<label for="{group}">{escape(choice.label)} {select}</label>'
        return f'<div class="choice">{label}{"".join(figures)}</div>'


def _caption(text: str) -> str:
    return f"<figcaption>{escape(text)}</figcaption>"


def _scrolled(name: str) -> str:
    """Return the attributes by which a keyboard scrolls an element and a screen reader names it."""
    return f'tabindex="0" role="group" aria-label="{escape(name)}"'


def _numbers(table: parts.Grid) -> str:
    summary = f'<summary aria-label="The numbers: {escape(table.caption)}">The numbers</summary>'
    return f"<details>{summary}{table_html(table)}</details>"


def _facts(facts: parts.Facts) -> str:
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.facts
    )
    return f'<dl class="{"figures" if facts.big else "facts"}">{rows}</dl>'


def table_html(table: parts.Grid) -> str:
    """Return a table; columns of numbers are aligned at their right."""
    cells = [*zip(*table.rows, strict=True)] or [()] * len(table.columns)
    kinds = [{type(cell) for cell in column if cell is not None} for column in cells]
    numeric = [bool(types) and types <= {int, float} for types in kinds]
    digits = column_digits(cells, parts.FEWEST)
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


def _right(right: bool) -> str:
    return ' class="number"' if right else ""


def _cells(row: Sequence[parts.Cell], numeric: Sequence[bool], digits: Sequence[int]) -> Iterator[str]:
    for place, cell in enumerate(row):
        begin, end = ("td", "td") if place else ('th scope="row"', "th")
        yield f"<{begin}{_right(numeric[place])}>{_cell(cell, digits[place])}</{end}>"


def _cell(cell: parts.Cell, digits: int) -> str:
    if isinstance(cell, parts.Bar):
        return _bar(cell)
    if isinstance(cell, str):
        return escape(cell if len(cell) > _WORD else cell.replace(" ", "\N{NO-BREAK SPACE}"))
    return parts.scalar_text(cell, digits)


def _bar(bar: parts.Bar) -> str:
    """Return a bar of shares as SVG: attributes, for a page without styles of elements."""
    at, bars = 0.0, []
    for name, share in bar.shares:
        width = 100 * max(0.0, min(1.0, share))
        bars.append(f'<rect class="s-{escape(name)}" x="{at:.2f}" width="{width:.2f}" height="8"></rect>')
        at += width
    box = 'class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"'
    return f"<span>{escape(bar.text)}</span><svg {box}>{''.join(bars)}</svg>"


def _finite(value: Any) -> Any:
    """Return a value with null in place of numbers that JSON lacks."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


MOST_ROWS = 200
LEFT_OUT = ("graph", "timeline", "cores", "reported", "artifacts", "hyperparameters", "provenance")
"""The panels that a report in Markdown is without: charts, files, and the run's text."""
LONGEST = 300


def panel_text(panel: parts.Panel, width: int) -> str:
    """Return the parts of a panel below each other, as text."""
    return "\n\n".join(_part_text(part, width) for part in panel.parts)


def _part_text(part: parts.Part, width: int) -> str:
    match part:
        case parts.Text():
            return fill(printable(part.text.replace("`", "")), width)
        case parts.Facts():
            return "\n".join(columns([(name, printable(value)) for name, value in part.facts]))
        case parts.Grid():
            return _table(part, part.caption, width)
        case parts.Plot() | parts.Sketch():
            return _table(part.table, part.caption, width)
        case parts.Alternatives():
            return _part_text(part.charts[0][1], width)
        case parts.Log():
            return "\n".join([part.caption, *(f"  {printable(line)}" for line in part.text.splitlines())])
        case parts.Picture():
            return f"{part.caption}: `diel view --web` shows it"


def _table(grid: parts.Grid, caption: str, width: int) -> str:
    """Return rows of cells. Too wide for the screen, each row is a paragraph that names its cells."""
    rows, more = _texts(grid, MOST_ROWS)
    numbers = [
        place for place, cell in enumerate(grid.rows[0] if rows else ()) if isinstance(cell, int | float)
    ]
    lines = columns([[*grid.columns], *rows], numbers) if rows else []
    if any(width_of(line) > width for line in lines):
        lines = []
        for head, *cells in rows:  # `simulate: kind analysis · mean 2.1 s`; empty cells are left out
            facts = " · ".join(f"{n} {cell}" for n, cell in zip(grid.columns[1:], cells, strict=True) if cell)
            lines.append(fill(f"{head}: {facts}", width, subsequent_indent="    "))
    return "\n".join([f"── {caption}", *lines, *([f"and {more:,} more"] if more else [])])


def report(view: RunView) -> str:
    """Return a report of a run in Markdown: panels of its page, and what a status says besides."""
    lines = []
    with suppress(DielError, *NOT_AS_IT_SHOULD_BE):  # the panels say what cannot be read
        lines = [plain(text), ""] if (text := view.run.workflow.description) else []
    for entry in ENTRIES:
        panel = None if entry.name in LEFT_OUT else panel_of(entry, view)
        if panel is not None:
            lines += [f"## {panel.title}", "", *_markdown(panel)]
    status = view.readable
    if status is None:
        return "\n".join([f"# {plain(view.paths.run_id)}: damaged", "", *lines])
    for section in SECTIONS:
        if section.noted and section.used(status):
            lines += [*(f"- {plain(line)}" for line in section.lines(status, View())), ""]
    return "\n".join([f"# {plain(status.run)}: {status.state}", "", *lines])


def _markdown(panel: parts.Panel) -> Iterator[str]:
    """Yield the parts of a panel; charts as their numbers where the panel has no table."""
    has_table = any(isinstance(part, parts.Grid) for part in panel.parts)
    for part in panel.parts:
        match part:
            case parts.Text():
                yield from (plain(part.text), "")
            case parts.Facts():
                yield from (*(f"- {name}: {plain(value)}" for name, value in part.facts if value), "")
            case parts.Grid():
                yield from _markdown_grid(part)
            case parts.Plot() if not has_table:
                yield from _markdown_grid(part.table)
            case parts.Alternatives() if not has_table:
                yield from (line for _, chart in part.charts for line in _markdown_grid(chart.table))
            case parts.Log():
                lines = map(printable, part.text.splitlines())
                yield from (f"{plain(part.caption)}:", "", "```", *lines, "```", "")


def _markdown_grid(grid: parts.Grid) -> Iterator[str]:
    rows, more = _texts(grid, MAX_ROWS)
    yield from (f"{plain(grid.caption)}:", "", *markdown_table(grid.columns, rows))
    if more:
        yield from (f"and {more:,} more.", "")


def _texts(grid: parts.Grid, most: int) -> tuple[list[list[str]], int]:
    """Return the first rows of a table as texts, and how many more there are."""
    rows = grid.rows[:most]
    digits = column_digits([*zip(*rows, strict=True)], parts.FEWEST)
    return [[*map(_cell_text, row, digits)] for row in rows], grid.more + len(grid.rows) - len(rows)


def _cell_text(cell: parts.Cell, digits: int) -> str:
    if isinstance(cell, parts.Bar):
        return printable(cell.text)
    return shorten(printable(cell), LONGEST) if isinstance(cell, str) else parts.scalar_text(cell, digits)
