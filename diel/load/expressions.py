"""Expressions in the axes of a workflow file, evaluated before the file is read; and where none may stand.

The sizes and values of axes may depend on hyperparameters, whose values are known before a run. What is
evaluated takes the place of its text, so that the models of axes see numbers and lists alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from diel.errors import MAX_PROBLEMS, did_you_mean
from diel.expressions import ExpressionError, Template, parse, plain
from diel.load.nodes import Key
from diel.spec import Hyperparameter
from diel.spec.model import found

_OPENING = re.compile(r"(?<!\$)\$\{\{")
_KEPT = re.compile(r"description|(search|loop)\.until|search\.(minimize|maximize|watch)(\.\d+)?")
"""Keys whose texts are read elsewhere, and refused there where they are wrong."""
_REFUSED = re.compile(
    r"from|(file\.)?columns(\.\d+)?|search\.(sampler|pruner|parameters)(\.\d+)?"
    r"|sample\.(method|parameters\.\d+|parameters\.\w+\.type)"
)
_ELSEWHERE = re.compile(
    r"(.*\.)?description|hyperparameters\.[^.]*\.when|stages\.[^.]*\.(command|params|env|files|when)(\..*)?"
    r"|stages\.[^.]*\.(inputs\.[^.]*\.initially(\..*)?|outputs\.[^.]*(\.path|\.glob)?)"
)
"""Keys outside of the axes whose texts are read for expressions, task by task."""
_HINT = (
    "expressions are read in command, params, env, files, outputs, when and initially, and hp.NAME in axes"
)


def stray(data: Any) -> Iterator[Key]:
    """The texts outside of axes that hold an expression where none is read."""
    for key, text in _texts({name: part for name, part in data.items() if name != "axes"}):
        if _OPENING.search(text) and not _ELSEWHERE.fullmatch(".".join(map(str, key))):
            yield key


STRAY = ("an expression where none is read", _HINT)


class Sizes:
    """The expressions of a file's axes."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        axes = data.get("axes")
        self._axes: Mapping[str, Any] = axes if isinstance(axes, dict) else {}
        self._data = data
        self.texts: dict[Key, str] = {}
        """Those that are evaluated, by key."""
        self.refused: list[Key] = []
        """Those that stand where none is read."""
        for key, text in _texts(self._axes):
            if "${{" not in text:
                continue
            place = ".".join(map(str, key[1:]))
            if _REFUSED.fullmatch(place):
                self.refused += [("axes", *key)] if _OPENING.search(text) else []
            elif not _KEPT.fullmatch(place):
                self.texts[("axes", *key)] = text

    def evaluated(
        self, known: Mapping[str, Hyperparameter], values: Mapping[str, Any]
    ) -> tuple[dict[Key, Any], dict[Key, ExpressionError]]:
        """What each gives, and what is wrong with others: with all, or with more than are shown."""
        made: dict[Key, Any] = {}
        wrong: dict[Key, ExpressionError] = {}
        for key, text in self.texts.items():
            try:
                template = parse(text)
                for chain in sorted(template.references):
                    self._check_name(chain, template, known, values)
                made[key] = plain(template.value({"hp": values}))
            except ExpressionError as error:
                wrong[key] = error
                if len(wrong) > MAX_PROBLEMS:
                    break
        return made, wrong

    def with_values(self, made: Mapping[Key, Any]) -> dict[str, Any]:
        """The data with what was evaluated in its place."""
        return {**self._data, "axes": _replaced(self._axes, made, ("axes",))}

    @cached_property
    def _set_later(self) -> dict[str, tuple[str, str]]:
        """The hyperparameters that a run sets: what does it, and what to do instead."""
        found: dict[str, tuple[str, str]] = {}
        for label, axis in self._axes.items():
            search = axis.get("search") if isinstance(axis, dict) else None
            for name in _listed(search.get("parameters")) if isinstance(search, dict) else ():
                hint = "take another hyperparameter for the axis"
                found.setdefault(str(name), (f"the search '{label}' sets", hint))
        stages = self._data.get("stages")
        for label, stage in stages.items() if isinstance(stages, dict) else ():
            for name in _listed(stage.get("publishes")) if isinstance(stage, dict) else ():
                hint = f"take another, or an axis `from: {label}.OUTPUT`"
                found.setdefault(str(name), (f"stage '{label}' publishes", hint))
        return found

    def _check_name(
        self,
        chain: tuple[str, ...],
        template: Template,
        known: Mapping[str, Hyperparameter],
        values: Mapping[str, Any],
    ) -> None:
        name = ".".join(chain)
        offset = max(0, template.text.find(name))
        if chain[0] != "hp" or len(chain) < 2:
            raise ExpressionError(
                f"an axis cannot read '{name}'", offset, "it reads hyperparameters: hp.NAME"
            )
        if chain[1] not in known:
            near = did_you_mean(chain[1], known) or f"hyperparameters: {', '.join(known) or 'none'}"
            raise ExpressionError(f"no hyperparameter '{chain[1]}'", offset, near)
        if chain[1] in self._set_later:
            who, hint = self._set_later[chain[1]]
            raise ExpressionError(f"hp.{chain[1]} has no value before the run: {who} it", offset, hint)
        if chain[1] not in values:
            hint = f"give it a `default`, or a value by `--set hp.{chain[1]}=VALUE`"
            raise ExpressionError(f"hp.{chain[1]} has no value", offset, hint)


def standing(known: Mapping[str, Hyperparameter]) -> dict[str, Any]:
    """Values for whoever reads a file and asks for no sizes: one that fits, for each hyperparameter."""
    return {
        name: next(v for v in (one.default, one.high, one.low, *(one.choices or ()), 1) if v is not None)
        for name, one in known.items()
    }


def note(text: str, value: Any) -> str:
    """What an expression has given, for a message about a value that does not fit."""
    return f"{found(text)} gives {found(value)}"


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | dict) else []


def _texts(value: Any, key: Key = ()) -> Iterator[tuple[Key, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _texts(part, (*key, name))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _texts(part, (*key, place))


def _replaced(value: Any, made: Mapping[Key, Any], key: Key) -> Any:
    if key in made:
        return made[key]
    if isinstance(value, dict):
        return {name: _replaced(part, made, (*key, name)) for name, part in value.items()}
    if isinstance(value, list):
        return [_replaced(part, made, (*key, place)) for place, part in enumerate(value)]
    return value
