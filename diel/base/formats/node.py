"""The content of a file: arrays by name, with shape and type known before their items are read."""

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.base.terms import LIBRARIES, format_of, lacking, suffix_of

if TYPE_CHECKING:
    import numpy  # here: only data of this kind needs it

PIECE = 8 * 1024 * 1024
"""Bytes of an array that are read at a time."""


class BadData(Exception):
    """A file that is not what its name says, or lacks what is looked for in it."""


class FileArray(NamedTuple):
    """An array in a file, or a column of a table."""

    shape: tuple[int, ...]
    dtype: "numpy.dtype[Any]"
    pieces: Callable[[], Iterator[tuple[tuple[int, ...], Any]]]
    """Its items as arrays in their order, each with the place where it begins."""
    masked: Callable[[], Any] | None = None
    """All its items, if some can be missing, which are masked, and NaN in `pieces`, or be no double."""
    units: str = ""
    """As the file names them."""
    axes: tuple[str, ...] = ()
    """The names of its coordinates."""
    lost: tuple[str, Any] | None = None
    """The first number that is not written as in its file, as 1.1 for `1.10`."""

    @property
    def word(self) -> str:
        """The type of its items, as a contract names those of columns."""
        kinds = {"b": "bool", "i": "int", "u": "int", "f": "float", "S": "str", "U": "str", "T": "str"}
        return kinds.get(self.dtype.kind, self.dtype.name)

    def values(self) -> Any:
        """Return all its items as one array."""
        import numpy  # here: it is loaded with the library that reads the file

        pieces = [piece for _, piece in self.pieces()]
        if not pieces:
            return numpy.empty(self.shape, self.dtype)
        return pieces[0] if len(pieces) == 1 else numpy.concatenate(pieces).reshape(self.shape)


Content = FileArray | dict[str, FileArray]
"""An array, or what has columns: a table, a group of arrays, frames."""


def sliced(shape: tuple[int, ...], itemsize: int, read: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """Read an array by slices along its first sizes, so that none is much larger than a piece."""
    if not shape:
        yield (), read(())
        return
    row = itemsize
    for size in shape[1:]:
        row *= size
    if row > PIECE and len(shape) > 1:
        for place in range(shape[0]):
            inner = sliced(shape[1:], itemsize, partial(_read_within, read, place))
            yield from (((place, *start), piece[None]) for start, piece in inner)
        return
    step = max(1, PIECE // max(1, row))
    for start in range(0, shape[0], step):
        yield (start, *(0 for _ in shape[1:])), read((slice(start, start + step),))


def _read_within(read: Callable[[Any], Any], place: int, rest: tuple[Any, ...]) -> Any:
    return read((place, *rest))


@contextlib.contextmanager
def opened(path: str, inside: str | None = None, types: Mapping[str, str] | None = None) -> Iterator[Content]:
    """Open a file, or a place in it; `types` are declared. Raise BadData, also without its library."""
    file = os.path.basename(path)
    if missing := lacking(path):
        raise BadData(f"to read {file} takes {missing}")
    if suffix_of(path) not in LIBRARIES:
        parts = "is a directory: declare the files in it with `glob`, and read a list of them"
        raise BadData(
            f"{file} {parts if os.path.isdir(path) else 'has the suffix of no data that diel reads'}"
        )
    form, _, room, reader = LIBRARIES[suffix_of(path)]
    place = (types or {}) if form == "frames" else inside or "/"
    try:
        with getattr(importlib.import_module(f"diel.base.formats.{room}"), reader)(path, place) as content:
            yield content
    except BadData as error:
        raise BadData(f"{file}: {error}") from error
    except ImportError as error:
        raise BadData(f"{file}: its times take {error.name}: pip install 'diel[data]'") from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise BadData(f"{file} cannot be read: {error}") from error


def at(members: Mapping[str, Any], inside: str) -> Any:
    """Return a member of a file. Raise BadData with the members that there are."""
    try:
        return members[inside]
    except (KeyError, IndexError):
        has = ", ".join(list(members)[:20]) or "nothing"
        raise BadData(f"there is no '{inside}' in it; it has: {has}") from None


def rows_of(
    path: str, inside: str | None, columns: tuple[str, ...] | None, types: Mapping[str, str] | None = None
) -> tuple[list[Any], dict[str, tuple[str, Any]]]:
    """Return a table's rows, or an array's items, as JSON values; and `FileArray.lost`. Raise BadData."""
    with opened(path, inside, types) as content:
        if isinstance(content, FileArray):
            return _items("it", content), {}
        nodes = {name: at(content, name) for name in columns or _columns_of(content, format_of(path))}
        lengths = {name: node.shape[0] if node.shape else 0 for name, node in nodes.items()}
        if len(set(lengths.values())) > 1 or any(len(node.shape) != 1 for node in nodes.values()):
            has = ", ".join(f"{name} {list(node.shape)}" for name, node in nodes.items())
            raise BadData(f"its arrays are no columns of one table: {has}; name the `columns` to use")
        if not nodes and format_of(path) != "frames":
            raise BadData("there are no columns in it; name a place with an array or columns: FILE:/PLACE")
        lists = [_items(name, node) for name, node in nodes.items()]
        rows = [dict(zip(nodes, row, strict=True)) for row in zip(*lists, strict=True)]
        return rows, {name: node.lost for name, node in nodes.items() if node.lost}


def _columns_of(content: Mapping[str, FileArray], form: str | None) -> list[str]:
    """Return the columns: the arrays with one size; of frames, the arrays with one number for each."""
    flat = [name for name, array in content.items() if len(array.shape) == 1]
    return [name for name in flat if form != "frames" or not content[name].axes]


def _items(name: str, node: FileArray) -> list[Any]:
    """Return the items of an array as JSON values: null for those that are missing. Raise BadData."""
    array = node.values() if node.masked is None else node.masked()
    if not array.shape:
        raise BadData(f"{name} is one item, {array!s:.40}; expected a list of them")
    if array.dtype.kind == "M":
        import numpy  # here: it is loaded

        texts = numpy.datetime_as_string(array).tolist()
        plain = (text.rstrip("0").rstrip(".") if "." in text else text for text in texts)
        return [None if text == "NaT" else text for text in plain]
    items = array.tolist() if array.dtype.kind != "m" else list(array)
    try:
        return [_plain(item) for item in items]
    except TypeError as error:
        raise BadData(f"{name} holds {error}; expected numbers, texts or dates") from None


def _plain(item: Any) -> Any:
    """Return an item as a JSON value. Raise TypeError, with the item, for what cannot be one."""
    match item:
        case None | bool() | int() | float() | str():
            return item
        case bytes() if "�" not in (text := item.decode(errors="replace")):
            return text
        case Decimal():
            return int(item) if item == int(item) else float(item)
        case list() | tuple():
            return [_plain(part) for part in item]
        case dict():
            return {str(key): _plain(part) for key, part in item.items()}
    if hasattr(item, "isoformat"):  # a date or time, also one of a calendar that Python has not
        return item.isoformat()
    if getattr(item, "shape", ()):  # an array of its own length
        return [_plain(part) for part in item.tolist()]
    raise TypeError(f"{item!r:.60}")
