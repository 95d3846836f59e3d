"""The form of a record: whether it fits its type, checked only if the fold failed at it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

from diel.base.form import Contradiction
from diel.store.journal import records

KINDS = {get_args(get_type_hints(kind)["event"])[0]: kind for kind in get_args(records.Record)}
"""The type of a record, by its event."""
_WORDS = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}


def flaw_of(record: Mapping[str, Any]) -> str:
    """Say what is wrong with a record's form; empty if nothing is."""
    event = record["event"]
    if not isinstance(event, str):
        return f"`event` is {event!r:.60}: expected a text"
    flaw = _flaw_in(record, KINDS[event]) if event in KINDS else ""
    return f"a record of `{event}`: {flaw}" if flaw else ""


def refuse_damaged(segment: str, start: int, record: Mapping[str, Any]) -> None:
    """For whoever follows a journal: raises Contradiction before what is damaged gets into the fold."""
    if flaw := flaw_of(record):
        raise Contradiction(flaw)


def _flaw_in(document: Mapping[str, Any], kind: Any) -> str:
    for key, hint in get_type_hints(kind, include_extras=True).items():
        if key not in document and key in kind.__required_keys__:
            return f"`{key}` is missing: expected {_expected(hint)}"
        if key in document and not _fits(document[key], hint):
            return f"`{key}` is {repr(document[key])[:60]}: expected {_expected(hint)}"
    if "time" in kind.__optional_keys__ and "time" not in document:  # the ledger stamps it, not the writer
        return f"`time` is missing: expected {_expected(float)}"
    return ""


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a JSON value fits a type. Beside a type are its words or its bounds."""
    inner, origin = get_args(hint), get_origin(hint)
    if is_typeddict(hint):
        return isinstance(value, dict) and not _flaw_in(value, hint)
    if origin is None:
        return hint is Any or isinstance(value, (int, float) if hint is float else hint)
    if origin is Annotated:
        bounds = (bound for bound in inner[1:] if not isinstance(bound, str))
        measured = len(value) if isinstance(value, list) else value
        return _fits(value, inner[0]) and all(measured in bound for bound in bounds)
    if origin is Literal:
        return value in inner
    if origin is NotRequired:
        return _fits(value, inner[0])
    if origin is list:
        return isinstance(value, list) and all(_fits(item, inner[0]) for item in value)
    if origin is tuple:
        return isinstance(value, list) and len(value) == len(inner) and all(map(_fits, value, inner))
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values())
    return any(_fits(value, form) for form in inner)  # a union


def _expected(hint: Any) -> str:
    inner, origin = get_args(hint), get_origin(hint)
    if origin is Annotated:
        return next((word for word in inner[1:] if isinstance(word, str)), "") or _expected(inner[0])
    if origin is NotRequired:
        return _expected(inner[0])
    if origin in (list, tuple):
        return f"a list, each {_expected(inner[0])}" if origin is list else "a list"
    return _WORDS.get(hint, "another value" if inner and origin is not dict else "an object")
