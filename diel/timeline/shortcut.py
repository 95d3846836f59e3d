"""A timeline kept beside the snapshot, so that a million tasks are read once. It can be made again."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from diel.files import put
from diel.paths import RunPaths
from diel.timeline.bins import Bins
from diel.timeline.lines import Began
from diel.timeline.span import Lane, Span
from diel.timeline.timeline import StageTimes, Timeline

VERSION = 1
SAVED = 20_000
"""Attempts that are worth a file: fewer are read as fast."""
_COUNTS = ("count", "failed", "seconds", "squares", "first", "last", "binned", "floor")
_PLAIN = ("origin", "width", "last", "offsets")


def read_timeline(paths: RunPaths) -> Timeline:
    """The timeline of a run now: what was kept of it, and what was appended since.

    Raises UsageError where the journal cannot be read.
    """
    timeline = load_timeline(paths) or Timeline(paths)
    if timeline.catch_up() >= SAVED:
        _save(timeline)
    return timeline


def _save(timeline: Timeline) -> None:
    """Writes it in one step; in a directory that is not the user's to write, there is none."""
    document = {
        "version": VERSION,
        **{name: getattr(timeline, name) for name in _PLAIN},
        "lanes": timeline.lanes,
        "of": timeline._of,
        "driven": [[epoch, *times] for epoch, times in timeline.driven.items()],
        "begun": {name: astuple(began) for name, began in timeline.begun.items()},
        "given_up": [[*task, when] for task, when in timeline.given_up.items()],
        "stages": {name: _packed(stage) for name, stage in timeline.stages.items()},
    }
    with suppress(OSError):
        put(timeline.paths.timeline, gzip.compress(json.dumps(document).encode(), 1))


def _packed(stage: StageTimes) -> dict[str, Any]:
    return {
        **{name: getattr(stage, name) for name in _COUNTS},
        "spans": [astuple(span)[1:] for span in stage.spans],
        "lasted": list(stage.lasted.items()),
        "lanes": [[lane, bins.packed()] for lane, bins in stage.lanes.items()],
    }


def load_timeline(paths: RunPaths) -> Timeline | None:
    """What was kept; None if that is missing, damaged, of another version, or of other segments."""
    try:
        document = json.loads(gzip.decompress(paths.timeline.read_bytes()))
        if document["version"] != VERSION:
            return None
        for name, offset in document["offsets"].items():
            if os.path.getsize(paths.journal / name) < offset:
                return None
        made = Timeline(paths, **{name: document[name] for name in _PLAIN})
        made.driven = {epoch: (began, last) for epoch, began, last in document["driven"]}
        made.lanes = [Lane(*lane) for lane in document["lanes"]]
        made._of = document["of"]
        made.begun = {name: Began(*began) for name, began in document["begun"].items()}
        made.given_up = {(stage, index, n): when for stage, index, n, when in document["given_up"]}
        made.stages = {name: _stage(name, packed) for name, packed in document["stages"].items()}
        return made
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _stage(name: str, packed: dict[str, Any]) -> StageTimes:
    made = StageTimes(**{one: packed[one] for one in _COUNTS})
    made.spans = [Span(name, *span) for span in packed["spans"]]
    made.lasted.update(dict(map(tuple, packed["lasted"])))
    made.lanes = {lane: Bins.unpacked(bins) for lane, bins in packed["lanes"]}
    return made
