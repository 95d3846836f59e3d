"""A run in a notebook: as its page, or as a small card, and while `diel.run` waits for it."""

import sys
import time
from collections.abc import Callable
from html import escape

from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.store.journal.history import History

PAUSE = 0.5
"""Seconds between two looks at a run that goes on."""
WIDTH = 160
"""Of a stage's bar, in pixels."""
HEIGHT = 640
"""Of a page, in pixels; it scrolls."""
_COLOURS = (("cached", "#56b4e9"), ("done", "#009e73"), ("failed", "#d55e00"), ("running", "#0072b2"))


def shown(paths: RunPaths, state: str, history: History) -> str:
    """Return a run as HTML: its page, in a frame of its own; the card where the page's library is absent."""
    # Read only where a run is shown: the page takes what plans and draws.
    from diel.ui.page.document import page
    from diel.ui.page.panel import RunView

    try:
        inner = page(RunView(paths))
    except DielError:
        return card(paths.run_id, state, history)
    style = f"width:100%;height:{HEIGHT}px;border:1px solid #8888"
    alone = f'<iframe title="{escape(paths.run_id)}" sandbox="allow-scripts allow-popups" '
    return f'{alone}srcdoc="{escape(inner)}" style="{style}"></iframe>'


def card(run: str, state: str, history: History) -> str:
    """Return a run as a small table: a row for each stage that is known, with how its tasks stand."""
    rows = "".join(_row(name, stage.counts()) for name, stage in history.stages.items())
    head = "<tr><th style='text-align:left'>stage</th><th></th><th style='text-align:left'>tasks</th></tr>"
    return f"<b>{escape(run)}</b> {escape(state)}<table>{head}{rows}</table>"


def _row(name: str, counts: dict[str, int]) -> str:
    total = sum(counts.values())
    box = "display:inline-block;height:10px"
    parts = "".join(
        f'<span style="{box};width:{WIDTH * counts[state] / total:.1f}px;background:{colour}"></span>'
        for state, colour in _COLOURS
        if total and counts[state]
    )
    bar = f'<span style="display:inline-block;width:{WIDTH}px;background:#8883;line-height:0">{parts}</span>'
    good = counts["done"] + counts["cached"]
    rest = (f"{n:,} {state}" for state, n in counts.items() if n and state not in ("done", "cached"))
    summary = "; ".join((f"{good:,} of {total:,} done", *rest))
    return (
        f"<tr><td style='text-align:left'>{escape(name)}</td><td>{bar}</td>"
        f"<td style='text-align:left'>{summary}</td></tr>"
    )


def watcher(run: str) -> Callable[[History], None] | None:
    """Return a display of a run's progress, which its controller calls; None outside of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if not hasattr(shell, "kernel"):  # a terminal has none
        return None
    from IPython.display import HTML, display  # there already, as this is one

    held = display(HTML(f"<b>{escape(run)}</b>"), display_id=True)
    next_look = 0.0

    def look(history: History) -> None:
        nonlocal next_look
        state = history.state
        if held is not None and (state.ended or time.monotonic() >= next_look):
            held.update(HTML(card(run, state, history)))
            next_look = time.monotonic() + PAUSE

    return look
