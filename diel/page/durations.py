"""Times as a page says them: in the unit that fits, for a cell and for the axis of a chart."""

from __future__ import annotations

from typing import Any, NamedTuple

from diel.values import format_duration

LABELS = 130
"""Pixels for the names beside a chart, the same in all whose time axes stand above each other."""


def lasting(seconds: float) -> str:
    """`23 ms`, `4.1s`, `2h 5m`."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    return format_duration(seconds)


class Clock(NamedTuple):
    """The time axis of a run: since its beginning, in one unit."""

    begin: float
    end: float
    unit: str
    size: float
    """Seconds of the unit."""

    @classmethod
    def over(cls, begin: float, end: float) -> Clock:
        units = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))
        unit, size = next((one for one in units if end - begin > 2 * one[1]), ("seconds", 1.0))
        return cls(begin, max(end, begin + 1e-3), unit, size)

    def at(self, when: float) -> float:
        """A time on the axis."""
        return round((when - self.begin) / self.size, 5)

    def encoding(self, field: str, title: bool = True) -> dict[str, Any]:
        """The encoding of x: all charts with it show the same time."""
        axis = {"title": f"{self.unit} since the beginning" if title else None, "labelFlush": True}
        scale = {"domain": [0, self.at(self.end)], "nice": False}
        return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}
