"""Directories that are kept by the content of what was asked for: made once, shared by runs.

A directory is made where it stays, as `<digest>.<host>-<pid>`: programs of Conda hold their place as text.
When it is whole, a link named `<digest>` is made to it in one step. One without a link is used by nobody.
"""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from diel.base.errors import UsageError
from diel.base.files import is_own
from diel.base.paths import RunPaths, kept_environments

OLD = 86400.0
"""Seconds after which a directory without a link counts as left behind, if its maker was on another host."""
LOCK = "lock.txt"
"""In a kept directory: the list of its packages, one a line."""
Tell = Callable[[str], None]


def make_once(store: Path, digest: str, make: Callable[[Path], None]) -> Path:
    """Return this digest's directory, made if need be. Raise OSError, UsageError if others write there."""
    link = store / digest
    store.mkdir(0o755, parents=True, exist_ok=True)
    refuse_shared(store)
    if link.is_dir():
        refuse_shared(link, mask=0)
    else:
        for path in list(left_behind(store)):
            shutil.rmtree(path, ignore_errors=True)
        place = store / f"{digest}.{socket.gethostname()}-{os.getpid()}"
        shutil.rmtree(place, ignore_errors=True)
        try:
            make(place)
            _put_link(link, place)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
    with contextlib.suppress(OSError):  # it may be somebody else's
        os.utime(link)
    return link


def refuse_shared(folder: Path, mask: int = 0o022) -> None:
    """Raise UsageError where another user could have put something into a directory: it would be executed."""
    if not is_own(os.stat(folder), bits=mask):
        what = f"{folder} is another user's, or others can write there: what they put there would be executed"
        own = f"chmod go-w {shlex.quote(str(folder))}"
        hint = f"make it yours alone, {own}, or name another as `cache` of the site"
        raise UsageError(f"{what}\n    {hint}")


def _put_link(link: Path, place: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not link.exists():  # its target was deleted by hand
            link.unlink()
    try:
        link.symlink_to(place.name)
    except FileExistsError:
        shutil.rmtree(place, ignore_errors=True)


def left_behind(store: Path) -> Iterator[Path]:
    """Yield the directories without a link whose makers are gone."""
    linked = {os.readlink(path) for path in store.glob("*") if path.is_symlink()}
    for path in store.glob("*.*-*"):
        host, _, process = path.name.partition(".")[2].rpartition("-")
        if path.name in linked or not process.isdecimal():
            continue
        if host == socket.gethostname():
            gone = not os.path.exists(f"/proc/{process}")
        else:
            gone = time.time() - path.stat().st_mtime > OLD
        if gone:
            yield path


def unneeded_environments(runs: Path, listed: Iterable[RunPaths]) -> list[Path]:
    """Return the kept environments that none of these runs names, and the leftovers of killed builds."""
    store = kept_environments(runs)
    named = ""
    for paths in listed:
        with contextlib.suppress(OSError):
            named += paths.environments.read_text("utf-8")
    links = sorted(path for path in store.glob("*") if path.is_symlink())
    return [*(path for path in links if path.name not in named), *left_behind(store)]


def remove_environment(path: Path) -> None:
    """Remove a kept environment: first the link, so that nobody finds half of it. Raise OSError."""
    place = path.parent / os.readlink(path) if path.is_symlink() else path
    if path.is_symlink():
        path.unlink()
    shutil.rmtree(place, ignore_errors=True)


def find_tool(*names: str) -> str | None:
    """Return the first of some programs that is on PATH or beside this Python."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)])
    return next((program for name in names if (program := shutil.which(name, path=path))), None)


def output_of(
    words: Sequence[str], head: str, folder: Path | None = None, timeout: float | None = None
) -> str:
    """Return a program's output. Raise UsageError with `head` and the program's words, and TimeoutExpired."""
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            words, stdin=nothing, capture_output=True, text=True, check=False, cwd=folder, timeout=timeout
        )
    except OSError as error:
        raise UsageError(f"{head}: {words[0]}: {error.strerror}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()[-20:]
        raise UsageError("\n    ".join([f"{head}: {os.path.basename(words[0])} says", *lines]))
    return done.stdout
