"""Durations and sizes: text with a unit on one side, seconds and bytes on the other; numbers as floats."""

from __future__ import annotations

import math
import re
from typing import Any

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_PART = rf"({_NUMBER})(ms|s|m|h|d)"
_CLOCK = r"(?:([0-9]{1,4})-)?([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])"
_SIZE = rf"({_NUMBER})\s*(B|[kKMGTP]i?B)"
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
MAX_DURATION = 366 * 86400.0
MAX_SIZE = 2**60


def as_float(number: float) -> float:
    """A number as a float; infinity where it is a whole number beyond what a float holds."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def parse_duration(value: Any) -> float:
    """Seconds of `90s`, `10m`, `1h30m`, `01:30:00` or `1-12:00:00` (days-hours:minutes:seconds).

    Raises ValueError where there is no unit, and beyond 366 days.
    """
    if _bare(value):
        raise ValueError(f"found {_short(value)} without a unit; write {value}s, {value}m or {value}h")
    if not isinstance(value, str):
        raise ValueError(f"expected a duration such as 90s, 10m, 1h30m or 01:30:00, found {_short(value)}")
    text = value.strip()
    clock = re.fullmatch(_CLOCK, text)
    parts = re.findall(_PART, text)
    if clock:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        total = float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    elif parts and "".join(number + unit for number, unit in parts) == text:
        total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    else:
        raise ValueError(f"expected a duration such as 90s, 10m, 1h30m or 01:30:00, found {_short(value)}")
    if total > MAX_DURATION:
        raise ValueError(f"expected at most 366 days, found {_short(value)}")
    return total


def parse_size(value: Any) -> int:
    """Bytes of `512MiB`, `4GiB` (powers of 1024) or `4GB` (powers of 1000).

    Raises ValueError where there is no unit, and beyond 1 EiB.
    """
    if _bare(value):
        raise ValueError(f"found {_short(value)} without a unit; write {value}MiB or {value}GiB")
    match = re.fullmatch(_SIZE, value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected a size such as 512MiB or 4GiB, found {_short(value)}")
    number, unit = match.groups()
    base: int = 1024 if "i" in unit else 1000
    size: float = float(number) * base ** _POWERS.get(unit[0], 0)
    if size > MAX_SIZE:
        raise ValueError(f"expected at most 1 EiB, found {_short(value)}")
    return round(size)


def _bare(value: Any) -> bool:
    """Whether this is a number without a unit, short enough to be shown with one."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    digits = isinstance(value, str) and re.fullmatch(_NUMBER, value.strip()) is not None
    return (number or digits) and len(str(value)) < 19 and float(value) >= 0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def format_duration(seconds: float) -> str:
    """A duration for people: `0.4s`, `12s`, `3m05s`, `2h10m`, `3d04h`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def format_size(size: float) -> str:
    """A size for people: `512 B`, `1.4 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"
