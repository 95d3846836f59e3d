"""The key that was meant, where a file has one that no model knows."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from diel.errors import did_you_mean
from diel.load.nodes import Key
from diel.load.words import KEYS
from diel.spec.model import Model, WrittenAs


def unknown_hint(key: Key, root: type[Model]) -> str:
    """What to do about an unknown key: the one that was meant, where it belongs, or those that there are."""
    word, models = str(key[-1]), models_at(key[:-1], root)
    meant = meant_key(word, models, near=False)
    if meant:
        return f"did you mean '{meant}'?"
    below = _home_below(word, models)
    if below:
        return below
    meant = meant_key(word, models)
    return f"did you mean '{meant}'?" if meant else f"keys here: {', '.join(_keys(models))}"


def meant_key(word: str, models: Sequence[type[Model]], near: bool = True) -> str:
    """The key that a word stands for in these models; empty where none comes close."""
    known = _keys(models)
    lower = word.lower().replace("-", "_")
    for other in (lower, *KEYS.get(lower, ())):
        if other in known:
            return other
    if not near or _home_below(word, models):
        return ""
    return _quoted(did_you_mean(lower, known))


def _quoted(hint: str) -> str:
    match = re.search(r"'(.*)'", hint)
    return match.group(1) if match else ""


def _home_below(word: str, models: Sequence[type[Model]]) -> str:
    """Where a key belongs one level further down; empty where nowhere."""
    lower = word.lower().replace("-", "_")
    for model in models:
        for name, info in model.model_fields.items():
            label = info.alias or name
            for inner, named in _inner(info.annotation):
                keys = _keys([inner])
                # Below a name of the user's only the very word counts: others stand for too many things.
                for other in (lower, *(() if named else KEYS.get(lower, ()))):
                    if other in keys:
                        holder = f"{label}.NAME" if named else label
                        return f"'{other}' goes under `{holder}`: write {label}: {_example(other, named)}"
    return ""


def _example(word: str, named: bool) -> str:
    return f"{{NAME: {{{word}: …}}}}" if named else f"{{{word}: …}}"


def _keys(models: Iterable[type[Model]]) -> list[str]:
    return list(dict.fromkeys(i.alias or n for model in models for n, i in model.model_fields.items()))


def description(key: Key, root: type[Model]) -> str:
    """What the models say about a key."""
    for model in models_at(key[:-1], root):
        for name, info in model.model_fields.items():
            if key[-1] in (name, info.alias) and info.description:
                return f"{key[-1]}: {info.description}"
    return ""


def models_at(key: Key, root: type[Model]) -> list[type[Model]]:
    """The models that may stand at a key's path."""
    here: list[Any] = [root]
    for part in key:
        here = [child for one in here for child in _children(one, part)]
    return [one for one in here if isinstance(one, type) and issubclass(one, Model)]


def _children(kind: Any, part: str | int) -> Iterator[Any]:
    if isinstance(kind, type) and issubclass(kind, Model):
        for name, info in kind.model_fields.items():
            if part in (name, info.alias):
                yield from _branches(info.annotation)
    elif get_origin(kind) in (dict, tuple):
        arguments = get_args(kind)
        yield from _branches(arguments[1] if get_origin(kind) is dict else arguments[0])


def _branches(kind: Any) -> Iterator[Any]:
    """The types that a union, or an annotated type, stands for."""
    if get_origin(kind) is Annotated:
        kept, *said = get_args(kind)
        yield from _branches(next((one.model for one in said if isinstance(one, WrittenAs)), kept))
    elif get_origin(kind) in (Union, types.UnionType):
        for each in get_args(kind):
            yield from _branches(each)
    else:
        yield kind


def _inner(kind: Any) -> Iterator[tuple[type[Model], bool]]:
    """The models below a field, and whether each stands under a name of its own."""
    for branch in _branches(kind):
        if isinstance(branch, type) and issubclass(branch, Model):
            yield branch, False
        elif get_origin(branch) is dict:
            for value in _branches(get_args(branch)[1]):
                if isinstance(value, type) and issubclass(value, Model):
                    yield value, True
