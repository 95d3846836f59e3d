"""YAML 1.2's core schema: what a plain word means, whatever the parser would make of it.

`1e-3` is a float; `no`, `on`, `01:00:00` and dates are text; `0o17` is 15 and `017` is 17.
(YAML 1.2.2, section 10.3.2.)
"""

from __future__ import annotations

import math
import re
from typing import Any

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MOST_DIGITS = 25
"""More than any 64-bit number needs, and few enough for int() to read at once."""
SMALLEST, LARGEST = -(2**63), 2**64 - 1


def resolve(text: str) -> Any:
    """The value of a plain scalar.

    Raises ValueError for a whole number beyond 64 bits and a float beyond a double.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    for pattern, base in ((_INTEGER, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(text):
            return _whole(text, base)
    if _FLOAT.fullmatch(text):
        return _float(text)
    return text


def scalar(text: str) -> Any:
    """What a plain word means; the text itself where it is no number that a computer holds.

    Spaces around a number are ignored, as in a CSV's cells.
    """
    stripped = text.strip()
    try:
        value = resolve(stripped)
    except ValueError:
        return text
    return text if isinstance(value, str) else value


def _whole(text: str, base: int) -> int:
    digits = text.lstrip("+-")[2:] if base != 10 else text.lstrip("+-")
    digits = digits.lstrip("0") or "0"
    if len(digits) <= _MOST_DIGITS:
        value = int(digits, base) * (-1 if text.startswith("-") else 1)
        if SMALLEST <= value <= LARGEST:
            return value
    raise ValueError("a whole number beyond 64 bits")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number beyond 1.8e308, the largest that a double holds")
    return value
