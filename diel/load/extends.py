"""Stages that extend others: each gets the keys of what it extends where it has none itself."""

from __future__ import annotations

from collections.abc import Mapping

from diel.errors import Problem, did_you_mean
from diel.load.part import Part, joined

Named = dict[tuple[str, str], Part]

_RUNS = {"module": ("command", "shell"), "command": ("module",)}
"""What else a stage does not take from another one if it says itself what runs."""
VALUES = ("params",)
"""Where `null` is a value."""
_LONGEST = 100


def overridden(below: Part, above: Part) -> Part:
    """A stage with the keys of another one where it has none; it alone says what runs, if it does."""
    if not isinstance(below.data, dict) or not isinstance(above.data, dict):
        return above
    gone = [key for own, others in _RUNS.items() if above.data.get(own) is not None for key in others]
    if isinstance(above.data.get("command"), list):
        gone.append("shell")
    kept = {key: value for key, value in below.data.items() if key not in {*gone, "extends"}}
    return joined(Part(kept, below.places), above, VALUES)


def extended(parts: Mapping[tuple[str, str], Part]) -> tuple[Named, list[Problem]]:
    """The parts of a workflow with whole stages and templates, and what is wrong with how these extend
    each other."""
    made = _Extended(parts)
    return {**parts, **made.whole}, made.problems


class _Extended:
    def __init__(self, parts: Mapping[tuple[str, str], Part]) -> None:
        self.problems: list[Problem] = []
        self.whole: Named = {}
        self._parts = parts = {key: part for key, part in parts.items() if key[0] in ("stages", "templates")}
        self._sections = {name: section for section, name in [*parts][::-1]}
        for name in (name for section, name in parts if section == "templates"):
            if ("stages", name) in parts:
                place = parts["templates", name].place(())
                message = f"'{name}' is both a stage and a template"
                self.problems.append(
                    place.source.problem(place.key, message, "rename one of them", at_key=True)
                )
        for key in parts:
            self._make(key, ())

    def _make(self, key: tuple[str, str], line: tuple[tuple[str, str], ...]) -> Part:
        """A stage or template with all that it extends; `line` has what extends it."""
        if key in self.whole:
            return self.whole[key]
        part, base = self._parts[key], self._base(key, line)
        if base is not None:
            part = overridden(self._make(base, (*line, key)), part)
        self.whole[key] = part
        if isinstance(part.data, dict) and isinstance(part.data.get("extends") or None, str):
            whole = {name: value for name, value in part.data.items() if name != "extends"}
            if base is None and not {"module", "command"} & whole.keys():
                whole["command"] = ["true"]  # what it lacks has been said
            self.whole[key] = part = Part(whole, part.places)
        return part

    def _base(self, key: tuple[str, str], line: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
        """What a stage extends; None, with a problem where it names something wrong, if nothing."""
        part = self._parts[key]
        name = part.data.get("extends") if isinstance(part.data, dict) else None
        if not isinstance(name, str) or not name:
            return None
        base = (self._sections.get(name, ""), name)
        if len(line) >= _LONGEST:
            self._complain(key, f"more than {_LONGEST} stages extend one another", "extend one further up")
            return None
        if base in (*line, key):
            circle = [one for _, one in (*line, key)]
            self._complain(
                key,
                "these extend each other in a circle",
                " → ".join([*circle[circle.index(name) :], name]) + "; drop one of the `extends`",
            )
            return None
        if base not in self._parts:
            known = [one for one in self._sections if one != key[1]]
            there = f"stages and templates: {', '.join(known) or 'no other'}"
            self._complain(key, f"no stage or template '{name}'", did_you_mean(name, known) or there)
            return None
        return base

    def _complain(self, key: tuple[str, str], message: str, hint: str) -> None:
        place = self._parts[key].place(("extends",))
        self.problems.append(place.source.problem(place.key, message, hint))
