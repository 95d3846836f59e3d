"""Colours that mean something, the same in charts, bars and drawings.

After Okabe and Ito, whose palette those tell apart who do not see red or green.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

STATES = {
    "done": "#009e73",
    "cached": "#56b4e9",
    "running": "#0072b2",
    "queued": "#b3cde3",
    "ready": "#b3cde3",
    "waiting": "#c4c8cc",
    "failed": "#d55e00",
    "lost": "#e69f00",
    "skipped": "#9aa0a6",
    "cancelled": "#9aa0a6",
    "succeeded": "#009e73",
    "damaged": "#d55e00",
    "interrupted": "#e69f00",
    "pending": "#c4c8cc",
}
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#7a5195", "#7f7f7f")
"""For names without a meaning of their own: stages, trials."""
_NAMED = 24
"""Stages in a legend; a pointer tells the others."""
_SHORT = "length(datum.label) > 20 ? slice(datum.label, 0, 9) + '…' + slice(datum.label, -9) : datum.label"
"""Long names often begin alike: their ends stay."""


def stage_colour(stages: Sequence[str], shown: Sequence[str] | None = None) -> dict[str, Any]:
    """The encoding of stages by colour: the same for a stage in each chart of a run."""
    scale = {"domain": list(stages), "range": [_shade(place) for place in range(len(stages))]}
    names = list(stages if shown is None else shown)[:_NAMED]
    legend = {"title": None, "labelExpr": _SHORT, "values": names}
    return {"field": "stage", "type": "nominal", "scale": scale, "legend": legend}


def _shade(place: int) -> str:
    """A colour of the series; once these are used up, the same ones lighter, then greyer."""
    turn, place = divmod(place, len(SERIES))
    if not turn % 3:
        return SERIES[place]
    other = 255 if turn % 3 == 1 else 96  # darker ones would be lost on a dark ground
    parts = (int(SERIES[place][at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{(part + other) // 2:02x}" for part in parts)


def state_scale(*states: str) -> dict[str, Any]:
    """The scale of a colour encoding over states."""
    return {"domain": list(states), "range": [STATES[state] for state in states]}
