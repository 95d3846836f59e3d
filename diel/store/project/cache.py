"""The cache: results of earlier runs, found by their key.

A run leaves a sorted file of its keys behind, of which looking one up reads a few bytes; where it is missing,
the next run that looks makes it from the journal. It names the families of its keys (what the tasks of a
stage share), so that runs which cannot have a key are not asked.

    line of JSON: {"version": 1, "families": [...], "segments": [...]}
    then, sorted: key (16 bytes), segment number (4 bytes), offset (6 bytes), big-endian
"""

import json
import mmap
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diel.base.errors import DielError, JournalError, UsageError
from diel.base.files import replacing
from diel.base.paths import RunPaths
from diel.store.artifacts import digest_of, files_of, is_same
from diel.store.journal.records import PrunedRecord, Result
from diel.store.journal.segment import decode, read_keyed, segments
from diel.store.journal.snapshot import read_run
from diel.store.project.lease import driver
from diel.store.project.runs import all_runs, home_of_run, identity_of_run
from diel.workflow.modules.sources import digest_of_bytes

VERSION = 2
MAX_RUNS = 100
"""How many of the newest runs to ask: each costs an open file, and `cached` results carry keys on."""
_KEY = 16
_COMMITS = (b'{"event":"done"', b'{"event":"cached"', b'{"event":"pruned"')
_SHARED = b',"same":'
"""In the record of a result that an equal task of the same run has made, which has the same key."""
_KEY_IN_LINE = re.compile(rb'"key":"([0-9a-f]{32})"')  # it comes before the values in our lines
_ENTRY = _KEY + 4 + 6


@dataclass(frozen=True)
class Keys:
    """The keys of one run, open for reading."""

    paths: RunPaths
    segments: tuple[str, ...]
    families: frozenset[str]
    data: bytes | mmap.mmap
    start: int
    count: int

    def find(self, key: bytes) -> tuple[str, int] | None:
        """Return segment and offset of the result with this key."""
        low, high = 0, self.count - 1
        low_key, high_key, goal = 0, (1 << 64) - 1, int.from_bytes(key[:8])
        while low <= high:  # keys are evenly spread, so a guess by proportion is nearly right
            span = max(high_key - low_key, 1)
            middle = low + min(max((goal - low_key) * (high - low) // span, 0), high - low)
            at = self.start + middle * _ENTRY
            stored = self.data[at : at + _KEY]
            if stored == key:
                entry = self.data[at + _KEY : at + _ENTRY]
                return self.segments[int.from_bytes(entry[:4])], int.from_bytes(entry[4:])
            if stored < key:
                low, low_key = middle + 1, int.from_bytes(stored[:8])
            else:
                high, high_key = middle - 1, int.from_bytes(stored[:8])
        return None

    def record(self, key: str) -> Result | PrunedRecord | None:
        """Return the record with this key; None if the run has none, or its journal is gone."""
        place = self.find(bytes.fromhex(key))
        try:
            record = None if place is None else read_keyed(self.paths.journal / place[0], place[1])
        except JournalError:
            return None
        return record if record is not None and record.get("key") == key else None


class Cache:
    """The results of the earlier runs in a directory; the newest run that has a key is asked."""

    def __init__(self, runs: Path, but: RunPaths) -> None:
        earlier = [paths for paths in reversed(all_runs(runs)) if paths.root != but.root]
        self._keys = [keys for paths in earlier[:MAX_RUNS] if (keys := open_keys(paths)) is not None]
        self._by_family: dict[str, list[Keys]] = {}
        self._suspects: dict[str, set[str]] = {}
        """By run, the stages whose surrogate failed its audit."""

    def find(self, family: str, key: str) -> Result | None:
        """Return the record of a result with unchanged artifacts, and with the `run` that made it."""
        for keys in self._candidates(family):
            record = keys.record(key)
            if record is not None and record["event"] != "pruned":
                runs = keys.paths.root.parent
                if "run" not in record:
                    record["run"], record["run_id"] = keys.paths.run_id, identity_of_run(keys.paths.root)
                home = home_of_run(runs, record["run"], record.get("run_id", ""))
                if is_whole(record, home) and not _may_go(record, home) and _is_current(record):
                    if identity := identity_of_run(home):
                        record["run"], record["run_id"] = home.name, identity
                    return record
        return None

    def condemned(self, family: str, key: str) -> str:
        """Return the run whose audits spoke against a surrogate's answer for a key; empty where none did."""
        for keys in self._candidates(family):
            record = keys.record(key)
            if record is not None and self._is_suspect(keys.paths, record["stage"]):
                return keys.paths.run_id
        return ""

    def _is_suspect(self, run: RunPaths, stage: str) -> bool:
        off = self._suspects.get(run.run_id)
        if off is None:
            with suppress(DielError):  # damage is reported when that run is read
                stages = read_run(run).history.stages.items()
                off = {name for name, plan in stages if plan.surrogate is not None and plan.surrogate.is_off}
            off = self._suspects[run.run_id] = off or set()
        return stage in off

    def reported(self, family: str, key: str, metric: str) -> list[tuple[int, float]]:
        """Return the most that a task reported of a metric before it was pruned, by step."""
        longest: list[tuple[int, float]] = []
        for keys in self._candidates(family):
            record = keys.record(pruned_key(key, metric))
            if record is not None and record["event"] == "pruned" and len(record["reported"]) > len(longest):
                longest = [(int(step), value) for step, value in record["reported"]]
        return longest

    def _candidates(self, family: str) -> list[Keys]:
        candidates = self._by_family.get(family)
        if candidates is None:
            candidates = [keys for keys in self._keys if family in keys.families]
            self._by_family[family] = candidates
        return candidates


def pruned_key(key: str, metric: str) -> str:
    """Return the key for what a pruned task reported of a metric, which is none of a result."""
    return digest_of([key, metric])


def is_whole(record: Result, home: Path) -> bool:
    """Return whether all files of a result are what they were when it was made."""
    files = (file for entry in record.get("artifacts", {}).values() for file in files_of(entry))
    return all(is_same(f"{home}/{file['path']}", file) for file in files)


def _is_current(record: Result) -> bool:
    """Return whether the files that its task found by a computed name, or by a pickle, are as they were."""
    with suppress(OSError):
        imports = record.get("imports", {}).items()
        return all(digest_of_bytes(Path(path).read_bytes()) == digest for path, digest in imports)
    return False


def _may_go(record: Result, home: Path) -> bool:
    """Return whether an artifact need not be kept, and its run is still going and will delete it."""
    passing = any(entry.get("keep") is False for entry in record.get("artifacts", {}).values())
    return passing and driver(RunPaths(home)) is not None


def open_keys(paths: RunPaths) -> Keys | None:
    """Return the keys of a run, made from its journal if missing; None if that is impossible."""
    try:
        keys = _open(paths)
        if keys is None and paths.lease.exists():
            write_keys(paths)
            keys = _open(paths)
        return keys
    except (OSError, UsageError):  # damage to another run is reported when that run is read
        return None


def _open(paths: RunPaths) -> Keys | None:
    try:
        with open(paths.cache_keys, "rb") as file:
            line = file.readline()
            header: dict[str, Any] = json.loads(line)
            size = os.fstat(file.fileno()).st_size - len(line)
            if header["version"] != VERSION or header["journal"] != _newest(paths):
                return None
            names, families = tuple(header["segments"]), frozenset(header["families"])
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return Keys(paths, names, families, data, len(line), size // _ENTRY)


def _newest(paths: RunPaths) -> int:
    """Return when a run's journal was last written, in nanoseconds since the epoch."""
    return max(((paths.journal / n).stat().st_mtime_ns for n in segments(paths.journal)), default=0)


def write_keys(paths: RunPaths) -> None:
    """Make the file of a run's keys from its journal, in one step."""
    newest, names = _newest(paths), segments(paths.journal)
    families: set[str] = set()
    entries: list[bytes] = []
    for number, name in enumerate(names):
        offset = 0
        with open(paths.journal / name, "rb") as file:
            for line in file:
                if line.startswith(_COMMITS) and not (_SHARED in line and "same" in (decode(line) or ())):
                    key = _KEY_IN_LINE.search(line)
                    if key is not None and line.endswith(b"\n"):
                        place = number.to_bytes(4) + offset.to_bytes(6)
                        entries.append(bytes.fromhex(key[1].decode()) + place)
                elif line.startswith(b'{"event":"stage"'):
                    stage = decode(line)
                    if stage is not None and stage["event"] == "stage":
                        families.add(stage.get("family", ""))
                offset += len(line)
    header = {"version": VERSION, "families": sorted(families), "segments": names, "journal": newest}
    with replacing(paths.cache_keys) as file:
        file.write(json.dumps(header).encode() + b"\n")
        file.writelines(sorted(entries))
