"""The form of incoming data: the keys of a JSON object, and their values.

Records of a journal and requests to a broker are millions, and nearly all as they should be. They are used
as they are, and the one at which something goes wrong is held to its form: that tells a damaged file or a
foreign request from a mistake of diel's own.
"""

from collections.abc import Callable, Mapping
from typing import Any

Check = tuple[str, Callable[[Any], bool]]
"""The expectation in words, and a test of a value."""
Form = Mapping[str, Check]
MOST = 2**53
"""The most tasks, items or bytes: JSON readers agree on numbers up to here."""
NOT_AS_IT_SHOULD_BE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError)
"""The errors of code that gets unexpected data."""


class Contradiction(ValueError):
    """A record contradicts earlier ones."""


def flaw_in(document: Mapping[str, Any], form: Form, optional: Form) -> str:
    """Return the flaw of an object's form; empty without any."""
    for key, (expected, is_that) in {**optional, **form}.items():
        if key in document:
            if not is_that(document[key]):
                return f"`{key}` is {repr(document[key])[:60]}: expected {expected}"
        elif key in form:
            return f"`{key}` is missing: expected {expected}"
    return ""


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST


def list_of(is_that: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_that, value))


TEXT: Check = ("a text", is_text)
COUNT: Check = ("a whole number", is_count)
NUMBER: Check = ("a number", lambda value: isinstance(value, (int, float)))
LIST: Check = ("a list", lambda value: isinstance(value, list))
COUNTS: Check = ("a list of whole numbers", list_of(is_count))
TEXTS: Check = ("a list of texts", list_of(is_text))
ANY: Check = ("a value", lambda value: True)
