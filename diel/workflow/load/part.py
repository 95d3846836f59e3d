"""Part of a workflow file, such as a stage: its values, and the place of each of its keys.

A part can be joined from several places and can have names that its file does not: `extends` and `include`
make such parts, and mistakes in them are told where they stand.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.errors import HintedError, did_you_mean
from diel.base.extensions import WORKFLOWS, entry_points_of
from diel.base.paths import shipped
from diel.workflow.expressions.expression import PLACES, Expression, ExpressionError
from diel.workflow.expressions.syntax import Chain, axes_in, chains_in
from diel.workflow.expressions.template import parse, parse_expression
from diel.workflow.load.nodes import Key, Source


class Edit(NamedTuple):
    """Characters of a text that were replaced: where they began, how many they were and are."""

    start: int
    old: int
    new: int


def renamed(text: str, names: Mapping[Chain, str], *, bare: bool = False) -> tuple[str, list[Edit]]:
    """Return a text with other names in its expressions, and the edits; `bare` text is an expression itself.
    `names` has what to write for the first parts of dotted names. A text that does not parse stays."""
    try:
        template = parse_expression(text) if bare else parse(text)
    except ExpressionError:
        return text, []  # the checker reports it
    spots = sorted((place for part in template.expressions for place in _places(part, names)), reverse=True)
    for start, old, name in spots:
        text = text[:start] + name + text[start + old :]
    return text, [Edit(start, old, len(name)) for start, old, name in reversed(spots)]


def place_before(place: int, edits: Iterable[Sequence[int]]) -> int:
    """Return the earlier place of a character of a renamed text: within a name, the name's beginning."""
    shift = 0
    for start, old, new in edits:
        if place < start + shift:
            break
        if place < start + shift + new:
            return start
        shift += new - old
    return place - shift


def _places(expression: Expression, names: Mapping[Chain, str]) -> Iterator[tuple[int, int, str]]:
    """Yield the names to replace: where they begin, how long they are, and what to write."""
    if expression.tree is None:
        name, count = _new_name(expression.chain, names)
        if count:
            yield expression.offset, len(".".join(expression.chain[:count])), name
        return
    axes = set(axes_in(expression.tree))
    for node, chain in chains_in(expression.tree):
        name, count = _new_name(chain, names)
        if node in axes:
            name, count = names.get((PLACES, ".".join(chain)), ""), len(chain)
        if name:
            for _ in range(len(chain) - count):
                assert isinstance(node, ast.Attribute | ast.Subscript)
                node = node.value
            assert isinstance(node, ast.expr)
            assert node.end_col_offset is not None
            whole = expression.source.encode()  # Python counts bytes
            start = len(whole[: node.col_offset].decode())
            yield expression.offset + start, len(whole[node.col_offset : node.end_col_offset].decode()), name


def _new_name(chain: Chain, names: Mapping[Chain, str]) -> tuple[str, int]:
    counts = (count for count in range(len(chain), 0, -1) if chain[:count] in names)
    return next(((names[chain[:count]], count) for count in counts), ("", 0))


class WrittenKey(NamedTuple):
    """Where a key is written, and what was replaced in its text since."""

    source: Source
    key: Key
    edits: tuple[list[Edit], ...] = ()
    names: tuple[Mapping[Chain, str], ...] = ()
    """The rounds of new names that its expressions got, in their order."""


@dataclass(frozen=True)
class Part:
    """Plain values, and the places of keys below it: a key without one is at the place of the key above."""

    data: Any
    places: Mapping[Key, WrittenKey]

    def place(self, key: Key) -> WrittenKey:
        """Return where a key is written."""
        for length in range(len(key), -1, -1):
            if key[:length] in self.places:
                above = self.places[key[:length]]
                return above._replace(key=(*above.key, *key[length:])) if key[length:] else above
        raise KeyError(key)

    def changed(self, change: Callable[[Key, str], tuple[str, list[Edit]]]) -> "Part":
        """Return the part with changed texts: `change` gets each with its key, and names with `*`."""
        places = dict(self.places)
        return Part(self._changed(self.data, (), (), change, places), places)

    def _changed(self, value: Any, key: Key, now: Key, change: Any, places: dict[Key, WrittenKey]) -> Any:
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
        changed = {}
        for name, item in value.items():
            new = change((*key, "*"), name)[0]
            if new != name or now != key:
                places[*now, new] = self.place((*key, name))
            changed[new] = self._changed(item, (*key, name), (*now, new), change, places)
        return changed


def merged(
    below: Mapping[str, Any], above: Mapping[str, Any], values: tuple[str, ...] = (), *, nulls: bool = False
) -> dict[str, Any]:
    """Join two mappings, the upper's values first; its `null` takes a key away, but for `values`, `nulls`."""
    combined = dict(below)
    for key, value in above.items():
        lower = combined.get(key)
        if isinstance(lower, dict) and isinstance(value, dict):
            combined[key] = merged(lower, value, nulls=nulls or key in values)
        elif value is None and key in combined and not nulls:
            del combined[key]
        else:
            combined[key] = value
    return combined


def joined(below: Part, above: Part, values: tuple[str, ...] = ()) -> Part:
    """Join two parts as `merged` joins their data; each key keeps its place."""
    data = merged(below.data, above.data, values)
    places: dict[Key, WrittenKey] = {}
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


class KeyLocations:
    """Tells where the keys of a whole file are written."""

    def __init__(self, parts: Mapping[tuple[str, str], Part]) -> None:
        self._parts = parts

    def __call__(self, key: Key, offset: int | None) -> tuple[Source, Key, int | None] | None:
        """Return the file and key, and the character, behind a place; None in the file itself."""
        written = self._written(key)
        if written is None:
            return None
        return written.source, written.key, offset and before(offset, written.edits)

    def renamed(self, key: Key, text: str) -> tuple[str, list[list[Edit]]]:
        """Return a text with the names that the part at its key got, and the rounds of edits."""
        written, rounds = self._written(key), []
        for names in () if written is None else written.names:
            text, edits = renamed(text, names)
            rounds.append(edits)
        return text, rounds

    def _written(self, key: Key) -> WrittenKey | None:
        part = self._parts.get((str(key[0]), str(key[1]))) if len(key) > 1 else None
        return None if part is None else part.place(key[2:])


def before(offset: int, edits: Sequence[Sequence[Sequence[int]]]) -> int:
    """Return the earlier place of a character, before several rounds of edits."""
    for edit in reversed(edits):
        offset = place_before(offset, edit)
    return offset


def _folders() -> dict[str, Path]:
    """Return the folder of workflows of each package, without importing it; packages around it are."""
    folders = {"diel": shipped("workflows")}
    for name, point in entry_points_of(WORKFLOWS).items():
        try:
            spec = find_spec(point.value)
        except ImportError:
            continue  # the package is gone, or broken
        for folder in (spec.submodule_search_locations if spec is not None else None) or ():
            folders.setdefault(name, Path(folder))
    return folders


def workflows() -> Iterator[tuple[str, Path]]:
    """Yield PACKAGE:NAME and the file of each workflow."""
    for package, folder in _folders().items():
        for path in sorted(folder.glob("*.yaml")):
            yield f"{package}:{path.stem}", path


def workflow_of(word: str) -> Path:
    """Return the file of PACKAGE:NAME. Raise HintedError where there is none."""
    available = dict(workflows())
    if word not in available:
        package = word.partition(":")[0]
        hint = did_you_mean(word, available) or "`diel init --list` lists them"
        packages = {name.partition(":")[0] for name in available}
        if package not in packages:
            raise HintedError(f"no installed package has workflows as '{package}'", hint)
        raise HintedError(f"'{package}' has no workflow '{word.partition(':')[2]}'", hint)
    return available[word]
