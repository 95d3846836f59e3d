"""The runs of a project: made, named, found."""

import contextlib
import json
import os
import re
import time
from pathlib import Path

from diel.base.errors import UsageError, did_you_mean
from diel.base.files import LONGEST
from diel.base.paths import RunPaths
from diel.store.journal.segment import segments

_RUN = re.compile(r"(?P<workflow>.+)-(?P<number>[0-9]+)")
SECOND = 10**9
"""Nanoseconds: file systems can keep times in whole seconds."""


def create_run(runs: Path, workflow: str) -> RunPaths:
    """Make the next run's directory: `<workflow>-<n>`, n counting up. Its path is the same by whatever link
    it is called: names of jobs and marks of processes are made from it."""
    try:
        runs.mkdir(parents=True, exist_ok=True)
        place = runs.resolve()
        numbered = map(_numbered, _listdir(runs))
        number = max((n for name, n in numbered if name == workflow), default=0)
        while True:
            number += 1
            paths = RunPaths(place / f"{workflow}-{number}")
            try:
                paths.root.mkdir(mode=0o700)
            except FileExistsError:
                continue  # another run was made in this moment
            _make_folders(paths)
            return paths
    except OSError as error:
        raise UsageError(f"cannot make a run in {runs}: {error.strerror or error}") from error


def _make_folders(paths: RunPaths) -> None:
    for folder in (paths.journal, paths.requests, paths.tasks, paths.captures):
        folder.mkdir(parents=True, exist_ok=True)


def mend_run(paths: RunPaths) -> None:
    """Make folders of a run again that somebody removed. Raise UsageError where the journal is gone."""
    if paths.lease.exists() and not any(name.startswith("controller") for name in segments(paths.journal)):
        raise UsageError(
            f"{paths.run_id}: its journal is gone ({paths.journal}), and with it what was done; "
            "put it back, or start again with `diel run`, which takes from the cache what earlier runs made"
        )
    try:
        _make_folders(paths)
    except OSError as error:
        raise UsageError(f"{paths.run_id}: cannot write in {paths.root}: {error.strerror}") from error


def _numbered(name: str) -> tuple[str | None, int]:
    match = _RUN.fullmatch(name)
    return (match["workflow"], int(match["number"])) if match else (None, 0)


def _listdir(runs: Path) -> list[str]:
    try:
        return os.listdir(runs)
    except OSError:
        return []


def runs_of(workflow: str, runs: Path) -> list[RunPaths]:
    """Return every run of a workflow, the oldest first."""
    return [paths for paths in all_runs(runs) if _numbered(paths.run_id)[0] == workflow]


def all_runs(runs: Path) -> list[RunPaths]:
    """Return every run, the oldest first."""
    dated = []
    place = runs.resolve()
    for name in _listdir(runs):
        paths = RunPaths(place / name)
        if (created := _creation(paths)) is not None:
            workflow, number = _numbered(name)
            # a coarse clock may have made two at once
            dated.append(((created, workflow or name, number), paths))
    return [paths for _, paths in sorted(dated, key=lambda item: item[0])]


def _creation(paths: RunPaths) -> int | None:
    """Return the time when a run was made, in nanoseconds since the epoch; None if it is not a run."""
    try:
        return paths.run_file.stat().st_mtime_ns
    except OSError:
        return None


def identity_of_run(root: Path) -> str:
    """Return the id of the run in a directory, or what older runs have for it; empty without a run."""
    try:
        file = RunPaths(root).run_file
        status = os.stat(file)
        stamp = status.st_ino, status.st_mtime_ns, status.st_ctime_ns
        entry = _identities.get(root)
        if entry is None or entry[0] != stamp:
            document = json.loads(file.read_bytes())
            before = f"{document['run']} {document['created']!r} {document['host']}"
            entry = _identities[root] = stamp, document.get("id") or before
        return entry[1]
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def home_of_run(runs: Path, name: str, identity: str = "") -> Path:
    """Return the directory of the run with an id, whatever its name is by now, or one that is not there."""
    home = runs / name
    if not identity or identity_of_run(home) == identity:
        return home
    with contextlib.suppress(OSError):
        status = os.stat(runs)
        place = runs, identity, status.st_mtime_ns
        if place not in _homes:
            roots = (paths.root for paths in all_runs(runs) if identity_of_run(paths.root) == identity)
            _homes[place] = next(roots, None)
        home = _homes[place] or runs / f"{name} ({identity[:8]})"
    return home


_identities: dict[Path, tuple[tuple[int, ...], str]] = {}
_homes: dict[tuple[Path, str, int], Path | None] = {}


def make_newest(paths: RunPaths) -> None:
    """Date a run just made after all others, even if the clock was set back since."""
    times = (_creation(other) or 0 for other in all_runs(paths.root.parent) if other.root != paths.root)
    newest, created = max(times, default=0), _creation(paths)
    if created is not None and created <= newest:
        os.utime(paths.run_file, ns=(newest + SECOND, newest + SECOND))


def stillborn(runs: Path) -> list[Path]:
    """Directories of runs whose `diel run` was killed while it made them: no controller took them."""
    candidates = (RunPaths(runs / name) for name in _listdir(runs) if _RUN.fullmatch(name))
    return sorted(paths.root for paths in candidates if _is_half_made(paths) and _quiet_for(paths) > LONGEST)


def _is_half_made(paths: RunPaths) -> bool:
    try:
        if paths.run_file.exists():
            return False
        if {*os.listdir(paths.root)} <= {paths.journal.name, paths.requests.name}:
            return not _listdir(paths.journal)  # these two are made first; a journal with lines is a run's
        return not os.listdir(paths.journal) + os.listdir(paths.tasks)
    except OSError:  # no run
        return False


def _quiet_for(paths: RunPaths) -> float:
    return time.time() - paths.root.stat().st_mtime


def find_run(runs: Path, name: str = "last") -> RunPaths:
    """Return a run by its name or path, a workflow's newest, or the `last`. Raise UsageError."""
    candidates = all_runs(runs)
    if name != "last":
        exact = [paths for paths in candidates if paths.run_id == name]
        if not exact and (Path(name) / "run.json").is_file():
            exact = [RunPaths(Path(name).resolve())]
        candidates = exact or [paths for paths in candidates if _numbered(paths.run_id)[0] == name]
    if not candidates:
        if name == "last":
            raise UsageError(f"no runs in {runs}: start one with `diel run FILE`, or give --runs DIR")
        _refuse_half_made(runs, name)
        if RunPaths(runs / name).journal.is_dir():
            raise UsageError(
                f"{runs / name} has lost its run.json, without which it is no run; is there a copy?"
            )
        hint = did_you_mean(name, [paths.run_id for paths in all_runs(runs)]) or "`diel list` shows the runs"
        raise UsageError(f"no run '{name}' in {runs}; {hint}")
    return candidates[-1]


def _refuse_half_made(runs: Path, name: str) -> None:
    """Raise UsageError for the directory of a run that is being made, or was never finished."""
    paths = RunPaths(runs / name)
    if not _RUN.fullmatch(name) or not _is_half_made(paths):
        return
    if _quiet_for(paths) > LONGEST:
        raise UsageError(
            f"'{name}' is not a run: `diel run` was killed while it made it, before any task began; "
            f"`diel clean {name}` removes what is left of it"
        )
    raise UsageError(
        f"'{name}' is not a run yet: `diel run` is making it, or was killed while it did; "
        f"ask again in {LONGEST:.0f} seconds"
    )
