"""What a page is made of: panels, and their parts. Plain data: no part knows HTML.

A function for each panel yields its parts from a run, and nothing if the run has nothing for it.
`diel.page.panels.ENTRIES` lists them all, in the order of the page.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from diel.page.run_view import RunView
from diel.values import grouped_text

FEWEST = 5
"""Significant digits of a number in a table or chart, where they tell it apart."""


class Bar(NamedTuple):
    """A cell with a small bar: shares of one whole, each with the name of its state or tone."""

    shares: Sequence[tuple[str, float]]
    text: str
    """What it says, for those who do not see it: it stands beside the bar."""


Cell = str | int | float | bool | None | Bar


def scalar_text(cell: float | None, digits: int) -> str:
    """Return a cell that is no text: a number in so many digits, yes or no, or nothing."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case _:
            return grouped_text(cell, digits)


class Text(NamedTuple):
    """A paragraph."""

    text: str
    tone: str = ""
    """`good`, `bad`, `note` (something is missing, or to be known), or nothing."""


class Facts(NamedTuple):
    """Names with their values, as in a head."""

    facts: Sequence[tuple[str, str]]
    big: bool = False
    """Whether they are figures that lead: few, and large."""


class Grid(NamedTuple):
    """Rows below columns; the first column names its row."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    more: int = 0
    """How many rows there are beyond these."""


class Plot(NamedTuple):
    """A chart as a specification of Vega-Lite, and its numbers. The page adds width, fonts and the colours of
    text and axes, for light and dark; the specification says the rest: data, marks, encodings, and colours
    that mean something (`diel.page.plot`)."""

    caption: str
    """What it shows, as a sentence."""
    spec: Mapping[str, Any]
    table: Grid


class Alternatives(NamedTuple):
    """Several charts of the same, of which the reader picks one; the first is shown."""

    label: str
    """What is chosen: `Shown as`."""
    charts: Sequence[tuple[str, Plot]]


class Picture(NamedTuple):
    """An image of the run."""

    caption: str
    alt: str
    media: str
    """`image/png` or `image/svg+xml`."""
    data: bytes


class Sketch(NamedTuple):
    """An SVG that diel drew, with the page's classes for its colours, and what it shows as a table."""

    caption: str
    svg: str
    table: Grid


class Log(NamedTuple):
    """Lines as a program wrote them."""

    caption: str
    text: str


Part = Text | Facts | Grid | Plot | Alternatives | Picture | Sketch | Log


class Panel(NamedTuple):
    """A section of the page."""

    name: str
    """For links: `stages`."""
    title: str
    parts: Sequence[Part]


class Entry(NamedTuple):
    """How a panel is made."""

    name: str
    title: str
    parts: Callable[[RunView], Iterable[Part]]
