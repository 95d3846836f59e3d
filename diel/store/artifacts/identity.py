"""Whether a file or directory is still what was recorded of it: a look says so, or else its content.

An identity is a file's size, the times of its last changes and its inode; of a directory, those of its files
together. Where it differs from the record, as after a copy or through a hard link, the digest decides.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from diel.base.errors import ModuleError
from diel.store.artifacts.artifact import (
    EXECUTABLE,
    LINK,
    Artifact,
    Way,
    content,
    files_below,
    identities_below,
    identity_of,
    list_file,
    member_content,
)

TICK = 20_000_000
"""Nanoseconds within which a second change of a file may leave its times as they are."""
TRIES = 5
State = tuple[tuple[str, int], int]
"""A file's identity and when it last changed, and how many links it has; 0 for a directory."""
Listed = Mapping[str, tuple[str, str]]
"""The files of a directory by name, each with its identity and digest."""
_SHOWN = 3
_directories: set[tuple[str, str]] = set()
"""Directories found as recorded, with their identities: the next task looks at its end alone."""
_verified: set[tuple[str, str, str]] = set()
"""Paths whose content this process compared, each with the identity and the digest that it then had."""


def differences(path: str, digest: str, identity: str, *, look: bool = True) -> list[str]:
    """List what differs from a record; nothing if all is the same. Without `look` compare contents."""
    try:
        now, _ = identity_of(path)
        if look and (now == identity or (path, now, digest) in _verified):
            return []
        way: Way = "stat" if digest.startswith("stat-") else "content"
        listed = _listed(path) if os.path.isdir(path) else {}
        if listed and look:
            changed = [*_named(listed, _members(path, listed, way))]
        else:
            members: dict[str, str] = {}
            found = content(path, way, members)[1]
            same = found.removesuffix(EXECUTABLE) == digest.removesuffix(EXECUTABLE)
            why = f"its mode: it can{'not' if found in digest else ''} be executed now" if same else ""
            named = [] if found == digest else [*_named(listed, members)]
            changed = [] if found == digest else named or [why or _size_text(path, identity)]
    except FileNotFoundError:
        return ["it is gone"]
    except OSError as error:
        return [f"it cannot be read: {error.strerror}"]
    if not changed:
        _verified.add((path, now, digest))
    return changed


def _size_text(path: str, identity: str) -> str:
    if os.path.isdir(path) or "-" not in identity:
        return "its content is another"
    before, now = int(identity.partition("-")[0], 16), os.stat(path).st_size
    return f"it has {now} bytes and had {before}" if before != now else f"other content in its {now} bytes"


def _members(path: str, listed: Listed, way: Way) -> dict[str, str]:
    """Return the digests of a directory's files: as listed of those whose identity is as it was."""
    members = {}
    for name, identity in identities_below(path)[0].items():
        before = listed.get(name, ("", ""))
        same = before[0] == identity
        is_link = identity.startswith(LINK)
        members[name] = before[1] if same else identity if is_link else member_content(path, name, way)[1]
    return members


def _named(listed: Listed, members: Mapping[str, str]) -> Iterator[str]:
    """Yield the files of a directory that are not as they were listed."""
    for name in sorted({*listed, *members} if listed else ()):
        if name not in members:
            yield f"its file '{name}' is gone"
        elif name not in listed:
            yield f"its file '{name}' is new"
        elif listed[name][1] != members[name]:
            yield f"its file '{name}' is another"


def _listed(path: str) -> Listed:
    """Return the files of a directory as they were listed; empty where nobody did, as in older runs."""
    for folder in Path(path).parents:
        if folder.name == "tasks":
            with suppress(OSError, ValueError):
                place = list_file(str(folder.parent), path[len(str(folder)) + 1 :])
                listing: Listed = json.loads(Path(place).read_bytes())
                return listing
    return {}


def is_same(path: str, entry: Any) -> bool:
    """Return whether a file or directory is as recorded; then its record gets the present identity."""
    if differences(path, entry["digest"], entry.get("identity", "")):
        return False
    entry["identity"] = identity_of(path)[0]
    return True


def text_of(changes: list[str]) -> str:
    """Differences in a message: only the first if there are many."""
    more = len(changes) - _SHOWN
    return "; ".join([*changes[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def artifacts_in(value: Any) -> Iterator[Artifact]:
    """Yield the artifacts in a value that a task reads."""
    if type(value) is Artifact:
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from artifacts_in(item)


class FileChanged(ModuleError):
    """A file is not what it was when it was made, or when the run first read it."""


class FirstLook(NamedTuple):
    """A file or directory of a user, as the run first read it. Nobody copies it or takes away permissions."""

    name: str
    """What the workflow calls it: `files.script`."""
    path: str
    digest: str
    identity: str
    changed: int = 0
    """When it last changed before that, in nanoseconds: of a directory, anything in it."""


def look_at(name: str, path: str) -> FirstLook:
    """Read a file or directory for the first time. Raise OSError, and Changed where it is being written."""
    for _ in range(TRIES):
        if abs(time.time_ns() - identity_of(path)[1]) < TICK:
            time.sleep(TICK / 1e9)
        (identity, changed), digest = identity_of(path), content(path)[1]
        if identity_of(path)[0] == identity:
            return FirstLook(name, path, digest, identity, changed)
    raise FileChanged(f"{name}: {path} is being written: wait until it is whole")


def refuse_newer(whole: FirstLook, path: str) -> None:
    """Refuse a file that was read by another name, or in its directory, and is another now. Raise Changed."""
    with suppress(OSError):  # who reads it says that it is gone
        is_newer = whole.changed and identity_of(path)[1] > whole.changed
        if is_newer and differences(whole.path, whole.digest, whole.identity):
            raise FileChanged(f"{path} was changed since the run read {whole.name}, {whole.path}")


def hold(file: FirstLook) -> State:
    """Return the state of a file that is still the same. Raise Changed."""
    name, path, digest, identity, _ = file
    try:
        now = identity_of(path)
        if now[0] != identity and (changes := differences(path, digest, identity)):
            what = _newer_file(file) if os.path.isdir(path) else text_of(changes)
            raise FileChanged(f"{name}: {path} is not what it was when the run first read it: {what}")
        return now, 0 if os.path.isdir(path) else os.stat(path).st_nlink
    except OSError as error:
        raise FileChanged(f"{name}: {path} cannot be read any more: {error.strerror}") from error


def _newer_file(whole: FirstLook) -> str:
    """Return what differs in a directory, by the times of its files. Raise OSError."""
    below, since = files_below(whole.path), whole.changed
    newer = (name for name in below if os.stat(os.path.join(whole.path, name)).st_ctime_ns > since)
    return next((f"its file '{name}' was written since" for name in newer), "a file in it came or went")


class ReadFiles:
    """What a task reads, compared before it begins and once it has ended."""

    def __init__(
        self, reads: Mapping[str, Any] | None, files: Sequence[FirstLook] = (), reader: str = "it"
    ) -> None:
        """Take the artifacts of other tasks, by name, and the `files` of users."""
        self._reads, self._files, self._reader = reads or {}, files, reader
        self._states: list[State] = []
        self._young: set[str] = set()
        """Files that changed a moment before: another change might not show."""

    def begin(self) -> None:
        """Raise Changed where any of them is no longer what it was."""
        self._refuse(ended=False)
        self._states = [hold(file) for file in self._files]

    def end(self, *, failed: bool = False) -> None:
        """Raise Changed where any is another now; of a task that `failed`, only users' files matter. These
        were written even if their content is the same again: nobody knows what the task read. Another hard
        link changes their times too, and nothing else."""
        for file, before in zip(self._files, self._states, strict=True):
            (identity, changed), links = hold(file)
            if (identity != before[0][0] or changed > before[0][1]) and links == before[1]:
                why = f": {_newer_file(file)}" if os.path.isdir(file.path) else ""
                raise FileChanged(f"{file.name}: {file.path} was written while the task ran{why}")
        if not failed:
            self._refuse(ended=True)

    def _refuse(self, *, ended: bool) -> None:
        if changes := self.look(ended=ended):
            problem = f"has changed since it was made: {changes}"
            if ended and self._reader == "it":
                rule = "a task leaves its inputs as they are: let it write to a copy"
                problem = f"changed while it ran: {changes}; {rule}"
            raise FileChanged(f"what {self._reader} reads {problem}")

    def look(self, *, ended: bool) -> str:
        """Say which artifact differs from its record, and how; empty if none does."""
        for name, value in self._reads.items():
            for artifact in artifacts_in(value):
                if changes := self._changes(artifact, ended=ended):
                    return f"'{name}' ({artifact}): {text_of(changes)}"
        return ""

    def _changes(self, artifact: Artifact, *, ended: bool) -> list[str]:
        path = str(artifact)
        whole = path, artifact.identity
        if not ended:
            if whole in _directories:
                return []
            try:
                now, changed = identity_of(path)
            except OSError:
                return differences(path, artifact.digest, artifact.identity)
            if time.time_ns() - changed < TICK:
                self._young.add(path)
            if now == artifact.identity:
                return []
        changes = differences(path, artifact.digest, artifact.identity, look=path not in self._young)
        if ended and not changes and "-" not in artifact.identity:
            _directories.add(whole)
        return changes
