"""An artifact, a file or directory that a task made: its record, the value that others read, its digest.

Files are hashed with XXH3 at 128 bits, which is quicker than any disk (docs/decisions/021); keys, which must
not collide even where somebody wants them to, with BLAKE2b.
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

import xxhash

from diel.base.terms import OWN_FILES

Artifacts = dict[str, dict[str, Any]]
"""By output: `path` from the run's directory, `size`, `digest`; of a list `files`, each with these."""

Way = Literal["content", "stat"]
"""By content, or by size, time of the last change and inode, without reading."""
CHUNK = 1024 * 1024
"""Bytes to hash at a time: few enough to still be in the processor's cache when written."""
_UNREADABLE = (errno.EACCES, errno.ENAMETOOLONG, errno.ELOOP)
"""Errors that a task itself caused in its files; others are the node's or the file system's."""


class Breach(Exception):
    """What an output is against its contract; who collects it puts the output's name in front."""


class Artifact(str):
    """The path of an artifact, which also knows its digest, its size, and where in the file its data is."""

    digest: str
    inside: str | None
    bytes: int
    """Its size, for expressions; 0 for a worker, which has the file itself."""
    identity: str
    """What a look at it showed when it was made (see `identity.py`); empty in older runs."""
    name: str
    """Its path in the directory of its maker, for keys: who reads it sees that name."""

    def __new__(
        cls,
        path: str,
        digest: str,
        inside: str | None = None,
        size: int = 0,
        identity: str = "",
        name: str = "",
    ) -> "Artifact":
        text = super().__new__(cls, path)
        text.digest = digest
        text.inside = inside
        text.bytes = size
        text.identity = identity
        text.name = name
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Artifact, (str(self), self.digest, self.inside, 0, self.identity)


class File(str):
    """The path of a file or directory that a workflow names, links followed."""

    written: str
    """The path as the workflow has it: its links may lead elsewhere later."""

    def __new__(cls, path: str, written: str = "") -> "File":
        """Make a source of a path; `written` is the same without a link that is followed, if there is one."""
        file = super().__new__(cls, path)
        file.written = written or path
        return file

    @property
    def bytes(self) -> int:
        """Its size, for expressions. Raise OSError where it cannot be read."""
        if not os.path.isdir(self):
            return os.stat(self).st_size
        return sum(os.stat(os.path.join(self, name)).st_size for name in files_below(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def files_of(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the files (or the directory) of an entry of a record, each with path, size, digest."""
    files: Sequence[Mapping[str, Any]] | None = entry.get("files")
    return (entry,) if files is None else files


def describe(path: str, task: str, run: str, way: Way = "content") -> dict[str, Any]:
    """Return path, size and digest of an output. Raise Breach where it is missing or elsewhere."""
    whole = os.path.join(task, path)
    inner = os.path.normpath(whole[len(task) + 1 :])
    if inner.partition("/")[0] in OWN_FILES:
        raise Breach(f"diel itself writes {inner} in the task's directory; give the file another name")
    is_plain = whole.startswith(f"{task}/") and task.startswith(f"{run}/") and ".." not in whole
    try:
        is_plain = is_plain and not _passes_links(task, inner)
        real = whole if is_plain else os.path.realpath(whole, strict=True)
        status = os.stat(real)
    except (OSError, ValueError) as error:  # a circle of links; a NUL in the path
        raise Breach(f"no file '{path}'; the task wrote {written(task)}") from error
    if not (is_plain or _is_below(real, os.path.realpath(task))):
        raise Breach(f"{path} is outside the task's directory")
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise Breach(f"{path} is neither a file nor a directory")
    if ".." in whole.split("/") or not whole.startswith(f"{run}/"):
        whole, run = real, os.path.realpath(run)
    place = f"{task[len(run) + 1 :]}/{inner}" if is_plain else os.path.relpath(whole, run)
    try:
        if stat.S_ISDIR(status.st_mode):
            return {"path": place, **_describe_directory(real, way, list_file(run, place))}
        size, digest = file_content(real, way)
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
        raise Breach(f"{path} cannot be read: {error.strerror}") from error
    return {"path": place, "size": size, "digest": digest, "identity": _identity(status)}


def _passes_links(task: str, inner: str) -> bool:
    """Return whether a path below a task's directory leads through a link: a task may make 10,000 files."""
    places = accumulate(inner.split("/"), "{}/{}".format, initial=task)
    next(places)
    return any(map(os.path.islink, places))


def _describe_directory(path: str, way: Way, listed: str) -> dict[str, Any]:
    """Return size, digest and identity of a directory, whose files are written to `listed`."""
    before, _ = identities_below(path)  # first: whatever changes them from here on changes that
    members: dict[str, str] = {}
    size, digest = content(path, way, members)
    os.makedirs(os.path.dirname(listed), exist_ok=True)
    with open(listed, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump({name: [before.get(name, ""), inner] for name, inner in members.items()}, file)
    return {"size": size, "digest": digest, "identity": _identity_of_all(before)}


def list_file(run: str, path: str) -> str:
    """Return the list of a directory's files, with identities and digests, by its path in its run."""
    return f"{run}/identities/{path.removeprefix('tasks/')}.json"


def identity_of(path: str | Path) -> tuple[str, int]:
    """Return the identity of a file or directory, and when it last changed, in nanoseconds. Raise OSError."""
    if os.path.isdir(path):
        identities, changed = identities_below(path)
        return _identity_of_all(identities), changed
    status = os.stat(path)
    return _identity(status), status.st_ctime_ns


def identities_below(directory: str | Path) -> tuple[dict[str, str], int]:
    """Return identities of a directory's content, and when any last changed, in ns. Raise OSError."""
    identities: dict[str, str] = {}
    changed, folders = _changed_folder(directory), {""}
    for name, link in entries_below(directory):
        folder = os.path.dirname(name)
        while folder not in folders:  # it tells what came and went
            folders.add(folder)
            changed = max(changed, _changed_folder(os.path.join(directory, folder)))
            folder = os.path.dirname(folder)
        identities[name] = "" if link is None else f"{LINK}{link}"
        if not (identities[name] or name.endswith("/")):
            status = os.stat(os.path.join(directory, name))
            identities[name], changed = _identity(status), max(changed, status.st_ctime_ns)
    return identities, changed


def _changed_folder(path: str | Path) -> int:
    """Return when a directory last changed, in ns; 0 where Python may have, which makes its cache there."""
    changed, cache = os.stat(path).st_ctime_ns, os.path.join(path, "__pycache__")
    return 0 if os.path.isdir(cache) and os.stat(cache).st_ctime_ns >= changed else changed


def _identity(status: os.stat_result) -> str:
    return f"{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ctime_ns:x}-{status.st_ino:x}"


def _identity_of_all(identities: Mapping[str, str]) -> str:
    text = "".join(f"{name}\0{identity}\0" for name, identity in identities.items())
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogateescape"))


def written(task_dir: str | Path) -> str:
    """Name what a task left in its directory, for a message."""
    entries = sorted(os.listdir(task_dir)) if os.path.isdir(task_dir) else []
    return ", ".join(entry for entry in entries if not entry.startswith("."))[:200] or "nothing"


def content(path: str | Path, way: Way = "content", members: dict[str, str] | None = None) -> tuple[int, str]:
    """Return size and digest of a file or directory, with those of its `members` by name."""
    if not os.path.isdir(path):
        return file_content(path, way)
    size, digest = 0, xxhash.xxh3_128()
    for name, link in entries_below(path):
        length, inner = member_content(path, name, way) if link is None else (0, f"{LINK}{link}")
        if members is not None:
            members[name] = inner
        size += length
        digest.update(f"{name}\0{inner}\0".encode("utf-8", "surrogateescape"))
    return size, digest.hexdigest() if way == "content" else f"stat-{digest.hexdigest()}"


def member_content(directory: str | Path, name: str, way: Way = "content") -> tuple[int, str]:
    """Return size in bytes and digest of an entry of a directory that is no link."""
    return (0, "") if name.endswith("/") else file_content(os.path.join(directory, name), way)


LINK = "-> "
"""Begins what stands in place of the digest of a link, and of its identity."""
EXECUTABLE = "+x"
"""Ends the digest of a file that can be executed: what starts it would fail without."""


def file_content(path: str | Path, way: Way = "content") -> tuple[int, str]:
    """Return size in bytes and digest of a file."""
    if way == "stat":
        status = os.stat(path)
        marks = f"{status.st_size}-{status.st_mtime_ns:x}-{status.st_ino:x}"
        return status.st_size, f"stat-{marks}{_suffix(status)}"
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        size, suffix = status.st_size, _suffix(status)
        if size < CHUNK:
            data = os.read(file, size + 1)
            if len(data) == size:
                return size, xxhash.xxh3_128_hexdigest(data) + suffix
            os.lseek(file, 0, os.SEEK_SET)  # it changes while it is read
        size, digest, buffer = 0, xxhash.xxh3_128(), memoryview(bytearray(CHUNK))
        while length := os.readv(file, [buffer]):
            digest.update(buffer[:length])
            size += length
        return size, digest.hexdigest() + suffix
    finally:
        os.close(file)


def _suffix(status: os.stat_result) -> str:
    return EXECUTABLE if status.st_mode & stat.S_IXUSR else ""


class TreeEntry(NamedTuple):
    """What a directory holds: a file, an empty directory, whose name ends with a slash, or a link."""

    name: str
    """Its path below the directory."""
    link: str | None = None
    """Where it leads, if it is a link that stays one: relative to its place if it leads to a directory of the
    same tree; as it is if it leads nowhere, round in a circle, or to what only the system has."""


def files_below(directory: str | Path) -> list[str]:
    """Return the files of a directory and of those in it, relative to it and sorted by their parts."""
    return [name for name, link in entries_below(directory) if link is None and not name.endswith("/")]


def entries_below(directory: str | Path) -> list[TreeEntry]:
    """Return all that a directory holds, relative to it and sorted by its parts: no pipes, no sockets, no
    caches of Python. A link to a file is the file; one to a directory of another tree is that directory."""
    top = os.fspath(directory)
    return sorted(_entries(top, "", ((os.path.realpath(top), ""),)), key=lambda entry: entry.name.split("/"))


_SYSTEM = ("/proc", "/sys", "/dev")


def _entries(top: str, prefix: str, trees: tuple[tuple[str, str], ...]) -> Iterator[TreeEntry]:
    """`trees` are the top and the directories entered by links, each with its name below the top."""
    with os.scandir(os.path.join(top, prefix)) as listing:
        inner = [entry for entry in listing if entry.name != "__pycache__"]  # any reader may write it
    if prefix and not inner:
        yield TreeEntry(prefix)
    for entry in inner:
        name = prefix + entry.name
        if not entry.is_symlink():
            if entry.is_file():
                yield TreeEntry(name)
            elif entry.is_dir():
                yield from _entries(top, f"{name}/", trees)
        elif os.path.isdir(entry.path):
            yield from _linked(top, name, trees)
        elif os.path.isfile(entry.path):
            yield TreeEntry(name)
        elif not os.path.exists(entry.path):
            yield TreeEntry(name, os.readlink(entry.path))


def _linked(top: str, name: str, trees: tuple[tuple[str, str], ...]) -> Iterator[TreeEntry]:
    path = os.path.join(top, name)
    real = os.path.realpath(path)
    for tree, prefix in trees:
        if _is_below(real, tree):
            place = os.path.normpath(os.path.join(prefix, os.path.relpath(real, tree)))
            yield TreeEntry(name, os.path.relpath(place, os.path.dirname(name) or "."))
            return
    if any(_is_below(tree, real) for tree, _ in trees) or any(_is_below(real, folder) for folder in _SYSTEM):
        yield TreeEntry(name, os.readlink(path))
        return
    yield from _entries(top, f"{name}/", (*trees, (real, name)))


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def digest_of(parts: Iterable[Any], *, in_order: bool = False) -> str:
    """Return the digest of JSON values. `in_order`: the order of keys counts, as in what tasks read."""
    text = json.dumps(list(parts), sort_keys=not in_order, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
