"""A snapshot: the fold of a journal up to some offset in each segment.

Reading a run is loading its snapshot and folding what was appended since; without a snapshot it is
folding everything. A snapshot is only ever a shortcut: losing one loses nothing.
"""

from __future__ import annotations

import base64
import json
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diel.errors import UsageError
from diel.files import put
from diel.form import NOT_AS_IT_SHOULD_BE
from diel.journal.axis_history import AxisFacts, AxisHistory, Course, Round, Trial, TrialState
from diel.journal.form import flaw_of
from diel.journal.history import History
from diel.journal.ranges import ranges, spread
from diel.journal.segment import Misfit, read_segment, segments
from diel.journal.stage_history import Attempt, StageHistory
from diel.journal.surrogate import unpacked
from diel.paths import RunPaths
from diel.states import RunState, TaskState

if TYPE_CHECKING:
    from diel.journal.records import Record

VERSION = 7
LATE = 60.0
"""Seconds after a block's end for which lines of its workers may still appear on a shared file system."""


@dataclass
class Reader:
    """A run's history and how far each of its segments has been read."""

    paths: RunPaths
    history: History = field(default_factory=History)
    offsets: dict[str, int] = field(default_factory=dict)
    _silent: set[str] = field(default_factory=set)
    """Segments that nothing is appended to any more: their blocks ended long ago."""
    _saved: dict[str, int] | None = None

    def catch_up(self, seen: Callable[[str, int, Record], None] | None = None) -> None:
        """Folds what was appended since the last time; `seen` is told each record and its place before.

        Raises UsageError at a record that is damaged, or of another diel.
        """
        for name in segments(self.paths.journal):
            if name in self._silent:
                continue
            path = self.paths.journal / name
            offset = self.offsets.get(name, 0)
            try:
                if os.path.getsize(path) <= offset:
                    if self._is_long_over(name):
                        self._silent.add(name)
                    continue
            except FileNotFoundError:
                continue
            worker = name if name.startswith("worker") else ""
            for start, end, record in read_segment(path, offset):
                self.offsets[name] = end
                if record is None:
                    continue
                try:
                    if seen is not None:
                        seen(name, start, record)
                    self.history.apply(record, worker)
                except (*NOT_AS_IT_SHOULD_BE, MemoryError) as error:
                    flaw = str(error) if isinstance(error, Misfit) else flaw_of(record)
                    if not flaw:
                        raise
                    raise UsageError(
                        f"the journal of {self.paths.run_id} is not one that this diel can read: "
                        f"{path}:{_line_at(path, start)}: {flaw}"
                    ) from error

    def _is_long_over(self, name: str) -> bool:
        """Whether a segment is of a worker whose block has ended, so long ago that no line is under way."""
        worker = self.history.workers.get(name)
        block = self.history.blocks.get(worker["block"]) if worker is not None else None
        ended = block.get("ended") if block is not None else None
        return ended is not None and time.time() - ended > LATE

    def save(self) -> None:
        """Writes the snapshot in one step, where there is anything new."""
        if self._saved == self.offsets:
            return
        document = {
            "version": VERSION,
            "offsets": self.offsets,
            "state": self.history.state,
            "epoch": self.history.epoch,
            "bundles": self.history.bundles,
            "began": self.history.began,
            "ended": self.history.ended,
            "uses": sorted(self.history.uses),
            "stages": {name: _pack(stage) for name, stage in self.history.stages.items()},
            "failures": list(self.history.failures.values()),
            "blocks": self.history.blocks,
            "workers": self.history.workers,
            "left": [[name, index, asdict(attempt)] for (name, index), attempt in self.history.left.items()],
            "silent": self.history.silent,
            "trouble": self.history.trouble,
            "staging": self.history.staging,
            "staging_told": self.history.staging_told,
            "axes": {
                label: {
                    "facts": None if axis.facts is None else asdict(axis.facts),
                    "courses": [asdict(course) for course in axis.courses.values()],
                }
                for label, axis in self.history.axes.items()
            },
        }
        put(self.paths.snapshot, json.dumps(document))
        self._saved = dict(self.offsets)


def _line_at(path: Path, offset: int) -> int:
    """The number of the line that begins at this byte."""
    with open(path, "rb") as file:
        return file.read(offset).count(b"\n") + 1


def read_run(paths: RunPaths, *, snapshot: bool = True) -> Reader:
    """A run as its files tell it now. Raises UsageError where its journal cannot be read."""
    reader = (_load(paths) if snapshot else None) or Reader(paths)
    reader.catch_up()
    return reader


def _load(paths: RunPaths) -> Reader | None:
    try:
        document = json.loads(paths.snapshot.read_text(encoding="utf-8", errors="surrogateescape"))
        if document["version"] != VERSION:
            return None
        history = History(
            stages={name: _unpack(stage) for name, stage in document["stages"].items()},
            failures={(r["stage"], r["tasks"][0][0]): r for r in document["failures"]},
            state=RunState(document["state"]),
            epoch=document["epoch"],
            bundles=document["bundles"],
            began=document["began"],
            ended=document["ended"],
            uses=set(document["uses"]),
            blocks=document["blocks"],
            workers=document["workers"],
            left={(name, index): _attempt(attempt) for name, index, attempt in document["left"]},
            silent=document["silent"],
            trouble=document["trouble"],
            staging=document["staging"],
            staging_told=document["staging_told"],
            axes={label: _axis(packed) for label, packed in document["axes"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return None  # a shortcut that is not there is not an error
    return Reader(paths, history, document["offsets"])


def _pack(stage: StageHistory) -> dict[str, Any]:
    return {
        "kind": stage.kind,
        "total": stage.total,
        "states": base64.b64encode(zlib.compress(bytes(stage.states), 1)).decode(),
        "parts": stage.parts,
        "void": stage.void,
        "under_way": {str(index): asdict(attempt) for index, attempt in stage.under_way.items()},
        "attempts": {str(index): number for index, number in stage.attempts.items()},
        "committed": {str(index): number for index, number in stage.committed.items()},
        "gone": {str(index): number for index, number in stage.gone.items()},
        "fenced": {str(index): number for index, number in stage.fenced.items()},
        "resources": {str(index): changed for index, changed in stage.resources.items()},
        "tolerated": {str(index): cause for index, cause in stage.tolerated.items()},
        "seconds": stage.seconds,
        "timed": stage.timed,
        "cached_seconds": stage.cached_seconds,
        "surrogate": None if stage.surrogate is None else asdict(stage.surrogate),
        "factors": stage.factors,
        "dropped": {output: ranges(sorted(tasks)) for output, tasks in stage.dropped.items()},
        "left_out": base64.b64encode(zlib.compress(bytes(stage.left_out), 1)).decode(),
    }


def _unpack(packed: dict[str, Any]) -> StageHistory:
    return StageHistory(
        kind=packed["kind"],
        total=packed["total"],
        states=bytearray(zlib.decompress(base64.b64decode(packed["states"]))),
        parts=packed["parts"],
        void=packed["void"],
        under_way={int(index): _attempt(attempt) for index, attempt in packed["under_way"].items()},
        attempts={int(index): number for index, number in packed["attempts"].items()},
        committed={int(index): number for index, number in packed.get("committed", {}).items()},
        gone={int(index): number for index, number in packed.get("gone", {}).items()},
        fenced={int(index): number for index, number in packed.get("fenced", {}).items()},
        resources={int(index): changed for index, changed in packed["resources"].items()},
        tolerated={int(index): cause for index, cause in packed["tolerated"].items()},
        seconds=packed["seconds"],
        timed=packed["timed"],
        cached_seconds=packed.get("cached_seconds", 0.0),
        surrogate=unpacked(packed["surrogate"]) if packed.get("surrogate") else None,
        factors=packed["factors"],
        dropped={output: set(spread(tasks)) for output, tasks in packed.get("dropped", {}).items()},
        left_out=bytearray(zlib.decompress(base64.b64decode(packed["left_out"]))),
    )


def _attempt(packed: dict[str, Any]) -> Attempt:
    state = TaskState(packed["state"])
    return Attempt(packed["number"], state, packed["time"], packed["worker"], packed["bundle"])


def _axis(packed: dict[str, Any]) -> AxisHistory:
    unpacked = [_course(course) for course in packed["courses"]]
    facts = None if packed["facts"] is None else AxisFacts(**packed["facts"])
    return AxisHistory({course.context: course for course in unpacked}, facts)


def _course(packed: dict[str, Any]) -> Course:
    trials = [_trial(trial) for trial in packed["trials"]]
    rounds = [Round(**one) for one in packed["rounds"]]
    return Course(**{**packed, "context": tuple(packed["context"]), "trials": trials, "rounds": rounds})


def _trial(packed: dict[str, Any]) -> Trial:
    reported = {int(step): value for step, value in packed["reported"].items()}
    return Trial(**{**packed, "state": TrialState(packed["state"]), "reported": reported})
