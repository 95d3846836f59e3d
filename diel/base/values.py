"""Values as text: YAML's plain words, durations, sizes, numbers; read for diel, and written for people.

Plain words are those of YAML 1.2's core schema (1.2.2, section 10.3.2), whatever a parser would make of them:
`1e-3` is a float; `no`, `on`, `01:00:00` and dates are text; `0o17` is 15 and `017` is 17.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice, pairwise
from json.encoder import c_make_encoder, encode_basestring, encode_basestring_ascii  # type: ignore[attr-defined]
from typing import Any, TypeGuard

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -~])")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST_WHOLE = 25
"""More digits than any 64-bit number needs, and few enough for int() to read at once."""
SMALLEST, LARGEST = -(2**63), 2**64 - 1
BEYOND = "a number beyond 1.8e308, the largest that a double holds"
BENEATH = "a number below 4.9e-324, the smallest above zero that a double holds"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_PART = rf"({_NUMBER})(ms|s|m|h|d)"
_CLOCK = r"(?:([0-9]{1,4})-)?([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])"
_SIZE = rf"({_NUMBER})\s*(B|[kKMGTP]i?B)"
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
MAX_DURATION = 366 * 86400.0
MAX_SIZE = 2**60
MOST_SHOWN = 6
"""Parameters of a task that are shown with its name."""
LEAST_DIGITS = 6
"""The fewest significant digits of a float, where fewer tell it apart too."""
MOST_DIGITS = 17
"""Digits that tell any two doubles apart; a text of so many is the shortest that gives the same float."""
_LARGEST_SHOWN = 1.7e308
_BARS = "▁▂▃▄▅▆▇█"


def resolve(text: str) -> Any:
    """Return the value of a plain scalar. Raise ValueError for one beyond 64 bits, or beyond a double."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    for pattern, base in ((_INTEGER, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(text):
            return _whole(text, base)
    return read_float(text) if _FLOAT.fullmatch(text) else text


def scalar(text: str) -> Any:
    """Return the value of a word, without spaces around it; the text itself for too large a number."""
    stripped = text.strip()
    try:
        value = resolve(stripped)
    except ValueError:
        return text
    return text if isinstance(value, str) else value


def cell_value(text: str, kind: str) -> Any:
    """Return a cell as int of 64 bits, float, bool or str, as others do: not `1_000`. Raise ValueError."""
    bare = text.strip()
    if kind == "str":
        return text
    if kind == "bool" and bare.lower() in _TRUTHS:
        return _TRUTHS[bare.lower()]
    if kind == "bool" or "_" in bare or not bare.isascii():
        raise ValueError(text)
    return _whole(str(int(bare)), 10) if kind == "int" else read_float(bare)


def read_float(text: str) -> float:
    """Return a number that Python can read, `nan` and `inf` too. Raise ValueError beyond a double."""
    value = float(text)
    if math.isinf(value) and "n" not in text.lower():
        raise ValueError(f"{BEYOND}: {text:.40}")
    if value == 0 and is_not_zero(text):
        raise ValueError(f"{BENEATH}: {text:.40}")
    return value


def is_not_zero(text: str) -> bool:
    """Return whether a number is another one than 0 as it is written, which a double may have lost."""
    return re.match(r"[^eE]*[1-9]", text) is not None


def read_json(text: str | bytes) -> Any:
    """Return a JSON value. Raise ValueError, also for a double key, and what no float or UTF-8 holds."""
    value = json.loads(text, parse_float=read_float, object_pairs_hook=unique)
    if "\\u" in text if isinstance(text, str) else b"\\u" in text:  # only an escape can give half a character
        utf_8(value)
    return value


def encoder(**form: Any) -> Callable[[Any], str]:
    """Return what writes JSON of a form: it makes once what `JSONEncoder.encode` makes at each call."""
    plain = json.JSONEncoder(**form)
    text = encode_basestring_ascii if plain.ensure_ascii else encode_basestring
    marks = plain.key_separator, plain.item_separator, plain.sort_keys, plain.skipkeys, plain.allow_nan
    write = c_make_encoder(None, plain.default, text, None, *marks)
    return lambda value: "".join(write(value, 0))


encode_ascii = encoder()
_encode_unicode = encoder(ensure_ascii=False)


def utf_8(value: Any) -> bytes:
    """Return a JSON value as text in UTF-8. Raise ValueError for impossible ones, as half of a pair."""
    try:
        return _encode_unicode(value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(f"no text in UTF-8 holds {error.object[error.start]!a}") from error


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping of pairs. Raise ValueError for a key that is there twice."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {json.dumps(twice)} is there twice")
    return mapping


def _whole(text: str, base: int) -> int:
    digits = text.lstrip("+-")[2:] if base != 10 else text.lstrip("+-")
    digits = digits.lstrip("0") or "0"
    if len(digits) <= _LONGEST_WHOLE:
        value = int(digits, base) * (-1 if text.startswith("-") else 1)
        if SMALLEST <= value <= LARGEST:
            return value
    raise ValueError(f"a whole number beyond 64 bits: {text:.40}")


def as_float(number: float) -> float:
    """Return a number as a float; infinity for a whole number that is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def is_finite(value: Any) -> TypeGuard[int | float]:
    """Return whether a value is a finite number that fits a float; truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(as_float(value))


def parse_duration(value: Any) -> float:
    """Return the seconds of `90s`, `10m`, `1h30m`, `01:30:00` or `1-12:00:00` (days-hours:minutes:seconds).
    Raise ValueError where there is no unit, and beyond 366 days."""
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
    """Return bytes of `512MiB` (1024) or `4GB` (1000). Raise ValueError without a unit, and beyond 1 EiB."""
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
    """Return whether this is a number without a unit, short enough to be shown with one."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    digits = isinstance(value, str) and re.fullmatch(_NUMBER, value.strip()) is not None
    return (number or digits) and len(str(value)) < 19 and float(value) >= 0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def format_duration(seconds: float) -> str:
    """Return a duration for people: `0.4s`, `12s`, `3m05s`, `2h10m`, `3d04h`."""
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


def clock(seconds: float) -> str:
    """Return a time since the epoch, as the clocks here show it."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"


def format_size(size: float) -> str:
    """Return a size for people: `512 B`, `1.4 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"


def column_digits(columns: Sequence[Iterable[Any]], least: int = LEAST_DIGITS) -> list[int]:
    """Return how many significant digits tell the numbers of each column from all others of the columns. What
    is no finite number is passed over."""
    owners: dict[float, set[int]] = {}
    for place, column in enumerate(columns):
        for value in column:
            if type(value) in (int, float) and abs(value) < _LARGEST_SHOWN:
                owners.setdefault(float(value), set()).add(place)
    digits = [least] * len(columns)
    for low, high in pairwise(sorted(owners)):
        for place in owners[low] | owners[high]:
            while digits[place] < MOST_DIGITS and f"{low:.{digits[place]}g}" == f"{high:.{digits[place]}g}":
                digits[place] += 1
    return digits


def digits_apart(numbers: Iterable[Any], least: int = LEAST_DIGITS) -> int:
    """Return how many significant digits tell these numbers apart."""
    return column_digits([numbers], least)[0]


def number_text(number: float, digits: int = MOST_DIGITS) -> str:
    """Return a float in so many significant digits, without zeros at its end; whole numbers keep all."""
    if type(number) is int:
        return str(number)
    text = repr(number) if digits >= MOST_DIGITS or not math.isfinite(number) else f"{number:.{digits}g}"
    whole = abs(number) < 1e15 and number == int(number)
    return f"{number:.0f}" if whole and float(text) != number else text


def grouped_text(number: float, digits: int = MOST_DIGITS) -> str:
    """Return a number as text, with commas between thousands from five digits on."""
    if not 1e4 <= abs(number) < 1e15:
        return number_text(number, digits)
    if digits >= MOST_DIGITS:
        return f"{number:,}".removesuffix(".0")
    after = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:,.{after}f}"
    return text.rstrip("0").rstrip(".") if after else text


def sparkline(values: Sequence[float | None]) -> str:
    """Return bars from the least value to the most; a dot where there is none, a cross for no finite one."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    bars = {value: _BARS[round((value - low) * scale) if scale else 3] for value in finite}
    return "".join("·" if value is None else bars.get(value, "×") for value in values)


def texts_apart(numbers: Sequence[float], least: int = LEAST_DIGITS) -> list[str]:
    """Return the texts of numbers that stand beside each other."""
    digits = digits_apart(numbers, least)
    return [number_text(number, digits) for number in numbers]


def value_text(value: Any, width: int = 32) -> str:
    """Return a value of a point: a float in fifteen digits, without the noise of binary; a long text cut."""
    if isinstance(value, float):
        near = float(f"{value:.15g}")
        return repr(value if math.isinf(near) else near)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(char if char.isprintable() else "�" for char in text[:width] + text[width:][-width:])
    return text if len(text) <= width else f"{text[: width // 2 - 1]}…{text[-width // 2 :]}"


def spelled(choices: Sequence[Any]) -> list[str]:
    """Return choices as texts: one in quotes that is spelled as another, which is a number or a truth."""
    plain = [value if isinstance(value, str) else json.dumps(value) for value in choices]
    twice = [isinstance(value, str) and plain.count(value) > 1 for value in choices]
    return [json.dumps(text) if quotes else text for text, quotes in zip(plain, twice, strict=True)]


def bare(text: str) -> str:
    """Return a program's text without its escape sequences: colours, titles, moves of a cursor."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def point_text(point: Mapping[str, Any]) -> str:
    """Return a point for people: `depth=2.5, seed=1`; of many parameters the first ones."""
    shown = [f"{name}={value_text(value)}" for name, value in islice(point.items(), MOST_SHOWN)]
    return ", ".join(shown + ["…"] * (len(point) > MOST_SHOWN))


def task_text(task: str, point: Mapping[str, Any] | None) -> str:
    """Return a task for people, by its point: `simulate/33 (depth=2.5, seed=1)`."""
    return f"{task} ({point_text(point)})" if point else task


def json_value(value: Any) -> Any:
    """Return a value in strict JSON, with texts for infinity and not-a-number."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list | tuple) else value
