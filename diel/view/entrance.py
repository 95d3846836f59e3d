"""Where a page is served: a socket in a folder of the user's own, or a port of this machine with a token."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import socketserver
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any, Protocol

import click

from diel.errors import MISTAKE, UsageError

LOCAL_PORT = 8080
"""The port on the user's own machine in the line that is printed."""
LONGEST = 100
"""Bytes of a socket's path; Linux takes 107 (unix(7))."""
LOOPBACK = "127.0.0.1"


class Entrance(Protocol):
    """Something that listens, and how to get there."""

    token: str
    """What a request must show; empty if the place itself keeps others out."""

    def listen(self, handler: type[socketserver.BaseRequestHandler]) -> socketserver.BaseServer: ...
    def told(self) -> list[str]: ...
    def remove(self) -> None: ...


class _Threads(socketserver.ThreadingMixIn):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error; anything else is one of diel's."""
        error = sys.exception()
        if not isinstance(error, OSError):
            click.echo(f"{MISTAKE}: {type(error).__name__}: {error}", err=True)


class _UnixServer(_Threads, socketserver.UnixStreamServer):
    pass


class _PortServer(_Threads, socketserver.TCPServer):
    allow_reuse_address = True


class OwnSocket:
    """A Unix socket that its owner alone can open: made with its mode, in a directory nobody else enters."""

    token = ""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="diel-view-", dir=_private_folder()))  # of mode 0700
        self.path = self._folder / "view.sock"

    def listen(self, handler: type[socketserver.BaseRequestHandler]) -> socketserver.BaseServer:
        before = os.umask(0o177)  # the mode is 0600 from the beginning, and not only after a chmod
        try:
            server = _UnixServer(str(self.path), handler)
        except OSError as error:
            raise UsageError(f"cannot listen on {self.path}: {error.strerror}") from error
        finally:
            os.umask(before)
        found = os.lstat(self.path)
        if not stat.S_ISSOCK(found.st_mode) or stat.S_IMODE(found.st_mode) != 0o600:
            server.server_close()
            where = "set TMPDIR or XDG_RUNTIME_DIR to a disk of this machine"
            raise UsageError(f"{self.path}: this file system does not keep the mode of a socket; {where}")
        return server

    def told(self) -> list[str]:
        return [
            "On your own machine:",
            f"    ssh -N -L {LOCAL_PORT}:{self.path} {_login()}",
            f"and open http://localhost:{LOCAL_PORT}/",
        ]

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Port:
    """A port of the loopback interface, which every user here can reach: so a token is asked for."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.token = secrets.token_urlsafe(32)

    def listen(self, handler: type[socketserver.BaseRequestHandler]) -> socketserver.BaseServer:
        try:
            server = _PortServer((LOOPBACK, self.number), handler)
        except OSError as error:
            again = "choose another, or 0 for any that is free"
            raise UsageError(f"cannot listen on port {self.number}: {error.strerror}; {again}") from error
        self.number = server.server_address[1]
        return server

    def told(self) -> list[str]:
        return [
            "Here, or on your own machine after",
            f"    ssh -N -L {self.number}:{LOOPBACK}:{self.number} {_login()}",
            f"open http://localhost:{self.number}/?token={self.token}",
        ]

    def remove(self) -> None:
        pass


def _private_folder() -> Path:
    """The user's runtime directory if it is theirs alone, else the place of temporary files."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
    try:
        found = os.lstat(runtime)
        theirs = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    except OSError:
        theirs = False
    for folder in (runtime if theirs else Path("/tmp"), Path(tempfile.gettempdir())):
        if folder.is_dir() and os.access(folder, os.W_OK) and len(os.fsencode(folder)) < LONGEST - 40:
            return folder
    return Path("/tmp")


def _login() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"
