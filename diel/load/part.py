"""Part of a workflow file, such as a stage: what it holds, and where each key of that is written.

A part can be joined from several places and can have names that its file does not: `extends` and `include`
make such parts, and mistakes in them are told where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from diel.errors import HintedError, did_you_mean
from diel.expressions.expression import Chain
from diel.expressions.rename import Edit, place_before, renamed
from diel.extensions import WORKFLOWS, entry_points_of
from diel.load.nodes import Key, Source
from diel.paths import shipped


class Written(NamedTuple):
    """Where a key is written, and what was replaced in its text since."""

    source: Source
    key: Key
    edits: tuple[list[Edit], ...] = ()
    names: tuple[Mapping[Chain, str], ...] = ()
    """The names that its expressions got since, one set after the other."""


@dataclass(frozen=True)
class Part:
    """Plain values, and the places of keys below it: where a key has none, that of the key above counts."""

    data: Any
    places: Mapping[Key, Written]

    def place(self, key: Key) -> Written:
        """Where a key is written."""
        for length in range(len(key), -1, -1):
            if key[:length] in self.places:
                above = self.places[key[:length]]
                return above._replace(key=(*above.key, *key[length:])) if key[length:] else above
        raise KeyError(key)

    def changed(self, change: Callable[[Key, str], tuple[str, list[Edit]]]) -> Part:
        """Return the same with other texts: `change` gets each with its key, and names with `*`."""
        places = dict(self.places)
        return Part(self._changed(self.data, (), (), change, places), places)

    def _changed(self, value: Any, key: Key, now: Key, change: Any, places: dict[Key, Written]) -> Any:
        if isinstance(value, str):
            text, edits = change(key, value)
            if edits:
                place = self.place(key)
                places[now] = place._replace(edits=(*place.edits, edits))
            return text
        if isinstance(value, list):
            return [self._changed(item, (*key, i), (*now, i), change, places) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        found = {}
        for name, item in value.items():
            new = change((*key, "*"), name)[0]
            if new != name or now != key:
                places[*now, new] = self.place((*key, name))
            found[new] = self._changed(item, (*key, name), (*now, new), change, places)
        return found


def merged(
    below: Mapping[str, Any], above: Mapping[str, Any], values: tuple[str, ...] = (), *, nulls: bool = False
) -> dict[str, Any]:
    """Join two mappings, the upper's values first; its `null` takes a key away, but for `values`, `nulls`."""
    found = dict(below)
    for key, value in above.items():
        known = found.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            found[key] = merged(known, value, nulls=nulls or key in values)
        elif value is None and key in found and not nulls:
            del found[key]
        else:
            found[key] = value
    return found


def joined(below: Part, above: Part, values: tuple[str, ...] = ()) -> Part:
    """Two parts as `merged` joins their data; each key keeps its place."""
    data = merged(below.data, above.data, values)
    places: dict[Key, Written] = {}
    for key in _keys(data):
        owner = above if _has(above.data, key) else below
        places[key] = owner.place(key)
    return Part(data, places)


def _keys(value: Any, key: Key = ()) -> Iterator[Key]:
    yield key
    for name, item in value.items() if isinstance(value, dict) else ():
        yield from _keys(item, (*key, name))
    for place, item in enumerate(value) if isinstance(value, list) else ():
        yield from _keys(item, (*key, place))


def _has(value: Any, key: Key) -> bool:
    part: Any
    for part in key:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and part in range(len(value))
        ):
            value = value[part]
        else:
            return False
    return True


class Whereabouts:
    """Tells where the keys of a whole file are written."""

    def __init__(self, parts: Mapping[tuple[str, str], Part]) -> None:
        self._parts = parts

    def __call__(self, key: Key, offset: int | None) -> tuple[Source, Key, int | None] | None:
        """The file and key, and which character of a text was meant; None where it is the file itself."""
        written = self._written(key)
        if written is None:
            return None
        return written.source, written.key, offset and before(offset, written.edits)

    def renamed(self, key: Key, text: str) -> tuple[str, list[list[Edit]]]:
        """The text of a file that a key names, with the names that a text at that key got."""
        written, made = self._written(key), []
        for names in () if written is None else written.names:
            text, edits = renamed(text, names)
            made.append(edits)
        return text, made

    def _written(self, key: Key) -> Written | None:
        part = self._parts.get((str(key[0]), str(key[1]))) if len(key) > 1 else None
        return None if part is None else part.place(key[2:])


def before(offset: int, edits: Sequence[Sequence[Sequence[int]]]) -> int:
    """The place of a character before several rounds of edits."""
    for one in reversed(edits):
        offset = place_before(offset, one)
    return offset


def _folders() -> dict[str, Path]:
    """The folder of workflows of each package; none is imported, but for a package around it."""
    found = {"diel": shipped("workflows")}
    for name, point in entry_points_of(WORKFLOWS).items():
        try:
            spec = find_spec(point.value)
        except ImportError:
            continue  # an entry point of a package that is gone, or broken
        for folder in (spec.submodule_search_locations if spec is not None else None) or ():
            found.setdefault(name, Path(folder))
    return found


def workflows() -> Iterator[tuple[str, Path]]:
    """PACKAGE:NAME and the file of each workflow."""
    for package, folder in _folders().items():
        for path in sorted(folder.glob("*.yaml")):
            yield f"{package}:{path.stem}", path


def workflow_of(word: str) -> Path:
    """The file of PACKAGE:NAME. Raises HintedError where there is none."""
    known = dict(workflows())
    if word not in known:
        package = word.partition(":")[0]
        hint = did_you_mean(word, known) or "`diel init --list` lists them"
        packages = {name.partition(":")[0] for name in known}
        if package not in packages:
            raise HintedError(f"no installed package has workflows as '{package}'", hint)
        raise HintedError(f"'{package}' has no workflow '{word.partition(':')[2]}'", hint)
    return known[word]
