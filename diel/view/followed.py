"""What a task prints and reports, followed while it does: files stay open, and only what is new is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from diel.errors import DielError
from diel.journal.segment import Reader
from diel.results.printed import PRINTED, find_output

FIRST = 1 << 18
"""Bytes at the end of a long file that are read at first."""
MOST = 1 << 20
"""Bytes that one look reads at most; the next one goes on."""


class Followed:
    """The files of a task's latest attempt. A worker moves them when the task ends; they stay open here."""

    def __init__(self, stage: str, index: int) -> None:
        self.stage, self.index = stage, index
        self.attempt = 0
        self.why = ""
        """Why there is nothing to read."""
        self._closed = False
        self._lock = threading.Lock()
        self._files: dict[str, BinaryIO] = {}
        self._torn: dict[str, bytes] = {}
        """The beginning of a line whose end is not yet there, by file."""

    def news(self, reader: Reader) -> list[tuple[str, str]]:
        """The new whole lines since the last call, each with its file: stdout, stderr, metrics."""
        with self._lock:  # a screen may close it while its thread is here
            return [] if self._closed else [*self._news(reader)]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._let_go()

    def _news(self, reader: Reader) -> Iterator[tuple[str, str]]:
        try:
            output = find_output(reader, self.stage, self.index)
            self.why = ""
        except (DielError, OSError) as error:
            self.why = str(error)
            return
        if output.attempt != self.attempt:
            yield from self._read()  # the end of the attempt before
            self._let_go()
            if self.attempt:
                yield "", f"attempt {output.attempt}"
            self.attempt = output.attempt
        for kind in (*PRINTED, "metrics"):
            if kind not in self._files:
                yield from self._open(kind, output.path(kind))
        yield from self._read()
        if output.state.ended:
            yield from ((kind, line.decode("utf-8", "replace")) for kind, line in self._torn.items() if line)
            self._torn.clear()

    def _open(self, kind: str, path: Path) -> Iterator[tuple[str, str]]:
        try:
            self._files[kind] = file = open(path, "rb")  # noqa: SIM115 - stays open
        except OSError:
            return
        size = os.fstat(file.fileno()).st_size
        if size > FIRST:
            file.seek(size - FIRST)
            file.readline()
            if kind != "metrics":
                yield kind, f"… {file.tell():,} bytes before this: `diel logs` shows all"

    def _read(self) -> Iterator[tuple[str, str]]:
        for kind, file in self._files.items():
            *lines, torn = (self._torn.get(kind, b"") + file.read(MOST)).split(b"\n")
            self._torn[kind] = torn
            yield from ((kind, line.decode("utf-8", "replace")) for line in lines)

    def _let_go(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._torn.clear()
