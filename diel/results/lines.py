"""The lines of a journal that hold certain bytes, found without looking at the others."""

from __future__ import annotations

import mmap
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

_STAGE = re.compile(rb'"stage":"([^"\\]*)"')


def lines_with(path: Path, needle: bytes) -> Iterator[bytes]:
    """The lines of a file that hold these bytes."""
    with _mapped(path) as data:
        at = data.find(needle)
        while at >= 0:
            end = data.find(b"\n", at)
            if end < 0:
                return  # a line that is not whole yet
            yield data[data.rfind(b"\n", 0, at) + 1 : end]
            at = data.find(needle, end)


def results_of(places: Iterable[tuple[str, int]]) -> re.Pattern[bytes]:
    """How the results of these tasks begin, each a stage and an index."""
    names = sorted(b'%s","index":%d' % (stage.encode(), index) for stage, index in places)
    return re.compile(rb'\{"event":"(?:done|cached)","stage":"' + _any_of(names) + b",")


def _any_of(words: Sequence[bytes]) -> bytes:
    """A pattern of sorted words that is tried letter by letter: of thousands, not each is tried."""
    ways = [
        re.escape(letter) + _any_of([word[1:] for word in these]) if letter else b""
        for letter, these in groupby(words, lambda word: word[:1])
    ]
    return ways[0] if len(ways) == 1 else b"(?:%s)" % b"|".join(ways)


def lines_of(path: Path, wanted: re.Pattern[bytes]) -> Iterator[bytes]:
    """The whole lines of a file that begin so."""
    with _mapped(path) as data:
        for met in wanted.finditer(data):
            at, end = met.start(), data.find(b"\n", met.end())
            if end >= 0 and (at == 0 or data[at - 1 : at] == b"\n"):
                yield data[at:end]


class LinesByStage:
    """Where the lines of a file are that name a stage: for many stages, as each would look at all lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        """Bytes that were looked at; the file may have grown since."""
        self._places: dict[bytes, array[int]] = {}
        """Where each line begins and ends, by stage."""

    def of(self, stage: str) -> Iterator[bytes]:
        if self._path.stat().st_size > self._read:
            self._look()
        places = self._places.get(stage.encode(), ())
        if places:
            with _mapped(self._path) as data:
                for at, end in zip(places[::2], places[1::2], strict=True):
                    yield data[at:end]

    def _look(self) -> None:
        with open(self._path, "rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # it is not whole yet
                at, self._read = self._read, self._read + len(line)
                for stage in set(_STAGE.findall(line)):
                    self._places.setdefault(stage, array("q")).extend((at, self._read - 1))


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""  # nothing to map
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
