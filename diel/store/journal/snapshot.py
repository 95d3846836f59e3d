"""Reading a run: its snapshot is loaded, and what was appended since is folded in.

Without a snapshot everything is folded: losing one loses nothing. `History.packed` writes it.
"""

import base64
import json
import zlib
from dataclasses import fields
from typing import Any

from diel.base.paths import RunPaths
from diel.base.states import RunState, TaskState, TrialState
from diel.store.journal.axis_history import AxisFacts, AxisHistory, Course, Round, Trial
from diel.store.journal.history import VERSION, History
from diel.store.journal.segment import DamagedRecord, Reader
from diel.store.journal.stage_history import Attempt, StageHistory, spread
from diel.store.journal.surrogate import unpacked

_BY_TASK = [field.name for field in fields(StageHistory) if str(field.type).startswith("dict[int,")]
"""What a stage's history has by the index of a task, which is a text in JSON."""
MOST_FLAWS = 20
"""Damaged records of a journal, of which the rest is read all the same."""


def read_run(paths: RunPaths, *, snapshot: bool = True) -> Reader:
    """Return a run as its files show it now. Raise UsageError if its journal cannot be read."""
    reader = (_load(paths) if snapshot else None) or Reader(paths, History())
    reader.catch_up()
    return reader


def look_at(paths: RunPaths) -> Reader:
    """Return the run for display: of a damaged journal, all that can be read."""
    try:
        return read_run(paths)
    except DamagedRecord:
        return read_behind_flaws(paths)


def read_behind_flaws(paths: RunPaths) -> Reader:
    """Read the same of a damaged journal, whole records alone. Raise UsageError beyond `MOST_FLAWS`."""
    from diel.store.journal.form import refuse_damaged  # types that a good journal does not need

    reader = Reader(paths, History())
    while True:
        try:
            reader.catch_up(refuse_damaged)
            return reader
        except DamagedRecord as error:
            reader.flaws.append(error.place)
            if len(reader.flaws) > MOST_FLAWS:
                raise


def told_damage(reader: Reader) -> list[str]:
    """List what of a journal was not read: damaged records and lines, and the number of others."""
    without = f"{reader.paths.run_id} is without"
    lines = [f"{without} a damaged record: {place}" for place in reader.flaws]
    lines += (f"{without} a damaged line: {place}" for place in reader.gaps[:MOST_FLAWS])
    more = len(reader.gaps) - MOST_FLAWS
    return [*lines, f"{without} {more:,} more"] if more > 0 else lines


def _load(paths: RunPaths) -> Reader | None:
    """Return the snapshot's content; None if it is missing, damaged or of another version."""
    try:
        document = json.loads(paths.snapshot.read_text(encoding="utf-8", errors="surrogateescape"))
        if document.pop("version") != VERSION:
            return None
        offsets = document.pop("offsets")
        document |= {
            "stages": {name: _stage(packed) for name, packed in document["stages"].items()},
            "failures": {(entry["stage"], entry["tasks"][0][0]): entry for entry in document["failures"]},
            "state": RunState(document["state"]),
            "uses": set(document["uses"]),
            "left": {(name, index): _attempt(packed) for name, index, packed in document["left"]},
            "axes": {label: _axis(packed) for label, packed in document["axes"].items()},
        }
        return Reader(paths, History(**document), offsets)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return None


def _stage(packed: dict[str, Any]) -> StageHistory:
    for name in ("states", "left_out"):
        packed[name] = _bytes(packed[name])
    for name in _BY_TASK:
        packed[name] = {int(index): value for index, value in packed.get(name, {}).items()}
    under_way = {index: _attempt(attempt) for index, attempt in packed["under_way"].items()}
    dropped = {output: set(spread(tasks)) for output, tasks in packed.get("dropped", {}).items()}
    shared = set(spread(packed.get("shared", ())))
    packed["surrogate"] = unpacked(surrogate, _bytes) if (surrogate := packed.get("surrogate")) else None
    return StageHistory(**{**packed, "under_way": under_way, "dropped": dropped, "shared": shared})


def _bytes(packed: str) -> bytearray:
    return bytearray(zlib.decompress(base64.b64decode(packed)))


def _attempt(packed: dict[str, Any]) -> Attempt:
    return Attempt(**{**packed, "state": TaskState(packed["state"])})


def _axis(packed: dict[str, Any]) -> AxisHistory:
    courses = [_course(course) for course in packed["courses"]]
    facts = None if packed["facts"] is None else AxisFacts(**packed["facts"])
    return AxisHistory({course.context: course for course in courses}, facts)


def _course(packed: dict[str, Any]) -> Course:
    trials = [_trial(trial) for trial in packed["trials"]]
    rounds = [Round(**entry) for entry in packed["rounds"]]
    return Course(**{**packed, "context": tuple(packed["context"]), "trials": trials, "rounds": rounds})


def _trial(packed: dict[str, Any]) -> Trial:
    reported = {int(step): value for step, value in packed["reported"].items()}
    return Trial(**{**packed, "state": TrialState(packed["state"]), "reported": reported})
